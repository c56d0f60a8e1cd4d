// Resync: makes copies that missed writes whole again, in the background: the copy joins (it gets every new
// write), the stripes that it misses are copied from a whole one, it is read again. One file's copy after
// another, at a bounded rate, of files that this is the coordinator of. One loop.
#ifndef SLICE_COORDINATOR_RESYNC_H
#define SLICE_COORDINATOR_RESYNC_H

#include "common/log.h"
#include "coordinator/file_gate.h"
#include "coordinator/layouts.h"
#include "coordinator/participants.h"
#include "service/file_locks.h"

namespace slice::coordinator {

class Resync {
 public:
  struct Options {
    Duration period = std::chrono::seconds(1);  // between looks for work
    std::uint64_t bytes_per_second = 64 << 20;
  };
  Resync(service::ServiceContext& context, FileGate& gate, Layouts& layouts, Sessions& sessions,
         Extents& extents, service::FileLocks& locks, Options options);

  ~Resync() { context_.loop.cancel(timer_); }
  Resync(const Resync&) = delete;
  Resync& operator=(const Resync&) = delete;

  void start();
  void stop() { stopping_ = true; }

 private:
  Task<void> work();
  Task<bool> make_whole(routing::FileHandle handle, std::uint32_t server);
  Task<std::optional<Extent>> extent_of(const routing::FileHandle& handle);
  Task<bool> empty_and_join(const routing::FileHandle& handle, std::uint32_t server);
  Task<bool> copy(const routing::FileHandle& handle, std::uint64_t stripe, std::uint32_t to);

  service::ServiceContext& context_;
  FileGate& gate_;
  Layouts& layouts_;
  Sessions& sessions_;
  Extents& extents_;
  service::FileLocks& locks_;  // a truncation, or a copy that is emptied and joins: one at a time
  Options options_;
  bool stopping_ = false;
  bool working_ = false;
  TimerId timer_ = TimerId::kNone;
  LogLimiter log_{1};
  Counter& files_;
  Counter& stripes_;
  Counter& failures_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_RESYNC_H
