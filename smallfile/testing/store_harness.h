// StoreHarness: a Store on simulated time, with a disk and a key-value store that can lose power. For tests.
#ifndef SLICE_SMALLFILE_TESTING_STORE_HARNESS_H
#define SLICE_SMALLFILE_TESTING_STORE_HARNESS_H

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/manual_loop.h"
#include "smallfile/store.h"
#include "storage/memory_disk.h"
#include "storage/memory_store.h"

namespace slice::smallfile {

// Forwards to a MemoryStore, telling of every change before and after.
class WatchedStore : public storage::KvStore {
 public:
  WatchedStore(storage::MemoryStore& store, std::function<void(std::string_view)> watch)
      : store_(store), watch_(std::move(watch)) {}
  Result<std::optional<std::string>> get(std::string_view key) const override { return store_.get(key); }
  std::unique_ptr<storage::KvIterator> iterate(std::string_view begin, std::string_view end) const override {
    return store_.iterate(begin, end);
  }
  std::unique_ptr<storage::KvReader> snapshot() const override { return store_.snapshot(); }
  Result<storage::LogPosition> apply(const storage::WriteBatch& batch) override {
    watch_("before records are applied");
    auto position = store_.apply(batch);
    watch_("after records are applied");
    return position;
  }
  Task<Status> durable(storage::LogPosition position) override {
    Status status = co_await store_.durable(position);
    watch_("after records are durable");
    co_return status;
  }
  storage::LogPosition durable_position() const override { return store_.durable_position(); }

 private:
  storage::MemoryStore& store_;
  std::function<void(std::string_view)> watch_;
};

class StoreHarness {
 public:
  using Crash = storage::MemoryDisk::Crash;

  ~StoreHarness() { settle(); }

  // Starts the server on what the disk has. An error leaves no store.
  Status open() {
    memory_store = std::make_unique<storage::MemoryStore>(loop, medium);
    records = std::make_unique<WatchedStore>(*memory_store, [this](std::string_view point) {
      if (at_point) at_point(point);
    });
    zones = std::make_unique<DiskZoneStore>(loop, disk);
    options.site_of = [this](FileId id) {
      return SiteId{static_cast<std::uint32_t>(id.value % options.sites)};
    };
    auto opened = run(Store::open(loop, disk, *records, *zones, metrics, options));
    if (!opened) return fail(std::move(opened).error());
    store = std::move(*opened);
    return {};
  }
  void must_open() {
    Status status = open();
    ASSERT_TRUE(status) << status.error().message;
  }
  // Power off, now. May be called from within an operation of the disk or the key-value store.
  void power_off(Crash how, std::uint64_t seed = 0) {
    disk.crash(how, seed);
    memory_store->crash();
  }
  // What is under way ends (in failure, after a crash), and the server is gone.
  void settle() {
    disk.set_fault(nullptr);
    at_point = nullptr;
    if (store) loop.advance(std::chrono::milliseconds(500));
    store.reset();
    zones.reset();
    records.reset();
    memory_store.reset();
  }
  void restart(Crash how = Crash::kProcess, std::uint64_t seed = 0) {
    power_off(how, seed);
    settle();
    Status status = open();
    if (!status) {
      ADD_FAILURE() << status.error().message;
      std::abort();
    }
  }

  template <class T>
  T run(Task<T> task) {
    auto slot = std::make_shared<std::optional<T>>();
    spawn(keep(std::move(task), slot));
    EXPECT_TRUE(loop.run_until([&] { return slot->has_value(); }));
    return std::move(**slot);
  }
  template <class T>
  static Task<void> keep(Task<T> task, std::shared_ptr<std::optional<T>> into) {
    into->emplace(co_await std::move(task));
  }

  Result<Store::Written> write(std::uint64_t file, std::uint64_t offset, std::string_view data, bool stable) {
    return run(store->write({file}, {.offset = offset, .data = as_bytes(data), .stable = stable}));
  }
  // All bytes up to the file's own end.
  Result<std::string> content(std::uint64_t file) {
    auto seen = store->look({file});
    if (!seen) return fail(seen.error());
    return range(file, 0, seen->end);
  }
  Result<std::string> range(std::uint64_t file, std::uint64_t offset, std::size_t length) {
    std::string bytes(length, '?');
    auto read = run(store->read({file}, offset, {reinterpret_cast<std::uint8_t*>(bytes.data()), length}));
    if (!read) return fail(read.error());
    return bytes;
  }
  std::uint64_t metric(std::string_view name) { return metrics.counter(name).value(); }

  ManualLoop loop;
  storage::MemoryDisk disk{loop};
  storage::MemoryMedium medium;
  Metrics metrics;
  StoreOptions options{
      .threshold = 65536, .sites = 4, .site_of = {}, .cache_bytes = 8 << 20, .reserve_bytes = 1 << 20};
  std::function<void(std::string_view)> at_point;  // told of the key-value store's steps
  std::unique_ptr<storage::MemoryStore> memory_store;
  std::unique_ptr<WatchedStore> records;
  std::unique_ptr<DiskZoneStore> zones;
  std::unique_ptr<Store> store;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_TESTING_STORE_HARNESS_H
