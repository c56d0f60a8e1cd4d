// For tests of the store: one on a MemoryDisk and simulated time, that can be crashed and opened again.
#ifndef SLICE_STORAGENODE_TESTING_STORE_HARNESS_H
#define SLICE_STORAGENODE_TESTING_STORE_HARNESS_H

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/manual_loop.h"
#include "storage/memory_disk.h"
#include "storagenode/object_store.h"

namespace slice::storagenode {

using storage::MemoryDisk;

inline ObjectName file_object(std::uint64_t id) {
  return {VolumeId{1}, FileId{id}, ObjectKind::kFile};
}

inline Buffer pattern(std::size_t n, std::uint64_t seed) {
  Buffer bytes(n);
  for (std::size_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    bytes.data()[i] = static_cast<std::uint8_t>(seed >> 56);
  }
  return bytes;
}

template <class T>
Task<void> keep_result(Task<T> task, std::optional<T>& slot) {
  slot.emplace(co_await task);
}
inline Task<void> note_end(Task<void> task, bool& ended) {
  co_await task;
  ended = true;
}

class StoreHarness {
 public:
  explicit StoreHarness(ObjectStore::Options options = {.reserve_bytes = 0}) : options_(options) {}
  ~StoreHarness() {
    close();
    // Those that crashed still have to end what they began, with errors.
    for (auto& crashed : crashed_) end(*crashed);
  }

  ManualLoop loop;
  MemoryDisk disk{loop};
  Metrics metrics;
  std::unique_ptr<ObjectStore> store;
  unsigned renewals = 0;
  bool can_renew = true;

  template <class T>
  T run(Task<T> task) {
    std::optional<T> slot;
    spawn(keep_result(std::move(task), slot));
    bool done = loop.run_until([&slot] { return slot.has_value(); });
    EXPECT_TRUE(done) << "the task never ended";
    return std::move(*slot);
  }

  Status open() {
    sessions_.push_back(disk.session());
    store =
        std::make_unique<ObjectStore>(loop, *sessions_.back(), metrics, options_, [this] { return renew(); });
    return run(store->open());
  }
  void close() {
    if (store) end(*store);
    store.reset();
  }
  // The process is gone; its disk as `how` says.
  void crash(MemoryDisk::Crash how, std::uint64_t seed) {
    disk.crash(how, seed);
    if (!store) return;
    store->halt();
    spawn(store->stop());
    crashed_.push_back(std::move(store));
  }

  Status write(ObjectName name, std::uint64_t offset, ByteView bytes, bool sync = false,
               Epoch epoch = Epoch{1}) {
    auto written = run(store->write(name, offset, bytes, {.epoch = epoch, .sync = sync}));
    return written ? Status{} : Status{fail(written.error())};
  }
  Result<std::string> read(ObjectName name, std::uint64_t offset, std::size_t n) {
    Buffer into(n);
    auto got = run(store->read(name, offset, into.span()));
    if (!got) return fail(got.error());
    return std::string(as_text(into.view().first(got->bytes)));
  }
  std::uint64_t count(std::string_view counter) { return metrics.counter(counter).value(); }

 private:
  Task<Status> renew() {
    ++renewals;
    if (!can_renew) co_return fail(Errc::kUnavailable, "no manager");
    co_return Status{};
  }
  void end(ObjectStore& ending) {
    bool ended = false;
    spawn(note_end(ending.stop(), ended));
    EXPECT_TRUE(loop.run_until([&ended] { return ended; }));
  }

  ObjectStore::Options options_;
  std::vector<std::unique_ptr<storage::Disk>> sessions_;
  std::vector<std::unique_ptr<ObjectStore>> crashed_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_TESTING_STORE_HARNESS_H
