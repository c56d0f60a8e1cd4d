// LoggedStore: a KvStore whose durability lies on a Disk that may be far away: a log of all batches
// (storage/log.h), and now and then a checkpoint, which lets the log be cut. What is read is a RocksDB of
// this host, without a log of its own: a copy that can be made anew from checkpoint and log, and is where it
// does not fit them. Files on the disk, for a store of the name NAME (docs/formats/logged-store.md):
//   NAME.log/..., NAME.log.end    every batch, in order
//   NAME.checkpoint               which tables, up to which record of the log
//   NAME.tables/...               the tables
// One loop, but for what RocksDB does on threads of its own.
//
// Errors as RocksStore's. Where the log refuses a batch for good (storage::Log::sync) so does the store, from
// then on: what is durable is not known until it is opened again.
#ifndef SLICE_STORAGE_LOGGED_STORE_H
#define SLICE_STORAGE_LOGGED_STORE_H

#include <functional>
#include <memory>
#include <string>

#include "common/loop.h"
#include "common/metrics.h"
#include "storage/disk.h"
#include "storage/kv_store.h"
#include "storage/rocks_store.h"

namespace slice::storage {

class LoggedStore : public KvStore {
 public:
  struct Options {
    std::string name;                       // of its files on the disk
    RocksStore::Options tables;             // the copy; without_log is set by the store itself
    std::uint64_t log_bytes = 32ull << 20;  // a checkpoint is begun where the log is so long
    std::function<std::uint64_t()> random;  // 64 random bits
  };
  // Brings the copy up to the last record of the log; from nothing where there is none that fits. The disk
  // and the loop must outlive the store.
  static Task<Result<std::unique_ptr<LoggedStore>>> open(Loop& loop, Disk& disk, Metrics& metrics,
                                                         Options options);
  // For who may be to open the store of this name later, with `local` as the folder in which the copy's is:
  // has the tables of its last checkpoint there, and open() need not fetch them. `from` may change meanwhile,
  // by another run. Returns the bytes that were fetched now. kNoSpace: less than `reserve` bytes would be
  // free.
  static Task<Result<std::uint64_t>> look_ahead(Disk& from, Disk& local, std::string name,
                                                std::uint64_t reserve);
  ~LoggedStore() override;

  Result<std::optional<std::string>> get(std::string_view key) const override;
  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const override;
  std::unique_ptr<KvReader> snapshot() const override;
  std::uint64_t bytes_between(std::string_view begin, std::string_view end) const override;
  Result<LogPosition> apply(const WriteBatch& batch) override;
  Task<Status> durable(LogPosition position) override;
  LogPosition durable_position() const override;
  void set_min_free(std::uint64_t bytes) override;

  // Makes a checkpoint now, or waits for the one under way and makes another.
  Task<Status> checkpoint();

 private:
  class Impl;
  explicit LoggedStore(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with a checkpoint under way
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_LOGGED_STORE_H
