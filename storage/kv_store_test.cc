// The same tests over every KvStore, and what only one of them can do: crash, fill a file system, corrupt.
#include "storage/kv_store.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/manual_loop.h"
#include "common/testing/temporary_folder.h"
#include "storage/memory_store.h"
#include "storage/rocks_store.h"
#include "storage/testing/real_time.h"

namespace slice::storage {
namespace {

struct Rocks {
  Rocks() { open(); }
  void open() {
    store.reset();
    store = std::move(RocksStore::open(loop, metrics, {.folder = path + "/cells"}).value());
  }
  ManualLoop loop;
  Metrics metrics;
  const TemporaryFolder folder;
  const std::string& path = folder.path();
  std::unique_ptr<KvStore> store;
};

struct Memory {
  Memory() { open(); }
  void open() {
    store.reset();
    store = std::make_unique<MemoryStore>(loop, medium);
  }
  ManualLoop loop;
  MemoryMedium medium;
  std::unique_ptr<KvStore> store;
};

template <class Made>
class KvStoreTest : public testing::Test {
 protected:
  LogPosition put(const std::string& key, const std::string& value) {
    WriteBatch batch;
    batch.put(key, value);
    return made_.store->apply(batch).value();
  }
  std::optional<std::string> get(std::string_view key) { return made_.store->get(key).value(); }
  Status wait_durable(LogPosition position) {
    std::optional<Status> ended;
    spawn(made_.store->durable(position), ended);
    EXPECT_TRUE(run_in_real_time(made_.loop, [&] { return ended.has_value(); }));
    return *ended;
  }
  std::string keys(std::string_view begin, std::string_view end) {
    std::string out;
    auto at = made_.store->iterate(begin, end);
    for (; at->valid(); at->next()) {
      out += at->key();
      out += '=';
      out += at->value();
      out += ' ';
    }
    EXPECT_TRUE(at->status().has_value());
    return out;
  }
  Made made_;
};

using Stores = testing::Types<Rocks, Memory>;
TYPED_TEST_SUITE(KvStoreTest, Stores);

TYPED_TEST(KvStoreTest, ReadersSeeAnAppliedBatchAtOnce) {
  EXPECT_EQ(this->get("a"), std::nullopt);
  this->put("a", "1");
  WriteBatch batch;
  batch.put("b", "2");
  batch.erase("a");
  batch.put("b", "3");
  ASSERT_TRUE(this->made_.store->apply(batch).has_value());
  EXPECT_EQ(this->get("a"), std::nullopt);
  EXPECT_EQ(this->get("b"), "3");
}

TYPED_TEST(KvStoreTest, KeysAreOrderedAsUnsignedBytes) {
  for (std::string key :
       {std::string("\xff"), std::string("\x01"), std::string("\x80"), std::string("\x01\x00", 2)})
    this->put(key, "v");
  std::vector<std::string> seen;
  for (auto at = this->made_.store->iterate("", "\xff\xff"); at->valid(); at->next())
    seen.emplace_back(at->key());
  EXPECT_EQ(seen, (std::vector<std::string>{"\x01", std::string("\x01\x00", 2), "\x80", "\xff"}));
}

TYPED_TEST(KvStoreTest, IteratesAHalfOpenRangeAndSeeks) {
  for (const char* key : {"a", "b", "c", "d"}) this->put(key, key);
  EXPECT_EQ(this->keys("b", "d"), "b=b c=c ");
  auto at = this->made_.store->iterate("b", "d");
  at->seek("c");
  ASSERT_TRUE(at->valid());
  EXPECT_EQ(at->key(), "c");
  at->seek("a");  // before the range: its begin
  ASSERT_TRUE(at->valid());
  EXPECT_EQ(at->key(), "b");
  at->seek("d");
  EXPECT_FALSE(at->valid());
}

TYPED_TEST(KvStoreTest, AnIteratorKeepsItsView) {
  this->put("a", "1");
  this->put("b", "1");
  auto at = this->made_.store->iterate("a", "z");
  this->put("a", "2");
  this->put("c", "2");
  WriteBatch batch;
  batch.erase("b");
  ASSERT_TRUE(this->made_.store->apply(batch).has_value());
  std::string seen;
  for (at->seek("a"); at->valid(); at->next())
    seen += std::string(at->key()) + std::string(at->value()) + " ";
  EXPECT_EQ(seen, "a1 b1 ");
  EXPECT_EQ(this->keys("a", "z"), "a=2 c=2 ");
}

TYPED_TEST(KvStoreTest, ASnapshotIsOfOneMoment) {
  this->put("a", "1");
  this->put("b", "1");
  auto before = this->made_.store->snapshot();
  this->put("a", "2");
  this->put("c", "2");
  WriteBatch batch;
  batch.erase("b");
  ASSERT_TRUE(this->made_.store->apply(batch).has_value());
  auto after = this->made_.store->snapshot();
  for (int i = 0; i < 100; ++i) this->put("a", std::to_string(i));
  auto all = [](const KvReader& reader) {
    std::string out;
    for (auto at = reader.iterate("", "z"); at->valid(); at->next()) {
      out += at->key();
      out += at->value();
    }
    return out;
  };
  EXPECT_EQ(all(*before), "a1b1");
  EXPECT_EQ(all(*after), "a2c2");
  EXPECT_EQ(before->get("b").value(), "1");
  EXPECT_EQ(before->get("c").value(), std::nullopt);
  EXPECT_EQ(after->get("a").value(), "2");
  EXPECT_EQ(this->get("a"), "99");
}

TYPED_TEST(KvStoreTest, AnIteratorStaysWhereItIsWhileOthersWrite) {
  this->put("a", "1");
  this->put("b", "1");
  auto at = this->made_.store->iterate("a", "z");
  ASSERT_TRUE(at->valid());
  for (int i = 2; i < 100; ++i) this->put("a", std::to_string(i));
  EXPECT_EQ(at->value(), "1");
  at->next();
  ASSERT_TRUE(at->valid());
  EXPECT_EQ(at->key(), "b");
}

TYPED_TEST(KvStoreTest, BytesBetweenTwoKeysAreKnownAbout) {
  for (int i = 0; i < 100; ++i) this->put("b" + std::to_string(i), std::string(10'000, static_cast<char>(i)));
  EXPECT_GT(this->made_.store->bytes_between("b", "c"), 100'000u);
  EXPECT_LT(this->made_.store->bytes_between("b", "c"), 10'000'000u);
  EXPECT_LT(this->made_.store->bytes_between("c", "d"), 100'000u);
}

TYPED_TEST(KvStoreTest, DurablePositionFollowsTheSync) {
  LogPosition first = this->put("a", "1");
  LogPosition second = this->put("b", "2");
  EXPECT_LT(first, second);
  EXPECT_LT(this->made_.store->durable_position(), first);
  ASSERT_TRUE(this->wait_durable(first).has_value());
  EXPECT_GE(this->made_.store->durable_position(), first);
  ASSERT_TRUE(this->wait_durable(second).has_value());
  EXPECT_GE(this->made_.store->durable_position(), second);
}

TYPED_TEST(KvStoreTest, WhatWasDurableIsThereAfterReopening) {
  for (int i = 0; i < 100; ++i) this->put("key" + std::to_string(i), std::string(1000, 'v'));
  ASSERT_TRUE(this->wait_durable(this->put("last", "1")).has_value());
  this->made_.open();
  EXPECT_EQ(this->get("last"), "1");
  EXPECT_EQ(this->get("key42"), std::string(1000, 'v'));
  LogPosition later = this->put("after", "2");
  EXPECT_LT(this->made_.store->durable_position(), later);
  EXPECT_TRUE(this->wait_durable(later).has_value());
}

TYPED_TEST(KvStoreTest, ManyWaitersAreAllResumed) {
  std::vector<std::optional<Status>> ended(200);
  for (auto& slot : ended) {
    spawn(this->made_.store->durable(this->put("k" + std::to_string(&slot - ended.data()), "v")), slot);
  }
  EXPECT_TRUE(run_in_real_time(this->made_.loop, [&] {
    return std::all_of(ended.begin(), ended.end(), [](const auto& s) { return s.has_value(); });
  }));
  for (auto& slot : ended) EXPECT_TRUE(slot->has_value());
}

// As a directory's attributes, which every change of its names writes.
TYPED_TEST(KvStoreTest, OfAKeyThatIsChangedOftenTheLastChangeCounts) {
  ASSERT_TRUE(this->wait_durable(this->put("erased", "before")).has_value());
  LogPosition position;
  for (int i = 0; i < 1000; ++i) {
    WriteBatch batch;
    batch.put("directory", std::to_string(i));
    batch.put("name" + std::to_string(i % 3), std::to_string(i));
    if (i % 2 == 0) {
      batch.erase("erased");
    } else {
      batch.put("erased", "again");
    }
    LogPosition before = position;
    position = this->made_.store->apply(batch).value();
    EXPECT_LT(before, position);
    ASSERT_EQ(this->get("directory"), std::to_string(i));
    ASSERT_EQ(this->get("erased"), i % 2 == 0 ? std::nullopt : std::optional<std::string>("again"));
  }
  EXPECT_EQ(this->keys("a", "z"), "directory=999 erased=again name0=999 name1=997 name2=998 ");
  WriteBatch batch;
  batch.erase("erased");
  batch.erase("name0");
  ASSERT_TRUE(this->wait_durable(this->made_.store->apply(batch).value()).has_value());
  this->made_.open();
  EXPECT_EQ(this->keys("a", "z"), "directory=999 name1=997 name2=998 ");
}

TYPED_TEST(KvStoreTest, LargeAndSmallBatchesKeepTheirOrder) {
  const auto large = [&](const std::string& value, std::size_t keys) {
    WriteBatch batch;
    for (std::size_t i = 0; i < keys; ++i) batch.put("k" + std::to_string(10'000 + i), value);
    return this->made_.store->apply(batch).value();
  };
  LogPosition last;
  for (std::size_t keys : {1u, 100u, 200u, 256u, 257u, 5000u}) {
    const std::string round = std::to_string(keys);
    this->put("k10000", "small, before " + round);
    large("large " + round, keys);
    EXPECT_EQ(this->get("k10000"), "large " + round);
    last = this->put("k10000", "small, after " + round);
    EXPECT_EQ(this->get("k10000"), "small, after " + round);
    EXPECT_EQ(this->get("k" + std::to_string(10'000 + keys - 1)),
              (keys == 1 ? "small, after " : "large ") + round);
  }
  ASSERT_TRUE(this->wait_durable(last).has_value());
  this->made_.open();
  EXPECT_EQ(this->get("k10000"), "small, after 5000");
  EXPECT_EQ(this->get("k14999"), "large 5000");
}

// Nobody waits for it: it is kept all the same.
TYPED_TEST(KvStoreTest, AChangeWithoutAWaiterBecomesDurableWithALaterOne) {
  this->put("alone", "1");
  this->made_.loop.advance(std::chrono::milliseconds(10));
  EXPECT_EQ(this->get("alone"), "1");
  ASSERT_TRUE(this->wait_durable(this->put("later", "1")).has_value());
  this->made_.open();
  EXPECT_EQ(this->get("alone"), "1");
}

TYPED_TEST(KvStoreTest, AnEmptyBatchIsDurableWithWhatIsBeforeIt) {
  ASSERT_TRUE(this->wait_durable(this->put("a", "1")).has_value());
  auto position = this->made_.store->apply(WriteBatch());
  ASSERT_TRUE(position.has_value());
  EXPECT_LE(*position, this->made_.store->durable_position());
}

// ---- what only the one in memory can do ----

class MemoryStoreTest : public KvStoreTest<Memory> {
 protected:
  MemoryStore& memory() { return static_cast<MemoryStore&>(*made_.store); }
};

TEST_F(MemoryStoreTest, ACrashDropsWhatWasNotDurable) {
  put("kept", "old");
  ASSERT_TRUE(wait_durable(put("gone", "old")).has_value());
  put("kept", "new");
  WriteBatch batch;
  batch.erase("gone");
  batch.put("fresh", "1");
  ASSERT_TRUE(memory().apply(batch).has_value());
  memory().crash();
  made_.open();
  EXPECT_EQ(get("kept"), "old");
  EXPECT_EQ(get("gone"), "old");
  EXPECT_EQ(get("fresh"), std::nullopt);
}

TEST_F(MemoryStoreTest, ACrashEndsWaiters) {
  std::optional<Status> ended;
  spawn(memory().durable(put("a", "1")), ended);
  memory().crash();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->error().code, Errc::kUnavailable);
  EXPECT_FALSE(memory().apply(WriteBatch()).has_value());
}

TEST_F(MemoryStoreTest, WaitersShareSyncs) {
  std::vector<std::optional<Status>> ended(50);
  for (auto& slot : ended) spawn(memory().durable(put("a", "1")), slot);
  ASSERT_TRUE(run_in_real_time(made_.loop, [&] { return ended.back().has_value(); }));
  EXPECT_LE(memory().syncs(), 2u);
}

TEST_F(MemoryStoreTest, AFailedSyncRefusesEveryLaterChange) {
  memory().fail_next_sync();
  EXPECT_EQ(wait_durable(put("a", "1")).error().code, Errc::kIo);
  WriteBatch batch;
  batch.put("b", "2");
  EXPECT_EQ(memory().apply(batch).error().code, Errc::kIo);
}

TEST_F(MemoryStoreTest, NoSpaceComesAndGoes) {
  memory().set_no_space(true);
  WriteBatch batch;
  batch.put("b", "2");
  EXPECT_EQ(memory().apply(batch).error().code, Errc::kNoSpace);
  memory().set_no_space(false);
  EXPECT_TRUE(memory().apply(batch).has_value());
}

TEST_F(MemoryStoreTest, ACorruptValueIsAnErrorAndNeverData) {
  put("a", "1");
  made_.medium.corrupt("a");
  EXPECT_EQ(memory().get("a").error().code, Errc::kCorrupt);
  auto at = memory().iterate("a", "b");
  EXPECT_FALSE(at->valid());
  EXPECT_EQ(at->status().error().code, Errc::kCorrupt);
  put("a", "2");
  EXPECT_EQ(get("a"), "2");
}

// ---- what only the real one can do ----

using RocksStoreTest = KvStoreTest<Rocks>;

TEST_F(RocksStoreTest, ABlockThatFailsItsChecksumIsCorrupt) {
  for (int i = 0; i < 1000; ++i) put("key" + std::to_string(1000 + i), std::string(200, 'v'));
  made_.open();  // recovery writes the log's changes to a table file
  made_.store.reset();
  for (const auto& entry : std::filesystem::directory_iterator(made_.path + "/cells")) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (int at = 1000; at < 100000; at += 1000) {
      file.seekp(at);
      file.write("XXXX", 4);
    }
  }
  made_.open();
  auto value = made_.store->get("key1300");
  ASSERT_FALSE(value.has_value());
  EXPECT_EQ(value.error().code, Errc::kCorrupt);
}

TEST_F(RocksStoreTest, ALogThatIsCorruptBeforeItsEndIsRefused) {
  for (int i = 0; i < 1000; ++i) put("key" + std::to_string(i), std::string(200, 'v'));
  ASSERT_TRUE(wait_durable(put("last", "1")).has_value());
  made_.store.reset();
  for (const auto& entry : std::filesystem::directory_iterator(made_.path + "/cells")) {
    if (entry.path().extension() != ".log") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(50000);
    file.write("XXXXXXXX", 8);
  }
  auto opened = RocksStore::open(made_.loop, made_.metrics, {.folder = made_.path + "/cells"});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Errc::kCorrupt) << opened.error().message;
}

// As a directory that was emptied: listing it must not cost for ever what it once held.
TEST_F(RocksStoreTest, ListingWhereManyKeysWereDeletedBecomesCheap) {
  constexpr int kKeys = 60'000;
  for (int i = 0; i < kKeys; ++i) put("n" + std::to_string(i), "v");
  for (int i = 0; i < kKeys; ++i) {
    WriteBatch batch;
    batch.erase("n" + std::to_string(i));
    ASSERT_TRUE(made_.store->apply(batch).has_value());
  }
  Counter& passed = made_.metrics.counter("kv_deleted_keys_passed_total");
  const auto cost = [&] {
    std::uint64_t before = passed.value();
    EXPECT_EQ(keys("n", "o"), "");
    return passed.value() - before;
  };
  EXPECT_GE(cost(), std::uint64_t{kKeys});                           // what the rest of this test would end
  Counter& clearings = made_.metrics.counter("kv_clearings_total");  // counted when it has ended
  EXPECT_TRUE(run_in_real_time(made_.loop, [&] { return cost() < 1000 && clearings.value() > 0; }));
}

TEST_F(RocksStoreTest, LittleSpaceRefusesChangesBeforeTheyAreTaken) {
  made_.store.reset();
  made_.store = std::move(RocksStore::open(made_.loop, made_.metrics,
                                           {.folder = made_.path + "/cells", .min_free_bytes = ~0ull >> 1})
                              .value());
  WriteBatch batch;
  batch.put("a", "1");
  EXPECT_EQ(made_.store->apply(batch).error().code, Errc::kNoSpace);
  EXPECT_EQ(get("a"), std::nullopt);
}

// A file system that really fills: the log cannot be written although the change was taken. Nobody is told
// that a change is durable which is not, and when there is space again, changes are taken again.
TEST_F(RocksStoreTest, AFullFileSystemMakesWaitersWaitAndRecovers) {
  std::string folder = made_.path + "/small";
  std::filesystem::create_directory(folder);
  if (::mount("none", folder.c_str(), "tmpfs", 0, "size=32m") != 0) GTEST_SKIP() << "mounting needs root";
  struct Unmount {
    std::string at;
    ~Unmount() { ::umount2(at.c_str(), MNT_DETACH); }
  } unmount{folder};
  made_.store =
      std::move(RocksStore::open(made_.loop, made_.metrics,
                                 {.folder = folder + "/cells", .memory_bytes = 1 << 20, .min_free_bytes = 0})
                    .value());
  ASSERT_TRUE(wait_durable(put("before", "1")).has_value());
  {
    std::ofstream ballast(folder + "/ballast", std::ios::binary);
    std::string block(64 << 10, 'b');
    while (ballast.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  std::optional<Status> ended;
  int accepted = 0;
  LogPosition position;
  for (; accepted < 8000; ++accepted) {
    WriteBatch during;
    during.put("during" + std::to_string(accepted), std::string(1000, 'v'));
    auto applied = made_.store->apply(during);
    if (!applied) break;
    position = *applied;
  }
  ASSERT_GT(accepted, 0);
  spawn(made_.store->durable(position), ended);
  WriteBatch batch;
  batch.put("refused", "1");
  EXPECT_TRUE(run_in_real_time(made_.loop, [&] {
    auto applied = made_.store->apply(batch);
    return !applied && applied.error().code == Errc::kNoSpace;
  }));
  EXPECT_FALSE(ended.has_value());
  EXPECT_EQ(get("before"), "1");
  std::filesystem::remove(folder + "/ballast");
  ASSERT_TRUE(run_in_real_time(made_.loop, [&] { return ended.has_value(); }));
  bool went_on = ended->has_value();
  if (went_on) {
    ASSERT_TRUE(run_in_real_time(made_.loop, [&] { return made_.store->apply(batch).has_value(); }));
  } else {
    // It says that it cannot go on; a restart can, with everything that was durable.
    EXPECT_EQ(ended->error().code, Errc::kIo);
    EXPECT_EQ(made_.store->apply(batch).error().code, Errc::kIo);
  }
  auto reopen = [&] {
    made_.store.reset();
    made_.store =
        std::move(RocksStore::open(made_.loop, made_.metrics, {.folder = folder + "/cells"}).value());
  };
  if (!went_on) reopen();
  EXPECT_EQ(get("before"), "1");
  ASSERT_TRUE(wait_durable(put("after", "1")).has_value());
  reopen();
  if (went_on) {
    for (int i = 0; i < accepted; ++i) ASSERT_TRUE(get("during" + std::to_string(i)).has_value()) << i;
  }
  EXPECT_EQ(get("after"), "1");
  made_.store.reset();
}

}  // namespace
}  // namespace slice::storage
