#include "smallfile/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "smallfile/testing/store_harness.h"

namespace slice::smallfile {
namespace {

using ::testing::HasSubstr;
using Crash = StoreHarness::Crash;

class StoreTest : public ::testing::Test, public StoreHarness {
 protected:
  void SetUp() override { must_open(); }
  void save() {
    Status status = run(store->save());
    ASSERT_TRUE(status) << status.error().message;
  }
  wire::ObjectStatResult stat(std::uint64_t file) { return store->stat({file}).value(); }
};

std::string pattern(std::size_t length, std::uint64_t seed) {
  std::string bytes(length, 0);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>('a' + (i * 7 + seed) % 26);
  return bytes;
}

TEST_F(StoreTest, WhatWasWrittenIsRead) {
  ASSERT_TRUE(write(1, 0, "hello", false));
  ASSERT_TRUE(write(1, 3, "p me", true));
  EXPECT_EQ(*content(1), "help me");
  EXPECT_EQ(store->look({1})->end, 7u);
  EXPECT_EQ(store->look({2})->end, 0u);  // never written
  EXPECT_EQ(*range(2, 100, 5), std::string(5, '\0'));
}

TEST_F(StoreTest, HolesReadAsZerosInMemoryAndFromTheZone) {
  ASSERT_TRUE(write(1, 20000, "tail", true));
  ASSERT_TRUE(write(1, 10, "x", true));
  std::string expected(20004, '\0');
  expected[10] = 'x';
  expected.replace(20000, 4, "tail");
  EXPECT_EQ(*content(1), expected);
  save();
  restart();
  EXPECT_EQ(*content(1), expected);
  EXPECT_EQ(stat(1).extents.size(), 2u);  // the block between is a hole there too
}

TEST_F(StoreTest, HolesAreNotCountedAsStored) {
  EXPECT_EQ(*store->stored({1}), 0u);
  ASSERT_TRUE(write(1, 20000, "tail", true));
  EXPECT_EQ(*store->stored({1}), 4096u);
  ASSERT_TRUE(write(1, 10, "x", true));
  EXPECT_EQ(*store->stored({1}), 8192u);
  save();
  restart();
  EXPECT_EQ(*store->stored({1}), 8192u);
  ASSERT_TRUE(write(2, 0, pattern(8300, 1), true));
  EXPECT_EQ(*store->stored({2}), 12288u);
}

TEST_F(StoreTest, AFileOf8300BytesTakes8192And128Bytes) {
  ASSERT_TRUE(write(1, 0, pattern(8300, 1), true));
  save();
  auto result = stat(1);
  EXPECT_EQ(result.allocated, 8192u + 128);
  EXPECT_EQ(result.end, 8300u);
  ASSERT_EQ(result.extents.size(), 2u);
  EXPECT_EQ(result.extents[0].length, 8192u);
  EXPECT_EQ(result.extents[1].length, 108u);
  EXPECT_EQ(result.extents[1].place, result.extents[0].place + 8192);
  EXPECT_EQ(store->checkpointer().zone({1})->end(), 8192u + 128);
}

TEST_F(StoreTest, FilesMadeTogetherLieTogetherAndAreWrittenInOneBatch) {
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(write(4 * i + 1, 0, pattern(1000, i), false));
  std::uint64_t writes = metric("smallfile_zone_writes_total");
  save();
  EXPECT_EQ(metric("smallfile_zone_writes_total") - writes, 1u);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(stat(4 * i + 1).extents[0].place, i * 1024);
}

TEST_F(StoreTest, FreedRoomIsReusedAndAnEmptyZoneShrinksAway) {
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(write(4 * i, 0, pattern(3000, i), true));
  save();
  std::uint64_t end = store->checkpointer().zone({0})->end();
  for (std::uint64_t i = 0; i < 50; i += 2) ASSERT_TRUE(run(store->remove({4 * i})));
  save();
  for (std::uint64_t i = 100; i < 125; ++i) ASSERT_TRUE(write(4 * i, 0, pattern(3000, i), true));
  save();
  EXPECT_EQ(store->checkpointer().zone({0})->end(), end);
  for (std::uint64_t i = 1; i < 125; i += i < 49 ? 2 : 1) ASSERT_TRUE(run(store->remove({4 * i})));
  save();
  EXPECT_EQ(store->checkpointer().zone({0})->end(), 0u);
  auto file = run(disk.open(DiskZoneStore::path({0}), storage::Disk::Mode::kMustExist));
  EXPECT_EQ((*file)->size(), 0u);
  EXPECT_EQ(medium.size(), 2u);  // the header and one zone's end
}

TEST_F(StoreTest, StableWritesSurviveLossOfPowerAndUnstableOnesMayNot) {
  ASSERT_TRUE(write(1, 0, "stable", true));
  ASSERT_TRUE(write(2, 0, "unstable", false));
  ASSERT_TRUE(write(3, 0, "committed", false));
  ASSERT_TRUE(run(store->commit({3})));
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(1), "stable");
  EXPECT_EQ(*content(2), "");
  EXPECT_EQ(*content(3), "committed");
}

TEST_F(StoreTest, CommitCoversEveryBlockAndOverlappingWrites) {
  std::string data = pattern(65536, 3);
  for (std::size_t at = 0; at < data.size(); at += 5000) {
    ASSERT_TRUE(write(1, at, std::string_view(data).substr(at, 6000), at % 3 == 0));
  }
  ASSERT_TRUE(run(store->commit({1})));
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(1), data);
}

TEST_F(StoreTest, OneSyncServesManyStableWrites) {
  std::uint64_t syncs = disk.syncs();
  std::vector<std::shared_ptr<std::optional<Result<Store::Written>>>> results;
  for (std::uint64_t i = 0; i < 20; ++i) {
    results.push_back(std::make_shared<std::optional<Result<Store::Written>>>());
    spawn(keep(store->write({i}, {.offset = 0, .data = as_bytes("data"), .stable = true}), results.back()));
  }
  ASSERT_TRUE(loop.run_until([&] { return results.back()->has_value(); }));
  for (auto& result : results) EXPECT_TRUE(result->has_value() && result->value());
  EXPECT_EQ(disk.syncs() - syncs, 1u);
}

TEST_F(StoreTest, TruncateCutsAndNothingOldReappears) {
  ASSERT_TRUE(write(1, 0, pattern(20000, 1), true));
  save();
  restart();  // the blocks are in the zone only
  ASSERT_TRUE(run(store->truncate({1}, 9000, {1})));
  ASSERT_TRUE(write(1, 9500, "new", true));
  std::string expected = pattern(20000, 1).substr(0, 9000) + std::string(500, '\0') + "new";
  EXPECT_EQ(*content(1), expected);
  save();
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(1), expected);
  ASSERT_TRUE(run(store->truncate({1}, 0, {2})));
  ASSERT_TRUE(write(1, 100, "x", true));
  EXPECT_EQ(*content(1), std::string(100, '\0') + "x");
}

TEST_F(StoreTest, ATruncateOfAnOlderOrTheSameEpochDoesNothing) {
  ASSERT_TRUE(run(store->truncate({1}, 0, {5})));
  ASSERT_TRUE(write(1, 0, "kept", true));
  ASSERT_TRUE(run(store->truncate({1}, 0, {5})));
  ASSERT_TRUE(run(store->truncate({1}, 0, {4})));
  EXPECT_EQ(*content(1), "kept");
  EXPECT_EQ(store->look({1})->epoch, Epoch{5});
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(1), "kept");
  EXPECT_EQ(store->look({1})->epoch, Epoch{5});
}

TEST_F(StoreTest, TheEpochIsRememberedOfAFileThatHoldsNothing) {
  ASSERT_TRUE(run(store->truncate({1}, 100, {7})));
  save();
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(store->look({1})->epoch, Epoch{7});
}

TEST_F(StoreTest, ARemovedFileIsStaleAndItsLateWritesAreRefused) {
  ASSERT_TRUE(write(1, 0, "gone", true));
  save();
  ASSERT_TRUE(run(store->remove({1})));
  EXPECT_EQ(write(1, 0, "late", false).error().code, Errc::kStale);
  save();
  EXPECT_EQ(write(1, 0, "late", true).error().code, Errc::kStale);
  EXPECT_FALSE(content(1));
  ASSERT_TRUE(run(store->remove({1})));  // again: nothing to do
  ASSERT_TRUE(run(store->remove({77})));
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(store->look({1}).error().code, Errc::kStale);  // still: its removal is in the journal
  EXPECT_EQ(store->checkpointer().zone({1}) == nullptr ? 0 : store->checkpointer().zone({1})->end(), 0u);
}

TEST_F(StoreTest, MtimeMovesForwardStrictly) {
  nfs3::Time last;
  for (int i = 0; i < 5; ++i) {
    auto written = write(1, 0, "x", false);  // the clock stands still
    EXPECT_GT(written->seen.mtime, last);
    last = written->seen.mtime;
  }
  nfs3::Time future{4000000000, 999999999};
  auto written = run(store->write({1}, {.offset = 0, .data = as_bytes("x"), .mtime_from = future}));
  EXPECT_EQ(written->seen.mtime, (nfs3::Time{4000000001, 0}));
}

TEST_F(StoreTest, ADamagedBlockIsNeverReturnedAndAFullOverwriteHealsIt) {
  ASSERT_TRUE(write(1, 0, pattern(20000, 1), true));
  save();
  restart();
  std::uint64_t place = stat(1).extents[1].place;
  ASSERT_TRUE(disk.corrupt(DiskZoneStore::path({1}), place + 77, 0x10));
  auto bad = range(1, 8192 + 4000, 10);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Errc::kCorrupt);
  EXPECT_THAT(bad.error().message, HasSubstr("file 0x1 offset 8192"));
  EXPECT_EQ(metric("smallfile_damaged_blocks_total"), 1u);
  EXPECT_EQ(*range(1, 0, 8192), pattern(20000, 1).substr(0, 8192));  // its neighbours are well
  EXPECT_EQ(write(1, 9000, "part", true).error().code, Errc::kCorrupt);
  ASSERT_TRUE(write(1, 8192, pattern(8192, 9), true));
  EXPECT_EQ(*range(1, 8192, 8192), pattern(8192, 9));
}

TEST_F(StoreTest, EveryFlippedBitOfABlockIsFound) {
  ASSERT_TRUE(write(1, 0, pattern(300, 1), true));
  save();
  std::uint64_t place = stat(1).extents[0].place;
  for (std::uint64_t bit = 0; bit < 300 * 8; bit += 5) {
    ASSERT_TRUE(
        disk.corrupt(DiskZoneStore::path({1}), place + bit / 8, static_cast<std::uint8_t>(1 << bit % 8)));
    restart();
    EXPECT_FALSE(content(1)) << bit;
    ASSERT_TRUE(
        disk.corrupt(DiskZoneStore::path({1}), place + bit / 8, static_cast<std::uint8_t>(1 << bit % 8)));
  }
  restart();
  EXPECT_EQ(*content(1), pattern(300, 1));
}

TEST_F(StoreTest, ADamagedMapRecordCostsItsFileAlone) {
  ASSERT_TRUE(write(1, 0, "one", true));
  ASSERT_TRUE(write(5, 0, "five", true));
  save();
  medium.corrupt(key_of({1}, KeyKind::kMap, 1));
  restart();
  EXPECT_EQ(content(1).error().code, Errc::kCorrupt);
  EXPECT_EQ(write(1, 0, "x", true).error().code, Errc::kCorrupt);
  EXPECT_EQ(*content(5), "five");
}

TEST_F(StoreTest, ADamagedJournalIsRefusedAtStart) {
  ASSERT_TRUE(write(1, 0, "one", true));
  ASSERT_TRUE(write(1, 0, "two", true));
  settle();
  ASSERT_TRUE(disk.corrupt("journal/0000000000000001.log", 50, 1));
  Status status = open();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("journal/0000000000000001.log: offset 32"));
}

TEST_F(StoreTest, AnotherThresholdOrNumberOfSitesIsRefused) {
  settle();
  options.threshold = 131072;
  Status status = open();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("threshold 65536"));
  options.threshold = 65536;
  options.sites = 8;
  EXPECT_FALSE(open());
  options.sites = 4;
  must_open();
}

TEST_F(StoreTest, MemoryStaysWithinItsLimit) {
  settle();
  options.cache_bytes = 512 << 10;
  options.journal_bytes = 256 << 10;
  options.segment_bytes = 64 << 10;
  must_open();
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    ASSERT_TRUE(write(i, 0, pattern(16000, i), i % 2 == 0));
    most = std::max<std::size_t>(most, store->table().used_bytes());
  }
  EXPECT_LT(most, options.cache_bytes + (64 << 10));
  EXPECT_LT(store->journal_bytes(), 6 * options.journal_bytes);
  for (std::uint64_t i = 0; i < 400; ++i) EXPECT_EQ(*content(i), pattern(16000, i));
  EXPECT_LT(store->table().used_bytes(), options.cache_bytes + (64 << 10));
  EXPECT_GT(metric("smallfile_evictions_total"), 300u);
}

TEST_F(StoreTest, ChangesAreSavedWithinSecondsAndTheJournalIsTrimmed) {
  settle();
  options.segment_bytes = 32 << 10;
  must_open();
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(write(i, 0, pattern(8000, i), true));
  EXPECT_GT(store->journal_bytes(), 150u << 10);
  loop.advance(Store::kSaveAfter + std::chrono::seconds(1));
  EXPECT_TRUE(store->idle());
  EXPECT_LT(store->journal_bytes(), 64u << 10);
  restart(Crash::kDropUnsynced);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(*content(i), pattern(8000, i));
}

TEST_F(StoreTest, AFullDiskRefusesWritesServesTheRestAndRecovers) {
  settle();
  options.segment_bytes = 64 << 10;
  disk.set_capacity(4 << 20);
  must_open();
  std::uint64_t file = 0;
  Result<Store::Written> last = Store::Written{};
  while (last && file < 1000) {
    ++file;
    last = write(file * 4, 0, pattern(8192, file), true);
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Errc::kNoSpace);
  EXPECT_TRUE(store->full());
  EXPECT_GT(file, 100u);
  EXPECT_GE(disk.space()->free_bytes, options.reserve_bytes / 4);
  EXPECT_EQ(*content(4), pattern(8192, 1));
  for (std::uint64_t i = 1; i < file; i += 2) ASSERT_TRUE(run(store->remove({i * 4})));
  auto again = write(4000, 0, pattern(8192, 1), true);  // at once: the room is found
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(store->full());
  restart(Crash::kDropUnsynced);
  for (std::uint64_t i = 2; i < file; i += 2) EXPECT_EQ(*content(i * 4), pattern(8192, i));
}

TEST_F(StoreTest, AFailedZoneWriteIsTriedAgainElsewhere) {
  ASSERT_TRUE(write(1, 0, "old", true));
  save();
  ASSERT_TRUE(write(1, 0, "new", true));
  for (auto failing : {storage::MemoryDisk::Operation::kWrite, storage::MemoryDisk::Operation::kSync}) {
    disk.set_fault([failing](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
      if (access.operation == failing && access.path.starts_with("zones/"))
        return Error{Errc::kIo, "injected"};
      return std::nullopt;
    });
    EXPECT_FALSE(run(store->save()));
    EXPECT_EQ(*content(1), "new");
  }
  disk.set_fault(nullptr);
  save();
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(1), "new");
  EXPECT_LE(store->checkpointer().zone({1})->end(), 4 * 128u);
}

TEST_F(StoreTest, RecordsThatFindNoSpaceAreSavedLater) {
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(write(4 * i, 0, pattern(3000, i), true));
  save();
  for (std::uint64_t i = 0; i < 10; i += 2) ASSERT_TRUE(run(store->remove({4 * i})));
  ASSERT_TRUE(write(4, 0, pattern(9000, 5), true));
  memory_store->set_no_space(true);
  EXPECT_FALSE(run(store->save()));
  EXPECT_FALSE(run(store->save()));
  memory_store->set_no_space(false);
  save();
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(4), pattern(9000, 5));
  for (std::uint64_t i = 3; i < 10; i += 2) EXPECT_EQ(*content(4 * i), pattern(3000, i));
}

TEST_F(StoreTest, AChangeWhileItsFileIsBeingSavedIsNotLost) {
  disk.set_delay(std::chrono::milliseconds(1), std::chrono::milliseconds(1));
  ASSERT_TRUE(write(1, 0, pattern(20000, 1), true));
  auto saved = std::make_shared<std::optional<Status>>();
  spawn(keep(store->save(), saved));
  loop.run_ready();
  ASSERT_TRUE(write(1, 100, "during", true));
  ASSERT_TRUE(run(store->truncate({1}, 10000, {1})));
  ASSERT_TRUE(loop.run_until([&] { return saved->has_value(); }));
  std::string expected = pattern(20000, 1).substr(0, 10000);
  expected.replace(100, 6, "during");
  EXPECT_EQ(*content(1), expected);
  restart(Crash::kDropUnsynced);
  EXPECT_EQ(*content(1), expected);
  save();
  EXPECT_EQ(stat(1).allocated, 8192u + 2048u);
  const ZoneAllocator& zone = *store->checkpointer().zone({1});
  EXPECT_EQ(zone.end() - zone.free_bytes(), 8192u + 2048u);  // nothing leaked
}

TEST_F(StoreTest, TheAuthorityIsOwedANewEndOnce) {
  auto first = write(1, 0, "abc", true);
  EXPECT_TRUE(first->unreported);
  store->reported({1}, first->seen);
  EXPECT_FALSE(write(1, 1, "x", true)->unreported);
  EXPECT_TRUE(run(store->commit({1}))->unreported);  // its mtime
  auto longer = write(1, 3, "d", true);
  EXPECT_TRUE(longer->unreported);
  store->reported({1}, longer->seen);
  EXPECT_FALSE(run(store->commit({1}))->unreported);
  ASSERT_TRUE(run(store->truncate({1}, 0, {1})));
  EXPECT_TRUE(write(1, 0, "a", true)->unreported);
}

}  // namespace
}  // namespace slice::smallfile
