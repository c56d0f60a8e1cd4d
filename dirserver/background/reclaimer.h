// Reclaimer: frees the bytes of files that lost their last name. REMOVE puts a record into the batch that
// removes the name; the worker hands every record to who holds the bytes and erases it when that one owes the
// removal. Records survive crashes; handing one on twice is harmless. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_RECLAIMER_H
#define SLICE_DIRSERVER_BACKGROUND_RECLAIMER_H

#include <deque>
#include <optional>

#include "common/log.h"
#include "dirserver/across/reclaim_queue.h"
#include "dirserver/background/data_servers.h"
#include "service/file_locks.h"

namespace slice::dirserver {

class Reclaimer : public ReclaimQueue {
 public:
  static constexpr std::size_t kAtOnce = 64;  // records handed on side by side
  static constexpr Duration kGather =
      std::chrono::milliseconds(20);               // there is no hurry, and many cost less together
  static constexpr std::size_t kQueued = 1 << 16;  // records in memory; more are found in the store later

  Reclaimer(service::ServiceContext& context, CellStore& cells, service::FileLocks& locks,
            DataServers& servers, std::uint32_t sites);

  std::optional<ReclaimRecord> add(Transaction& transaction, const AttributeCell& cell) override;
  void enqueue(ReclaimRecord record) override;
  // A site is here: goes on with what the store has of it from before.
  void recover();
  // The site went, and its records with it.
  void release(SiteId site);
  void stop() { stopping_ = true; }
  bool idle() const { return !running_; }

 private:
  void run_soon();
  Task<void> run();
  Task<bool> run_some();
  Task<Status> scan();
  Task<bool> hand_on(ReclaimRecord record);

  service::ServiceContext& context_;
  CellStore& cells_;
  service::FileLocks& locks_;
  DataServers& servers_;
  std::uint32_t sites_;
  std::deque<ReclaimRecord> queue_;
  storage::LogPosition erased_;  // up to which erased records are not known to be durable
  bool in_store_ = false;        // the store may have records that are not queued
  bool running_ = false;
  bool stopping_ = false;
  LogLimiter log_{1};
  Counter& added_;
  Counter& done_;
  Counter& retries_;
  Counter& queued_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_RECLAIMER_H
