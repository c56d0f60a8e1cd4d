// MemoryStore: a KvStore in memory that keeps durable and not yet durable changes apart, for tests and
// simulation. What is durable lives in a MemoryMedium, which outlives the store as a disk outlives a process:
// crash() ends the store and drops what was not durable; a new store on the same medium is the restart.
#ifndef SLICE_STORAGE_MEMORY_STORE_H
#define SLICE_STORAGE_MEMORY_STORE_H

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/loop.h"
#include "storage/kv_store.h"

namespace slice::storage {

// Every key with its versions, oldest first: readers look at the newest one not above their position.
class MemoryMedium {
 public:
  // Keys that are not deleted.
  std::size_t size() const;
  // Makes get() and iteration of this key answer kCorrupt, until it is written again.
  void corrupt(std::string_view key);

 private:
  friend class MemoryStore;
  friend class MemoryIterator;
  friend class MemorySnapshot;
  struct Version {
    std::uint64_t position = 0;
    std::optional<std::string> value;
    bool corrupt = false;
  };
  using Versions = std::vector<Version>;
  static const Version* visible(const Versions& versions, std::uint64_t at);

  std::map<std::string, Versions, std::less<>> keys_;
  std::uint64_t durable_ = 0;
};

class MemoryStore : public KvStore {
 public:
  struct Options {
    Duration sync_time = std::chrono::milliseconds(1);  // from the first waiter to the end of its sync
  };
  // `medium` and `loop` must outlive the store.
  MemoryStore(Loop& loop, MemoryMedium& medium, Options options);
  MemoryStore(Loop& loop, MemoryMedium& medium) : MemoryStore(loop, medium, Options{}) {}
  ~MemoryStore() override;

  Result<std::optional<std::string>> get(std::string_view key) const override;
  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const override;
  std::unique_ptr<KvReader> snapshot() const override;
  Result<LogPosition> apply(const WriteBatch& batch) override;
  Task<Status> durable(LogPosition position) override;
  LogPosition durable_position() const override { return LogPosition{medium_.durable_}; }

  // Power off, now: every later call fails (kIo), waiters get kUnavailable, and the medium keeps only what
  // was durable.
  void crash();
  // kill -9 of its process, now: of the batches that were applied and not durable the first `survivors` are
  // kept, as they had reached the system's cache. Later calls fail; nobody who waits is ever resumed.
  void kill(std::uint64_t survivors);

  // Faults.
  void fail_next_sync() { fail_next_sync_ = true; }
  void set_no_space(bool no_space);               // apply() answers kNoSpace meanwhile
  void hold_syncs(bool hold);                     // nothing becomes durable meanwhile
  std::uint64_t syncs() const { return syncs_; }  // how many there were: what group commit saves

 private:
  friend class MemoryIterator;
  friend class MemorySnapshot;
  struct Waiter {
    std::uint64_t position;
    OneShot<Status> done;
  };
  Result<std::optional<std::string>> get_at(std::string_view key, std::uint64_t position) const;
  void start_sync();
  void end_sync(std::uint64_t up_to);
  void drop_old_versions(MemoryMedium::Versions& versions) const;
  void close_medium(std::uint64_t survivors);
  void fail_waiters(Errc code, std::string_view reason);

  Loop& loop_;
  MemoryMedium& medium_;
  Options options_;
  std::uint64_t applied_ = 0;
  std::vector<Waiter> waiters_;
  mutable std::multiset<std::uint64_t> views_;  // positions that living iterators look at
  std::shared_ptr<bool> alive_;                 // false after a crash: timers of a sync under way do nothing
  bool syncing_ = false;
  bool hold_ = false;
  bool no_space_ = false;
  bool fail_next_sync_ = false;
  bool failed_ = false;
  std::uint64_t syncs_ = 0;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_MEMORY_STORE_H
