#include "storage/rocks_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#include <sys/statvfs.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/trace.h"
#include "storage/posix_disk.h"
#include "storage/rocks_guard.h"
#include "storage/workers.h"

namespace slice::storage {
namespace {

constexpr std::size_t kHintedPrefix = 11;  // of a key of 13: all but the lowest 16 bits of its number
constexpr auto kEndMarkDelay = std::chrono::seconds(1);  // from a change to the end mark that tells of it
constexpr auto kSpaceRetry = std::chrono::milliseconds(200);
constexpr unsigned kMaxRefusals = 20;  // with space at hand, before it is given up
constexpr std::uint64_t kBytesBetweenSpaceChecks = 256 << 10;
constexpr Duration kTimeBetweenSpaceChecks = std::chrono::milliseconds(100);
// Stepping over a deleted key takes about so long, and so many are stepped over before deleted keys are
// cleared away: then about 50 ms of the loop's time have gone into them.
constexpr Duration kDeletedKeyCost = std::chrono::nanoseconds(200);
constexpr std::uint64_t kMostDeletedPassed = 256 << 10;

rocksdb::Slice as_slice(std::string_view text) {
  return {text.data(), text.size()};
}

Error error_of(const rocksdb::Status& status, std::string_view what) {
  Errc code = Errc::kIo;
  if (status.IsNoSpace()) {
    code = Errc::kNoSpace;
  } else if (status.IsCorruption()) {
    code = Errc::kCorrupt;
  }
  return Error{code, fmt::format("rocksdb: {}: {}", what, status.ToString())};
}

// RocksDB counts what it does, on this thread, while one of these lives; at all other times that is spared:
// it is a look-up of a thread's variable for each key that is compared.
class Counting {
 public:
  Counting() {
    if (depth_++ == 0) rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  }
  ~Counting() {
    --depth_;
    only_on_demand();
  }
  // A thread counts until it is told not to.
  static void only_on_demand() {
    if (depth_ == 0) rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  static inline thread_local int depth_ = 0;
};

// `passed` is told at the end how many deleted keys the iterator had to step over.
class RocksIterator : public KvIterator {
 public:
  using Passed = std::function<void(std::uint64_t deleted, std::string_view begin, std::string_view end)>;
  RocksIterator(rocksdb::DB& db, std::string_view begin, std::string_view end, Passed passed,
                const rocksdb::Snapshot* moment = nullptr)
      : begin_(begin), end_(end), upper_(end_), passed_(std::move(passed)) {
    passed_before_ = rocksdb::get_perf_context()->internal_delete_skipped_count;
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &upper_;
    options.snapshot = moment;
    at_.reset(db.NewIterator(options));
    at_->Seek(begin_);
  }
  ~RocksIterator() override {
    std::uint64_t deleted = rocksdb::get_perf_context()->internal_delete_skipped_count - passed_before_;
    at_.reset();
    if (deleted > 0) passed_(deleted, begin_, end_);
  }
  void seek(std::string_view at_or_after) override {
    at_->Seek(as_slice(std::max(at_or_after, std::string_view(begin_))));
  }
  void next() override { at_->Next(); }
  bool valid() const override { return at_->Valid(); }
  std::string_view key() const override { return {at_->key().data(), at_->key().size()}; }
  std::string_view value() const override { return {at_->value().data(), at_->value().size()}; }
  Status status() const override {
    if (!at_->status().ok()) return tl::unexpected(error_of(at_->status(), "iterate"));
    return {};
  }

 private:
  std::string begin_, end_;
  rocksdb::Slice upper_;
  Passed passed_;
  Counting counting_;
  std::uint64_t passed_before_ = 0;
  std::unique_ptr<rocksdb::Iterator> at_;
};

rocksdb::Options rocks_options(const RocksStore::Options& options) {
  rocksdb::Options out;
  out.create_if_missing = true;
  out.paranoid_checks = true;
  out.manual_wal_flush = true;  // the log is written by the sync thread, once for all who wait
  // A torn record at the end was never synced; anything else that is wrong in the log is an error, since
  // stopping there would drop acknowledged changes silently.
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  out.write_buffer_size = std::min(options.memory_bytes, RocksStore::kMostMemory);
  // Most look-ups are of keys that the memory table does not have: new names, and what was written out.
  out.memtable_prefix_bloom_size_ratio = 0.05;
  out.memtable_whole_key_filtering = true;
  // Many records are numbered as they come: each kind and each 65,536 numbers go on in the memory table where
  // the last of them was put, instead of being looked for from its top.
  out.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(kHintedPrefix));
  out.max_background_jobs = 2;
  out.compression = rocksdb::kNoCompression;
  out.keep_log_file_num = 4;
  out.max_log_file_size = 4 << 20;
  out.info_log_level = rocksdb::WARN_LEVEL;
  out.stats_dump_period_sec = 0;
  out.max_open_files = 1024;
  rocksdb::BlockBasedTableOptions table;
  // Indexes and filters of many files are more than the cache holds: they are read in pieces of a block, and
  // those stay longer than data.
  table.block_cache = rocksdb::NewLRUCache(options.cache_bytes, -1, false, 0.5);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.metadata_block_size = 4096;
  table.pin_top_level_index_and_filter = true;
  table.format_version = 5;
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return out;
}

Result<std::optional<std::string>> get_from(rocksdb::DB& db, std::string_view key,
                                            const rocksdb::Snapshot* moment = nullptr) {
  std::string value;
  rocksdb::ReadOptions options;
  options.snapshot = moment;
  rocksdb::Status status = db.Get(options, as_slice(key), &value);
  if (status.ok()) return std::optional<std::string>(std::move(value));
  if (status.IsNotFound()) return std::optional<std::string>();
  return tl::unexpected(error_of(status, "get"));
}

// RocksDB's own log is a file beside the store.
class SilentLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// Deleted keys that a reader of an old moment steps over are no reason to clear them away.
void passed_by_reader(std::uint64_t, std::string_view, std::string_view) {}

class RocksSnapshot : public KvReader {
 public:
  explicit RocksSnapshot(rocksdb::DB& db) : db_(db), moment_(db.GetSnapshot()) {}
  ~RocksSnapshot() override { db_.ReleaseSnapshot(moment_); }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return get_from(db_, key, moment_);
  }
  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const override {
    return std::make_unique<RocksIterator>(db_, begin, end, passed_by_reader, moment_);
  }

 private:
  rocksdb::DB& db_;
  const rocksdb::Snapshot* moment_;
};

class ReadOnlyRocks : public KvStore {
 public:
  ReadOnlyRocks(std::unique_ptr<RocksGuard> guard, std::unique_ptr<rocksdb::DB> db)
      : guard_(std::move(guard)), db_(std::move(db)) {}
  Result<std::optional<std::string>> get(std::string_view key) const override { return get_from(*db_, key); }
  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const override {
    return std::make_unique<RocksIterator>(*db_, begin, end, passed_by_reader);
  }
  std::unique_ptr<KvReader> snapshot() const override { return std::make_unique<RocksSnapshot>(*db_); }
  Result<LogPosition> apply(const WriteBatch&) override {
    return fail(Errc::kDenied, "kv store: it is open for reading alone");
  }
  Task<Status> durable(LogPosition) override { co_return Status{}; }
  LogPosition durable_position() const override { return LogPosition{db_->GetLatestSequenceNumber()}; }

 private:
  std::unique_ptr<RocksGuard> guard_;  // the options of db_ name it
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

// Members are of the loop's thread, but for the block under `mutex_`, which the sync thread shares.
class RocksStore::Impl : public std::enable_shared_from_this<RocksStore::Impl> {
 public:
  Impl(Loop& loop, Metrics& metrics, Options options, std::unique_ptr<RocksGuard> guard,
       std::unique_ptr<rocksdb::DB> db)
      : loop_(loop),
        options_(std::move(options)),
        guard_(std::move(guard)),
        db_(std::move(db)),
        syncs_(metrics.counter(
            "kv_syncs_total",
            "syncs of the key-value store's log; changes per sync is the group commit's gain")),
        changes_(metrics.counter("kv_changes_total", "batches applied to the key-value store")),
        keys_(metrics.counter("kv_keys_changed_total",
                              "keys that batches put or deleted in the key-value store")),
        refused_(metrics.counter("kv_refused_no_space_total",
                                 "changes of the key-value store refused because the disk is full")),
        deleted_passed_(
            metrics.counter("kv_deleted_keys_passed_total", "deleted keys that listings had to step over")),
        clearings_(metrics.counter("kv_clearings_total", "compactions made to be rid of deleted keys")),
        failures_(metrics.counter("kv_sync_failures_total",
                                  "failed syncs of the key-value store: it refuses changes from then on")) {
    Counting::only_on_demand();
    clearer_ = std::make_unique<Workers>(loop_, 1);
    applied_ = durable_ = db_->GetLatestSequenceNumber();
  }

  void start_thread() {
    thread_ = std::thread([this] { run_syncs(); });
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    closed_ = true;
    stop_clearing_ = true;
    clearer_.reset();
    if (!options_.without_log) sync_at_end();
    const Error closed{Errc::kUnavailable, "kv store: closed"};
    fail_waiters(closed);  // they may still read
    for (const auto& done : std::exchange(checkpoints_, {})) done.set(tl::unexpected(closed));
    db_.reset();
  }

  Result<std::optional<std::string>> get(std::string_view key) const { return get_from(*db_, key); }

  std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) {
    return std::make_unique<RocksIterator>(
        *db_, begin, end, [this](std::uint64_t deleted, std::string_view from, std::string_view to) {
          passed(deleted, from, to);
        });
  }

  std::unique_ptr<KvReader> snapshot() { return std::make_unique<RocksSnapshot>(*db_); }

  std::uint64_t bytes_between(std::string_view begin, std::string_view end) const {
    rocksdb::SizeApproximationOptions options;
    options.include_memtables = options.include_files = true;
    const rocksdb::Range range(rocksdb::Slice(begin.data(), begin.size()),
                               rocksdb::Slice(end.data(), end.size()));
    std::uint64_t bytes = 0;
    rocksdb::Status status = db_->GetApproximateSizes(options, db_->DefaultColumnFamily(), &range, 1, &bytes);
    return status.ok() ? bytes : 0;
  }

  Result<LogPosition> apply(const WriteBatch& batch, std::string_view key = {}, std::string_view value = {}) {
    if (failed_) return fail(Errc::kIo, "kv store: a sync failed before; no change is taken until a restart");
    if (closed_) return fail(Errc::kUnavailable, "kv store: closed");
    if (batch.empty()) return LogPosition{applied_};
    rocksdb::WriteBatch changes;
    std::uint64_t bytes = 0;
    for (const WriteBatch::Change& change : batch.changes()) {
      bytes += change.key.size() + (change.value ? change.value->size() : 0);
      rocksdb::Status status =
          change.value ? changes.Put(change.key, *change.value) : changes.Delete(change.key);
      if (!status.ok()) return tl::unexpected(error_of(status, "batch"));
    }
    SLICE_RETURN_IF_ERROR(check_space(bytes));
    if (!key.empty()) changes.Put(as_slice(key), as_slice(value));
    rocksdb::WriteOptions how;
    how.disableWAL = options_.without_log;
    rocksdb::Status status = db_->Write(how, &changes);
    if (!status.ok()) {
      // Lets the thread bring it back when there is space.
      if (status.IsNoSpace() && !options_.without_log) start_sync(true);
      return tl::unexpected(error_of(status, "write"));
    }
    changes_.add();
    keys_.add(batch.changes().size());
    applied_ = db_->GetLatestSequenceNumber();
    if (options_.without_log) durable_ = applied_;
    return LogPosition{applied_};
  }

  Status check_space(std::uint64_t bytes) {
    if (has_space(bytes)) return {};
    refused_.add();
    return fail(Errc::kNoSpace, "kv store: less than {} bytes free in {}", min_free_.load(), options_.folder);
  }

  Task<Status> checkpoint(std::string folder) {
    if (closed_) co_return fail(Errc::kUnavailable, "kv store: closed");
    OneShot<Status> done;
    std::erase_if(checkpoints_, [](const OneShot<Status>& each) { return each.is_set(); });
    checkpoints_.push_back(done);
    clearer_->start([this, folder = std::move(folder), done] {
      rocksdb::Checkpoint* made = nullptr;
      rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &made);
      std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
      // 0: what is in memory is written out first, however little it is.
      if (status.ok()) status = checkpoint->CreateCheckpoint(folder, 0);
      tell_loop([done, status](Impl&) {
        done.set(status.ok() ? Status{} : Status(tl::unexpected(error_of(status, "checkpoint"))));
      });
    });
    co_return co_await done;
  }

  Task<Status> durable(LogPosition position) {
    if (position.value <= durable_) co_return Status{};
    if (failed_) co_return fail(Errc::kIo, "kv store: a sync failed before");
    if (closed_) co_return fail(Errc::kUnavailable, "kv store: closed");
    OneShot<Status> done;
    waiters_.emplace(position.value, done);
    want_sync();
    TraceScope step(co_await current_trace(), TraceStep::Kind::kSync, "key-value store");
    co_return co_await done;
  }

  LogPosition durable_position() const { return LogPosition{durable_}; }

  void set_min_free(std::uint64_t bytes) {
    min_free_ = bytes;
    space_known_ = false;
  }
  Status record_end() {
    if (failed_ || closed_ || options_.without_log) return {};  // what is durable is not known, or recorded
    std::uint64_t end = applied_;
    rocksdb::Status status = db_->FlushWAL(true);
    if (!status.ok()) return tl::unexpected(error_of(status, "sync"));
    return guard_->record_end(end);
  }

 private:
  void sync_at_end() {
    rocksdb::Status status = db_->FlushWAL(true);
    if (!status.ok()) {
      log_error("kv store: last sync failed: {}", status.ToString());
    } else if (!failed_) {
      mark_end(db_->GetLatestSequenceNumber());
    }
  }

  // A deleted key costs every iterator what a key costs until a compaction drops it, which may be never where
  // little else is written: a directory that was emptied would stay slow to list. When enough time has gone
  // into them, as much as the last compaction took at least, the range is compacted.
  void passed(std::uint64_t deleted, std::string_view begin, std::string_view end) {
    deleted_passed_.add(deleted);
    passed_since_clearing_ += deleted;
    if (clearing_ || closed_ || passed_since_clearing_ < passed_for_clearing_) return;
    clearing_ = true;
    clearer_->start([this, from = std::string(begin), to = std::string(end)] {
      rocksdb::CompactRangeOptions options;
      options.exclusive_manual_compaction = false;
      options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
      options.canceled = &stop_clearing_;
      rocksdb::Slice first(from), last(to);
      auto start = std::chrono::steady_clock::now();
      rocksdb::Status status = db_->CompactRange(options, &first, &last);
      auto took = std::chrono::steady_clock::now() - start;
      tell_loop([took, status](Impl& self) { self.cleared(took, status); });
    });
  }

  void cleared(Duration took, const rocksdb::Status& status) {
    clearing_ = false;
    passed_since_clearing_ = 0;
    passed_for_clearing_ = std::max(kMostDeletedPassed, static_cast<std::uint64_t>(took / kDeletedKeyCost));
    clearings_.add();
    if (!status.ok() && !closed_) log_warning("kv store: deleted keys stay: {}", status.ToString());
  }

  // Whether the file system has room for one more change: asked at most every so many bytes or so long.
  bool has_space(std::uint64_t bytes) {
    if (out_of_space_) return false;
    unchecked_bytes_ += bytes;
    MonoTime now = loop_.now();
    if (space_known_ && enough_space_ && unchecked_bytes_ < kBytesBetweenSpaceChecks &&
        now - space_checked_ < kTimeBetweenSpaceChecks) {
      return true;
    }
    struct statvfs space{};
    enough_space_ = statvfs(options_.folder.c_str(), &space) != 0 ||
                    std::uint64_t{space.f_bavail} * space.f_frsize >= min_free_;
    space_known_ = true;
    space_checked_ = now;
    unchecked_bytes_ = 0;
    return enough_space_;
  }

  // One sync for all changes of a round of the loop, and none while one is under way: started with the first
  // change, the thread would have that one alone, and two more switches between threads for each of the rest.
  void want_sync() {
    if (sync_posted_ || syncing_) return;
    sync_posted_ = true;
    loop_.post([weak = weak_from_this()] {
      auto self = weak.lock();
      if (!self) return;
      self->sync_posted_ = false;
      self->start_sync(false);
    });
  }

  void start_sync(bool resume) {
    if (closed_) return;
    syncing_ = true;
    if (in_memory_ && !resume) {
      // Waits for no device: less than waking the thread.
      std::uint64_t target = applied_;
      rocksdb::Status status = sync_log(target);
      if (!status.IsNoSpace()) {
        mark_later(target);
        return synced(target, status);
      }
      resume = true;
    }
    {
      std::lock_guard lock(mutex_);
      wanted_ = true;
      resume_ = resume_ || resume;
      target_ = applied_;
    }
    wake_.notify_one();
  }

  // ---- the sync thread ----

  void run_syncs() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wait_for_work(lock);
      if (stop_) return;
      if (!wanted_) {
        std::uint64_t end = std::exchange(unmarked_, 0);
        lock.unlock();
        mark_end(end);
        lock.lock();
        continue;
      }
      wanted_ = false;
      bool resume = std::exchange(resume_, false);
      std::uint64_t target = target_;
      lock.unlock();
      rocksdb::Status status = resume ? rocksdb::Status::NoSpace() : sync_log(target);
      if (status.IsNoSpace()) {
        tell_loop([](Impl& self) { self.out_of_space_ = true; });
        log_error("kv store: no space in {}: changes are refused until there is", options_.folder);
        status = wait_for_space();
        if (status.ok()) tell_loop([](Impl& self) { self.out_of_space_ = false; });
      }
      tell_loop([target, status](Impl& self) { self.synced(target, status); });
      if (status.ok()) mark_later(target);
      lock.lock();
    }
  }

  // Until a sync is wanted, the mark is due, or the store is closed.
  void wait_for_work(std::unique_lock<std::mutex>& lock) {
    const auto called = [this] { return wanted_ || stop_; };
    wake_.wait(lock, [this, &called] { return called() || unmarked_ > 0; });
    if (!called()) wake_.wait_until(lock, mark_at_, called);
  }

  // Any thread. One in a second wakes the thread.
  void mark_later(std::uint64_t end) {
    std::lock_guard lock(mutex_);
    if (std::exchange(unmarked_, end) > 0) return;
    mark_at_ = std::chrono::steady_clock::now() + kEndMarkDelay;
    wake_.notify_one();
  }

  bool mark_end(std::uint64_t end) {
    Status status = guard_->record_end(end);
    if (!status) log_error("kv store: how far it goes is not recorded: {}", status.error().message);
    return status.has_value();
  }

  // Any thread, one at a time.
  rocksdb::Status sync_log(std::uint64_t target) {
    bool begun = guard_->log_begun();
    rocksdb::Status status = db_->FlushWAL(true);
    if (status.ok() && begun && !mark_end(target)) return rocksdb::Status::IOError("no end mark");
    return status;
  }

  // The log's file is dead after a failed write: what is applied becomes durable by writing the memory tables
  // out, as soon as the file system has room for them. RocksDB looks every 5 s whether memory_bytes are
  // free, and answers Busy meanwhile.
  rocksdb::Status wait_for_space() {
    for (unsigned refusals = 0; refusals < kMaxRefusals;) {
      rocksdb::Status status = db_->Resume();
      if (status.ok()) status = db_->Flush(rocksdb::FlushOptions());
      if (status.ok()) status = db_->FlushWAL(true);
      if (status.ok()) {
        log_info("kv store: space again in {}", options_.folder);
        return status;
      }
      if (!status.IsNoSpace() && !status.IsBusy()) return status;
      if (!status.IsBusy() && free_bytes() >= kMostMemory + min_free_) ++refusals;
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kSpaceRetry, [this] { return stop_; })) {
        return rocksdb::Status::Aborted("closed while out of space");
      }
    }
    // A log buffer that could not be written keeps RocksDB from going on in this process.
    return rocksdb::Status::IOError("there is space again, but the log is broken: a restart recovers it");
  }

  std::uint64_t free_bytes() const {
    struct statvfs space{};
    if (statvfs(options_.folder.c_str(), &space) != 0) return ~std::uint64_t{0};
    return std::uint64_t{space.f_bavail} * space.f_frsize;
  }

  void tell_loop(std::function<void(Impl&)> action) {
    loop_.post_from_any_thread([weak = weak_from_this(), action = std::move(action)] {
      if (auto self = weak.lock()) action(*self);
    });
  }

  // ---- back on the loop ----

  void synced(std::uint64_t target, const rocksdb::Status& status) {
    if (closed_) return;
    syncing_ = false;
    syncs_.add();
    if (!status.ok()) {
      failed_ = true;
      failures_.add();
      log_error("kv store: sync failed, no change is taken until a restart: {}", status.ToString());
      fail_waiters(error_of(status, "sync"));
      return;
    }
    durable_ = std::max(durable_, target);
    std::vector<OneShot<Status>> ready;
    while (!waiters_.empty() && waiters_.begin()->first <= durable_) {
      ready.push_back(std::move(waiters_.begin()->second));
      waiters_.erase(waiters_.begin());
    }
    if (!waiters_.empty()) want_sync();
    auto keep = shared_from_this();  // a resumed waiter may drop the store
    for (auto& done : ready) done.set(Status{});
  }

  void fail_waiters(const Error& error) {
    for (auto& [position, done] : std::exchange(waiters_, {})) done.set(tl::unexpected(error));
  }

  Loop& loop_;
  Options options_;
  std::atomic<std::uint64_t> min_free_{options_.min_free_bytes};
  std::unique_ptr<RocksGuard> guard_;
  std::unique_ptr<rocksdb::DB> db_;
  Counter &syncs_, &changes_, &keys_;
  Counter& refused_;
  Counter& deleted_passed_;
  Counter& clearings_;
  Counter& failures_;

  const bool in_memory_ = is_in_memory(options_.folder);
  std::uint64_t applied_ = 0, durable_ = 0;

  // Clearing deleted keys away.
  std::unique_ptr<Workers> clearer_;
  std::atomic<bool> stop_clearing_ = false;
  bool clearing_ = false;
  std::uint64_t passed_since_clearing_ = 0;
  std::uint64_t passed_for_clearing_ = kMostDeletedPassed;

  std::multimap<std::uint64_t, OneShot<Status>> waiters_;
  std::vector<OneShot<Status>> checkpoints_;  // ended ones, too
  bool sync_posted_ = false, syncing_ = false;
  bool failed_ = false, closed_ = false;
  bool out_of_space_ = false;  // found in a sync, until the thread has seen space again
  bool space_known_ = false, enough_space_ = true;
  std::uint64_t unchecked_bytes_ = 0;
  MonoTime space_checked_{};

  std::mutex mutex_;
  std::condition_variable wake_;
  bool wanted_ = false, resume_ = false, stop_ = false;
  std::uint64_t target_ = 0;    // what was applied when the sync was wanted
  std::uint64_t unmarked_ = 0;  // durable, and to be in the end mark at mark_at_; 0: nothing
  std::chrono::steady_clock::time_point mark_at_;
  std::thread thread_;
};

Result<std::unique_ptr<RocksStore>> RocksStore::open(Loop& loop, Metrics& metrics, const Options& options) {
  rocksdb::Options rocks = rocks_options(options);
  std::unique_ptr<RocksGuard> guard;  // of the log
  if (!options.without_log) {
    auto watching = RocksGuard::open(options.folder);
    if (!watching) return fail(std::move(watching).error());
    guard = std::move(*watching);
    guard->watch(rocks);
  }
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(rocks, options.folder, &opened);
  std::unique_ptr<rocksdb::DB> db(opened);
  if (guard) SLICE_RETURN_IF_ERROR(guard->check(status, opened));
  if (!status.ok()) return tl::unexpected(error_of(status, fmt::format("open {}", options.folder)));
  if (guard) SLICE_RETURN_IF_ERROR(guard->record_start(*db));
  auto impl = std::make_shared<Impl>(loop, metrics, options, std::move(guard), std::move(db));
  impl->start_thread();
  return std::unique_ptr<RocksStore>(new RocksStore(std::move(impl)));
}

RocksStore::RocksStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
RocksStore::~RocksStore() {
  impl_->close();
}

Result<std::optional<std::string>> RocksStore::get(std::string_view key) const {
  return impl_->get(key);
}
std::unique_ptr<KvIterator> RocksStore::iterate(std::string_view begin, std::string_view end) const {
  return impl_->iterate(begin, end);
}
Result<LogPosition> RocksStore::apply_with(const WriteBatch& batch, std::string_view key,
                                           std::string_view value) {
  return impl_->apply(batch, key, value);
}
Status RocksStore::check_space(std::uint64_t bytes) {
  return impl_->check_space(bytes);
}
Task<Status> RocksStore::checkpoint(std::string folder) {
  return impl_->checkpoint(std::move(folder));
}
std::unique_ptr<KvReader> RocksStore::snapshot() const {
  return impl_->snapshot();
}
std::uint64_t RocksStore::bytes_between(std::string_view begin, std::string_view end) const {
  return impl_->bytes_between(begin, end);
}
Result<LogPosition> RocksStore::apply(const WriteBatch& batch) {
  return impl_->apply(batch);
}
Task<Status> RocksStore::durable(LogPosition position) {
  return impl_->durable(position);
}
LogPosition RocksStore::durable_position() const {
  return impl_->durable_position();
}
void RocksStore::set_min_free(std::uint64_t bytes) {
  impl_->set_min_free(bytes);
}
Status RocksStore::record_end() {
  return impl_->record_end();
}

Result<std::unique_ptr<KvStore>> open_rocks_read_only(const RocksStore::Options& options) {
  auto guard = RocksGuard::open(options.folder);
  if (!guard) return fail(std::move(guard).error());
  std::error_code error;
  if (!std::filesystem::exists(options.folder, error)) {
    return fail(Errc::kNotFound, "there is no store {}", options.folder);
  }
  rocksdb::Options rocks = rocks_options(options);
  rocks.create_if_missing = false;
  rocks.info_log = std::make_shared<SilentLog>();
  (*guard)->watch(rocks);
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::OpenForReadOnly(rocks, options.folder, &opened);
  std::unique_ptr<rocksdb::DB> db(opened);
  SLICE_RETURN_IF_ERROR((*guard)->check(status, opened));
  if (!status.ok()) return tl::unexpected(error_of(status, fmt::format("read {}", options.folder)));
  return std::make_unique<ReadOnlyRocks>(std::move(*guard), std::move(db));
}

}  // namespace slice::storage
