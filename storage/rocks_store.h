// RocksStore: the KvStore on RocksDB. Changes go to RocksDB's log in memory; one thread writes and syncs that
// log for everybody who waits in durable() (group commit).
//
// Errors. kCorrupt: a block, or the log at open, fails its checksum; or the store at open lacks changes that
// were durable, as far as the end mark beside it says (end_mark.h), which is at most a second behind.
// kNoSpace: less than min_free_bytes are left on the file system, and the change was not taken. When the file
// system is nevertheless found full in the middle of a write or sync, waiters go on waiting and changes are
// refused with kNoSpace until there is space again; then all that was applied becomes durable, or, where a
// part of the log was written that RocksDB cannot go on from in this process, waiters get kIo. After that, as
// after any other failed sync, the store refuses every later change (kIo) until the process is started again;
// nothing durable is lost.
#ifndef SLICE_STORAGE_ROCKS_STORE_H
#define SLICE_STORAGE_ROCKS_STORE_H

#include <memory>
#include <string>

#include "common/loop.h"
#include "common/metrics.h"
#include "storage/kv_store.h"

namespace slice::storage {

class RocksStore : public KvStore {
 public:
  // A start must replay what is in no table: 30 to 40 ms of a processor a MB, so half a second.
  static constexpr std::uint64_t kMostMemory = 8ull << 20;
  struct Options {
    std::string folder;                       // made where there is none; its parent must exist
    std::uint64_t cache_bytes = 64ull << 20;  // of uncompressed blocks
    // Of changes not yet in a table file, twice while one is written; kMostMemory at most.
    std::uint64_t memory_bytes = kMostMemory;
    std::uint64_t min_free_bytes = 8ull << 20;
    // Changes are durable when they are in a table, sooner or later, and in no log of this store: for who has
    // one of his own (logged_store.h). Then durable() has nothing to wait for, and says nothing.
    bool without_log = false;
  };
  // Opens and recovers; blocks meanwhile. `loop` must outlive the store; every method is called on its
  // thread.
  static Result<std::unique_ptr<RocksStore>> open(Loop& loop, Metrics& metrics, const Options& options);
  // Syncs what is applied, and closes. Waiters in durable() get kUnavailable.
  ~RocksStore() override;

  Result<std::optional<std::string>> get(std::string_view key) const override;
  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const override;
  std::unique_ptr<KvReader> snapshot() const override;
  std::uint64_t bytes_between(std::string_view begin, std::string_view end) const override;
  Result<LogPosition> apply(const WriteBatch& batch) override;
  Task<Status> durable(LogPosition position) override;
  LogPosition durable_position() const override;
  Status record_end() override;
  void set_min_free(std::uint64_t bytes) override;

  // As apply(), with one key more.
  Result<LogPosition> apply_with(const WriteBatch& batch, std::string_view key, std::string_view value);
  // kNoSpace: a change of so many bytes would be refused.
  Status check_space(std::uint64_t bytes);
  // Has everything that is applied now, and perhaps some of what is meanwhile, lie in `folder`, as files that
  // never change: hard links, where the file system is the same. The folder's parent exists, and the folder
  // does not. On a thread of its own; ends with kUnavailable where the store is closed.
  Task<Status> checkpoint(std::string folder);

 private:
  class Impl;
  explicit RocksStore(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Opens a store that is there for reading alone, and changes nothing on the disk: apply() is refused
// (kDenied). Nobody else may have it open for changes. kNotFound: there is none.
Result<std::unique_ptr<KvStore>> open_rocks_read_only(const RocksStore::Options& options);

}  // namespace slice::storage

#endif  // SLICE_STORAGE_ROCKS_STORE_H
