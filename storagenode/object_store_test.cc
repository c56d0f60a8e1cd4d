#include "storagenode/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "storagenode/scrubber.h"
#include "storagenode/testing/store_harness.h"

namespace slice::storagenode {
namespace {

using MemoryOperation = MemoryDisk::Operation;

class ObjectStoreTest : public testing::Test {
 protected:
  explicit ObjectStoreTest(ObjectStore::Options options = {.reserve_bytes = 0}) : h(options) {
    EXPECT_TRUE(h.open());
  }
  std::string text(const Buffer& bytes) { return std::string(as_text(bytes.view())); }
  void fail_when(std::function<bool(const MemoryDisk::Access&)> when, Errc code) {
    h.disk.set_fault([when, code](const MemoryDisk::Access& access) -> std::optional<Error> {
      if (!when(access)) return std::nullopt;
      return Error{code, "injected"};
    });
  }
  StoreHarness h;
  ObjectName name = file_object(0x0001000000000002);
};

TEST_F(ObjectStoreTest, HolesAreZerosAndTheEndIsTheLastByteWritten) {
  Buffer bytes = pattern(10'000, 1);
  ASSERT_TRUE(h.write(name, 100'001, bytes.view()));
  EXPECT_EQ(*h.read(name, 0, 100'001), std::string(100'001, '\0'));
  EXPECT_EQ(*h.read(name, 100'001, 50'000), text(bytes));
  EXPECT_EQ(*h.read(name, 110'001, 10), "");
  EXPECT_EQ(*h.read(name, 110'000, 10), text(bytes).substr(9'999));
  EXPECT_EQ(h.run(h.store->commit(name))->end, 110'001u);
}

TEST_F(ObjectStoreTest, AnObjectThatIsNotThereHasNoBytes) {
  EXPECT_EQ(*h.read(name, 0, 10), "");
  EXPECT_FALSE(h.run(h.store->commit(name))->exists);
  EXPECT_TRUE(h.run(h.store->remove(name)));
  EXPECT_FALSE(h.run(h.store->stat(name, 10))->exists);
}

TEST_F(ObjectStoreTest, EveryAlignmentOfSmallWrites) {
  std::string expected(3 * kBlock, '\0');
  std::mt19937_64 random(7);
  ASSERT_TRUE(h.write(name, expected.size() - 1, as_bytes(std::string_view("\0", 1))));
  for (int i = 0; i < 400; ++i) {
    std::size_t at = random() % expected.size(), n = 1 + random() % (expected.size() - at);
    if (random() % 3 == 0) n = std::min<std::size_t>(n, 3);
    Buffer bytes = pattern(n, random());
    ASSERT_TRUE(h.write(name, at, bytes.view()));
    expected.replace(at, n, text(bytes));
    ASSERT_EQ(*h.read(name, 0, expected.size()), expected);
  }
}

TEST_F(ObjectStoreTest, OffsetsUpToTheLargestFile) {
  for (std::uint64_t offset : {std::uint64_t{1} << 40, std::uint64_t{1} << 62, kMaxObjectSize - 5}) {
    ASSERT_TRUE(h.write(name, offset, as_bytes("hello"), true)) << offset;
    EXPECT_EQ(*h.read(name, offset, 5), "hello");
    EXPECT_EQ(*h.read(name, offset - 5, 5), std::string(5, '\0'));
  }
  for (std::uint64_t offset :
       {kMaxObjectSize - 4, kMaxObjectSize, kMaxObjectSize + 1, ~std::uint64_t{0} - 3}) {
    auto refused = h.write(name, offset, as_bytes("hello"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kTooLarge);
    EXPECT_LE(h.read(name, offset, 5)->size(), 4u);
  }
  EXPECT_EQ(h.run(h.store->commit(name))->end, kMaxObjectSize);
  h.close();
  ASSERT_TRUE(h.open());
  EXPECT_EQ(h.run(h.store->commit(name))->end, kMaxObjectSize);
}

TEST_F(ObjectStoreTest, AWriteOverTheEndOfASegment) {
  Buffer bytes = pattern(300'000, 3);
  ASSERT_TRUE(h.write(name, kSegment - 123'456, bytes.view(), true));
  EXPECT_EQ(*h.read(name, kSegment - 123'456, 300'000), text(bytes));
  auto stat = h.run(h.store->stat(name, 100));
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->end, kSegment - 123'456 + 300'000);
  ASSERT_EQ(stat->extents.size(), 2u);
  EXPECT_EQ(stat->extents[1].offset, kSegment);
  EXPECT_GE(stat->allocated, 300'000u);
}

TEST_F(ObjectStoreTest, HolesAreNotCountedAsStored) {
  EXPECT_FALSE(h.store->stored(name).has_value()) << "not looked at yet";
  Buffer bytes = pattern(64 << 10, 3);
  for (std::uint64_t at : {std::uint64_t{0}, kSegment / 2, 3 * kSegment}) {
    ASSERT_TRUE(h.write(name, at, bytes.view(), true));
  }
  const std::uint64_t written = 3 * (64 << 10);
  ASSERT_TRUE(h.store->stored(name).has_value());
  EXPECT_GE(*h.store->stored(name), written);
  EXPECT_LE(*h.store->stored(name), written + 4 * kBlock);
  const std::uint64_t before = *h.store->stored(name);
  h.close();
  ASSERT_TRUE(h.open());
  EXPECT_EQ(*h.read(name, 0, 1), text(bytes).substr(0, 1));
  EXPECT_EQ(*h.store->stored(name), before);
  ASSERT_TRUE(h.run(h.store->truncate(name, kSegment, Epoch{2})));
  EXPECT_LE(*h.store->stored(name), 2 * (64 << 10) + 4 * kBlock);
}

TEST_F(ObjectStoreTest, TruncateNeverLetsOldBytesReappear) {
  for (std::uint64_t size :
       std::initializer_list<std::uint64_t>{0, 1, 4095, 4096, 5000, 1 << 20, kSegment, kSegment + 77}) {
    ObjectName object = file_object(1000 + size);
    Buffer bytes = pattern(20'000, size);
    for (std::uint64_t at : {std::uint64_t{0}, (std::uint64_t{1} << 20) - 9'000, kSegment - 10'000}) {
      ASSERT_TRUE(h.write(object, at, bytes.view()));
    }
    ASSERT_TRUE(h.run(h.store->truncate(object, size, Epoch{2})));
    std::uint64_t far = 2 * kSegment;
    ASSERT_TRUE(h.write(object, far, as_bytes("x"), false, Epoch{2}));
    for (std::uint64_t at : {size, std::uint64_t{1} << 20, kSegment - 10'000, kSegment}) {
      if (at >= size) EXPECT_EQ(*h.read(object, at, 20'000), std::string(20'000, '\0')) << size << " " << at;
    }
  }
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
}

TEST_F(ObjectStoreTest, WhatIsDiscardedIsAHoleAndStaysOne) {
  Buffer bytes = pattern(3 << 16, 5);
  std::string expected = text(bytes);
  ASSERT_TRUE(h.write(name, kSegment - (1 << 16), bytes.view(), true));
  auto allocated = h.run(h.store->stat(name, 10))->allocated;
  for (std::uint64_t at : {kSegment - (1 << 16), kSegment + (1 << 16)}) {  // the last: up to the end
    ASSERT_TRUE(h.run(h.store->discard(name, at, 1 << 16)));
    expected.replace(at - (kSegment - (1 << 16)), 1 << 16, std::string(1 << 16, '\0'));
    EXPECT_EQ(*h.read(name, kSegment - (1 << 16), 4 << 16), expected) << "the end stays";
  }
  EXPECT_LE(h.run(h.store->stat(name, 10))->allocated + (2 << 16), allocated);
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.open());
  EXPECT_EQ(*h.read(name, kSegment - (1 << 16), 4 << 16), expected);
  ASSERT_TRUE(h.write(name, kSegment - (1 << 16), as_bytes("new")));
  EXPECT_EQ(h.read(name, kSegment - (1 << 16), 5)->substr(0, 5), std::string("new\0\0", 5));
  ASSERT_TRUE(h.run(h.store->discard(file_object(99), 0, 1 << 16))) << "none there";
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
}

TEST_F(ObjectStoreTest, ADiscardThatFailsLeavesNothingThatCannotBeRead) {
  Buffer bytes = pattern(1 << 17, 6);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  for (std::uint64_t fails_at : {std::uint64_t{1} << 20, std::uint64_t{4096}}) {  // of data, of checksums
    fail_when(
        [fails_at](const MemoryDisk::Access& access) {
          return access.operation == MemoryOperation::kPunch && access.offset <= fails_at + 4096 &&
                 access.offset >= fails_at;
        },
        Errc::kIo);
    EXPECT_FALSE(h.run(h.store->discard(name, 0, 1 << 16)));
    h.disk.set_fault(nullptr);
    auto read = h.read(name, 1 << 16, 1 << 16);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, text(bytes).substr(1 << 16));
    ASSERT_TRUE(h.read(name, 0, 1 << 16));
  }
}

TEST_F(ObjectStoreTest, TruncateOfAnOldEpochChangesNothing) {
  ASSERT_TRUE(h.write(name, 0, as_bytes("abcdef")));
  ASSERT_TRUE(h.run(h.store->truncate(name, 3, Epoch{5})));
  ASSERT_TRUE(h.write(name, 3, as_bytes("DEF")));
  ASSERT_TRUE(h.run(h.store->truncate(name, 0, Epoch{5}))) << "sent again";
  ASSERT_TRUE(h.run(h.store->truncate(name, 0, Epoch{4}))) << "from before";
  EXPECT_EQ(*h.read(name, 0, 10), "abcDEF");
}

TEST_F(ObjectStoreTest, TheEpochIsRememberedAlsoWithoutAnObjectAndThroughACrash) {
  ASSERT_TRUE(h.run(h.store->truncate(name, 100, Epoch{7})));
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.open());
  ASSERT_TRUE(h.write(name, 0, as_bytes("late"), false, Epoch{6}));
  auto committed = h.run(h.store->commit(name));
  EXPECT_EQ(committed->epoch, Epoch{7}) << "the late writer's older epoch does not come back";
  ASSERT_TRUE(h.run(h.store->truncate(name, 0, Epoch{7})));
  EXPECT_EQ(*h.read(name, 0, 10), "late") << "that truncation was before the write";
}

TEST_F(ObjectStoreTest, ALateWriteDoesNotBringARemovedFileBack) {
  ASSERT_TRUE(h.write(name, 5 * kSegment, as_bytes("abc")));
  ASSERT_TRUE(h.run(h.store->remove(name)));
  auto late = h.write(name, 0, as_bytes("x"));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kStale);
  EXPECT_TRUE(h.run(h.store->list(std::nullopt, 10))->objects.empty());
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.open());
  EXPECT_EQ(*h.read(name, 0, 10), "");
  std::vector<std::string> left = h.disk.paths();
  EXPECT_EQ(left, std::vector<std::string>{"marks"});
}

TEST_F(ObjectStoreTest, ListsInOrderFromAnywhere) {
  std::vector<ObjectName> all;
  for (std::uint64_t id :
       {3ull, 0x0001000000000000ull, 255ull, 256ull, 0xfffffull, 0x100000ull, 0x0002000000000007ull}) {
    for (auto kind : {ObjectKind::kFile, ObjectKind::kLog}) {
      ObjectName made{VolumeId{static_cast<std::uint32_t>(1 + id % 2)}, FileId{id}, kind};
      ASSERT_TRUE(h.write(made, id % 3 == 0 ? 2 * kSegment : 0, as_bytes("x")));
      all.push_back(made);
    }
  }
  std::sort(all.begin(), all.end());
  for (std::size_t limit : {1u, 3u, 5u, 100u}) {
    std::vector<ObjectName> seen;
    std::optional<ObjectName> after;
    for (;;) {
      auto listed = h.run(h.store->list(after, limit));
      ASSERT_TRUE(listed);
      seen.insert(seen.end(), listed->objects.begin(), listed->objects.end());
      if (listed->end) break;
      ASSERT_EQ(listed->objects.size(), limit);
      after = seen.back();
    }
    EXPECT_EQ(seen, all);
  }
}

TEST_F(ObjectStoreTest, EveryFlippedBitIsFound) {
  Buffer bytes = pattern(3 * kBlock, 1);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  std::string path = head_path(name);
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    std::uint64_t at = random() % (3 * kBlock);
    auto flip = static_cast<std::uint8_t>(1 << random() % 8);
    ASSERT_TRUE(h.disk.corrupt(path, kDataStart + at, flip));
    std::uint64_t counted = h.count("store_checksum_errors_total");
    auto read = h.read(name, at, 1);
    ASSERT_FALSE(read) << "byte " << at;
    EXPECT_EQ(read.error().code, Errc::kCorrupt);
    EXPECT_THAT(read.error().message, testing::HasSubstr(fmt::format("offset {}", at / kBlock * kBlock)));
    EXPECT_EQ(h.count("store_checksum_errors_total"), counted + 1);
    EXPECT_TRUE(h.read(name, (at / kBlock + 1) % 3 * kBlock, 10)) << "other blocks are well";
    ASSERT_TRUE(h.disk.corrupt(path, kDataStart + at, flip));
  }
  for (std::uint64_t block = 0; block < 3; ++block) {
    ASSERT_TRUE(h.disk.corrupt(path, kSumsStart + block * 4 + random() % 4, 1));
    EXPECT_EQ(h.read(name, block * kBlock, 1).error().code, Errc::kCorrupt) << "its checksum was hit";
  }
}

TEST_F(ObjectStoreTest, CorruptionIsNeverTakenForATornWriteAfterItsTime) {
  ASSERT_TRUE(h.write(name, 0, pattern(kBlock, 1).view(), true));
  h.loop.advance(std::chrono::seconds(30));  // synced and quiet: the mark is gone
  EXPECT_EQ(h.count("store_marked_granules"), 0u);
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.disk.corrupt(head_path(name), kDataStart + 17, 4));
  ASSERT_TRUE(h.open());
  EXPECT_EQ(h.read(name, 0, 10).error().code, Errc::kCorrupt);
  EXPECT_EQ(h.write(name, 5, as_bytes("part")).error().code, Errc::kCorrupt)
      << "a block it would keep in part";
  EXPECT_TRUE(h.write(name, 0, pattern(kBlock, 2).view())) << "a whole block may replace it";
  EXPECT_EQ(*h.read(name, 0, kBlock), text(pattern(kBlock, 2)));
}

TEST_F(ObjectStoreTest, BlocksInTheWrongPlaceAreFound) {
  ASSERT_TRUE(h.write(name, 0, pattern(kBlock, 1).view()));
  ASSERT_TRUE(h.write(file_object(9), 0, pattern(kBlock, 1).view()));
  auto one = h.run(h.disk.open(head_path(name), storage::Disk::Mode::kMustExist));
  auto two = h.run(h.disk.open(head_path(file_object(9)), storage::Disk::Mode::kMustExist));
  Buffer sum(4);
  ASSERT_TRUE(h.run((*one)->read(kSumsStart, sum.span())));
  ASSERT_TRUE(h.run((*two)->write(kSumsStart, sum.view()))) << "data and checksum of another object";
  EXPECT_EQ(h.read(file_object(9), 0, 1).error().code, Errc::kCorrupt);
}

// Were the other copy older, the segments behind the first would be holes.
TEST_F(ObjectStoreTest, EitherCopyOfAHeaderSaysAll) {
  for (std::uint64_t copy : {0, 1}) {
    ASSERT_TRUE(h.write(name, 0, as_bytes("near"), true));
    ASSERT_TRUE(h.write(name, 3 * kSegment, as_bytes("far"), true));
    h.close();
    ASSERT_TRUE(h.disk.corrupt(head_path(name), copy * kHeaderSlot + 44, 1));
    ASSERT_TRUE(h.open());
    auto errors = h.count("store_checksum_errors_total");
    EXPECT_EQ(*h.read(name, 3 * kSegment, 3), "far") << copy;
    EXPECT_EQ(h.count("store_checksum_errors_total"), errors + 1);
    name.fileid.value += 1;
  }
}

TEST(HeaderTest, OfCopiesThatTakeTurnsTheLostOneMayBeTheNewer) {
  const SegmentName segment{file_object(7), 0};
  auto slots = [&](std::uint64_t first, std::uint64_t second) {
    std::array<std::uint8_t, 2 * kHeaderSlot> bytes{};
    for (auto sequence : {first, second}) {
      if (sequence == 0) continue;
      auto slot = encode_header({.name = segment, .epoch = Epoch{1}, .sequence = sequence});
      std::copy(slot.begin(), slot.end(), bytes.data() + header_slot_offset(sequence));
    }
    return bytes;
  };
  EXPECT_EQ(decode_header(slots(3, 4)).newest->sequence, 4u);
  EXPECT_EQ(decode_header(slots(1, 0)).newest->sequence, 1u) << "never changed";
  EXPECT_FALSE(decode_header(slots(3, 0)).newest);
  auto damaged = slots(1, 2);
  damaged[30] ^= 1;
  EXPECT_FALSE(decode_header(damaged).newest);
}

TEST_F(ObjectStoreTest, ACorruptedHeaderOrALostFileIsAnError) {
  ASSERT_TRUE(h.write(name, 3 * kSegment, as_bytes("x"), true));
  h.close();
  ASSERT_TRUE(h.disk.corrupt(head_path(name), 20, 1));
  ASSERT_TRUE(h.disk.corrupt(head_path(name), kHeaderSlot + 20, 1));
  ASSERT_TRUE(h.open());
  EXPECT_EQ(h.read(name, 0, 1).error().code, Errc::kCorrupt);
  EXPECT_FALSE(h.write(name, 0, as_bytes("x")));
  EXPECT_GT(h.count("store_checksum_errors_total"), 0u);
}

TEST_F(ObjectStoreTest, TheScrubberFindsCorruptionByItself) {
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(h.write(file_object(id), id * 3'000'000, pattern(50'000, id).view(), true));
  }
  ASSERT_TRUE(h.disk.corrupt(head_path(file_object(2)), kDataStart + 6'010'000, 1));
  Scrubber scrubber(*h.store, {.bytes_per_second = 1 << 20, .between_passes = std::chrono::hours(1)});
  scrubber.start();
  ASSERT_TRUE(h.loop.run_until([&] { return h.count("store_scrub_passes_total") == 1; }));
  EXPECT_EQ(h.count("store_checksum_errors_total"), 1u);
  EXPECT_GE(h.count("store_scrubbed_bytes_total"), 100'000u);
  EXPECT_GT(h.loop.now().time_since_epoch(), std::chrono::seconds(61)) << "it goes slowly";
  bool stopped = false;
  spawn(note_end(scrubber.stop(), stopped));
  EXPECT_TRUE(h.loop.run_until([&] { return stopped; }));
}

TEST_F(ObjectStoreTest, AFullDiskIsToldAndNothingIsDamaged) {
  Buffer bytes = pattern(64 << 10, 1);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  h.disk.set_capacity(h.disk.used_bytes() + 10 * kBlock);
  std::uint64_t at = bytes.size();
  Status status;
  for (int i = 0; i < 10 && status; ++i, at += bytes.size()) status = h.write(name, at, bytes.view());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kNoSpace);
  EXPECT_EQ(*h.read(name, 0, bytes.size()), text(bytes));
  EXPECT_TRUE(h.read(name, bytes.size(), 1 << 20)) << "blocks of the failed write have checksums that fit";
  EXPECT_TRUE(h.write(name, 0, bytes.view(), true)) << "what has its place may be written";
  h.disk.set_capacity(1 << 30);
  ASSERT_TRUE(h.write(name, bytes.size(), bytes.view(), true));
  EXPECT_EQ(*h.read(name, bytes.size(), bytes.size()), text(bytes));
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
}

class ReserveTest : public ObjectStoreTest {
 protected:
  ReserveTest() : ObjectStoreTest({.reserve_bytes = 1 << 20}) {}
};

TEST_F(ReserveTest, BelowTheReserveOnlyOverwritesGoOn) {
  Buffer bytes = pattern(64 << 10, 1);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  h.disk.set_capacity(h.disk.used_bytes() + (1 << 20) - 4096);
  h.loop.advance(2 * storage::SpaceCount::kAge);  // until the disk is looked at again
  EXPECT_TRUE(h.store->out_of_space());
  auto refused = h.write(name, 1 << 20, bytes.view());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kNoSpace);
  EXPECT_FALSE(h.write(file_object(77), 0, bytes.view()));
  EXPECT_TRUE(h.write(name, 0, bytes.view()));
  ASSERT_TRUE(h.run(h.store->truncate(name, 0, Epoch{9}))) << "giving space back always works";
  EXPECT_FALSE(h.store->out_of_space());
  EXPECT_TRUE(h.write(name, 0, bytes.view()));
}

TEST_F(ObjectStoreTest, AFailedWriteLeavesChecksumsThatFit) {
  ASSERT_TRUE(h.write(name, 0, pattern(3 * kBlock, 1).view(), true));
  for (std::uint64_t place : {kSumsStart, kDataStart}) {
    fail_when(
        [place](const MemoryDisk::Access& access) {
          return access.operation == MemoryOperation::kWrite && access.path.starts_with("objects/") &&
                 (access.offset >= kDataStart) == (place == kDataStart);
        },
        Errc::kIo);
    EXPECT_FALSE(h.write(name, 100, pattern(2 * kBlock, 2).view()));
    h.disk.set_fault(nullptr);
  }
  // The repair needs to write checksums as well: where that failed the object answers errors until a restart.
  h.crash(MemoryDisk::Crash::kProcess, 0);
  ASSERT_TRUE(h.open());
  EXPECT_EQ(*h.read(name, 0, 3 * kBlock), text(pattern(3 * kBlock, 1)));
}

TEST_F(ObjectStoreTest, ReadErrorsOfTheDiskAreErrors) {
  ASSERT_TRUE(h.write(name, 0, pattern(kBlock, 1).view(), true));
  fail_when([](const MemoryDisk::Access& access) { return access.operation == MemoryOperation::kRead; },
            Errc::kIo);
  EXPECT_EQ(h.read(name, 0, 10).error().code, Errc::kIo);
  h.disk.set_fault(nullptr);
  EXPECT_TRUE(h.read(name, 0, 10));
}

TEST_F(ObjectStoreTest, AFailedFsyncRenewsTheVerifierBeforeAnybodyIsAnswered) {
  ASSERT_TRUE(h.write(name, 0, pattern(3 * kBlock, 1).view(), true));
  ASSERT_TRUE(h.write(name, kBlock, pattern(kBlock, 2).view()));
  unsigned failures = 1;
  fail_when(
      [&failures](const MemoryDisk::Access& access) {
        return access.operation == MemoryOperation::kSync && access.path.starts_with("objects/") &&
               failures > 0 && failures-- > 0;
      },
      Errc::kIo);
  auto committed = h.run(h.store->commit(name));
  ASSERT_TRUE(committed) << "with the new verifier the client writes again";
  EXPECT_EQ(h.renewals, 1u);
  EXPECT_EQ(h.count("store_sync_failures_total"), 1u);
  h.disk.set_fault(nullptr);
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.open());
  EXPECT_EQ(h.read(name, kBlock, kBlock), text(pattern(kBlock, 2)))
      << "what the cache had was written once more";
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
}

TEST_F(ObjectStoreTest, ASyncWriteIsWrittenAgainAfterAFailedFsync) {
  unsigned failures = 1;
  fail_when(
      [&failures](const MemoryDisk::Access& access) {
        return access.operation == MemoryOperation::kSync && access.path.starts_with("objects/") &&
               failures > 0 && failures-- > 0;
      },
      Errc::kIo);
  ASSERT_TRUE(h.write(name, 0, as_bytes("stable"), true));
  EXPECT_EQ(h.renewals, 1u);
  h.disk.set_fault(nullptr);
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.open());
  EXPECT_EQ(*h.read(name, 0, 10), "stable");
}

// The coordinator sends a truncation until it is answered. What the first attempt did in the page cache alone
// must not be taken for done by the next.
TEST_F(ObjectStoreTest, ATruncationThatIsAnsweredIsDurableThoughAnFsyncFailed) {
  for (std::uint64_t size : {kSegment + 77, std::uint64_t{77}, std::uint64_t{0}}) {
    for (unsigned failing = 1; failing <= 3; ++failing) {
      SCOPED_TRACE(fmt::format("size {}, fsync {} fails", size, failing));
      ObjectName object = file_object(1000 + size + failing), none = file_object(5000 + size + failing);
      ASSERT_TRUE(h.write(object, 0, pattern(kBlock, 1).view(), true));
      ASSERT_TRUE(h.write(object, kSegment, pattern(kBlock, 2).view(), true));
      unsigned syncs = 0;
      fail_when(
          [&](const MemoryDisk::Access& access) {
            return access.operation == MemoryOperation::kSync && access.path.starts_with("objects/") &&
                   ++syncs == failing;
          },
          Errc::kIo);
      for (const ObjectName& cut : {object, none}) {
        bool done = false;
        for (int tries = 0; !done && tries < 3; ++tries)
          done = h.run(h.store->truncate(cut, size, Epoch{2})).has_value();
        EXPECT_TRUE(done);
      }
      h.disk.set_fault(nullptr);
      h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
      ASSERT_TRUE(h.open());
      for (const ObjectName& cut : {object, none}) {
        auto stat = h.run(h.store->stat(cut, 0));
        ASSERT_TRUE(stat);
        EXPECT_LE(stat->end, size);
        EXPECT_EQ(stat->epoch, Epoch{2});
      }
    }
  }
}

TEST_F(ObjectStoreTest, ADiskThatKeepsFailingMakesTheObjectAnswerErrors) {
  ASSERT_TRUE(h.write(name, 0, as_bytes("lost")));
  ASSERT_TRUE(h.write(file_object(5), 0, as_bytes("well")));
  std::string path = head_path(name);
  fail_when(
      [path](const MemoryDisk::Access& access) {
        return access.operation == MemoryOperation::kSync && access.path == path;
      },
      Errc::kIo);
  EXPECT_EQ(h.run(h.store->commit(name)).error().code, Errc::kIo);
  h.disk.set_fault(nullptr);
  EXPECT_FALSE(h.run(h.store->commit(name))) << "no later COMMIT may say that it is durable";
  EXPECT_FALSE(h.write(name, 0, as_bytes("x")));
  EXPECT_TRUE(h.run(h.store->commit(file_object(5)))) << "other objects go on";
  h.crash(MemoryDisk::Crash::kProcess, 0);
  ASSERT_TRUE(h.open());
  EXPECT_TRUE(h.write(name, 0, as_bytes("x"), true));
}

TEST_F(ObjectStoreTest, NoManagerNoHealing) {
  h.can_renew = false;
  ASSERT_TRUE(h.write(name, 0, as_bytes("lost")));
  unsigned failures = 1;
  fail_when(
      [&failures](const MemoryDisk::Access& access) {
        return access.operation == MemoryOperation::kSync && access.path.starts_with("objects/") &&
               failures > 0 && failures-- > 0;
      },
      Errc::kIo);
  EXPECT_FALSE(h.run(h.store->commit(name)));
  EXPECT_FALSE(h.run(h.store->commit(name))) << "an old verifier must never be answered for lost bytes";
}

TEST_F(ObjectStoreTest, AFailedMarkRefusesTheWrite) {
  fail_when(
      [](const MemoryDisk::Access& access) {
        return access.path == "marks" && access.operation == MemoryOperation::kSync;
      },
      Errc::kIo);
  EXPECT_FALSE(h.write(name, 0, as_bytes("x")));
  h.disk.set_fault(nullptr);
  EXPECT_TRUE(h.write(name, 0, as_bytes("x"), true)) << "the marks are written anew";
  h.crash(MemoryDisk::Crash::kDropUnsynced, 0);
  ASSERT_TRUE(h.open());
  EXPECT_EQ(*h.read(name, 0, 10), "x");
}

class FewFilesTest : public ObjectStoreTest {
 protected:
  FewFilesTest() : ObjectStoreTest({.max_open_segments = 3, .reserve_bytes = 0}) {}
};

TEST_F(FewFilesTest, OpenFilesAreBounded) {
  for (std::uint64_t id = 1; id <= 40; ++id) {
    ASSERT_TRUE(h.write(file_object(id), (id % 5) * kSegment, pattern(5000, id).view()));
    EXPECT_LE(h.count("store_open_segments"), 4u);
  }
  for (std::uint64_t id = 1; id <= 40; ++id) {
    EXPECT_EQ(*h.read(file_object(id), (id % 5) * kSegment, 6000), text(pattern(5000, id)));
    EXPECT_LE(h.count("store_open_segments"), 4u);
  }
}

// A sequential writer's marks are made before it comes to them, and few at a time would be a sync each.
TEST_F(ObjectStoreTest, SequentialWritersShareMarks) {
  Buffer megabyte = pattern(kGranule, 1);
  std::uint64_t before = h.disk.syncs();
  for (std::uint64_t i = 0; i < 256; ++i) ASSERT_TRUE(h.write(name, i * kGranule, megabyte.view()));
  EXPECT_LE(h.disk.syncs() - before, 8u);
  EXPECT_GE(h.count("store_marked_granules"), 256u);
  EXPECT_LE(h.count("store_marked_granules"), 256u + 96u);
}

// A file that came to be without a header, or goes, may be there after a crash: recovery must know of it.
TEST_F(ObjectStoreTest, AFileWithoutAHeaderIsRecoveredHoweverLongItHasBeenLeft) {
  for (MemoryOperation failing : {MemoryOperation::kRemove, MemoryOperation::kSyncFolder}) {
    const ObjectName object = file_object(100 + static_cast<unsigned>(failing));
    const std::string path = head_path(object), folder = folder_of(path);
    fail_when(
        [&](const MemoryDisk::Access& access) {
          return (access.path == path && access.operation == MemoryOperation::kWrite) ||
                 (access.operation == failing && (access.path == path || access.path == folder));
        },
        Errc::kIo);
    EXPECT_FALSE(h.write(object, 0, as_bytes("x")));
    h.disk.set_fault(nullptr);
    h.loop.advance(std::chrono::minutes(10));
    h.crash(MemoryDisk::Crash::kProcess, 0);
    ASSERT_TRUE(h.open());
    auto none = h.read(object, 0, 10);
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_EQ(*none, "");
    EXPECT_TRUE(h.write(object, 0, as_bytes("x"), true));
    EXPECT_EQ(*h.read(object, 0, 10), "x");
  }
}

class ManyMarksTest : public ObjectStoreTest {
 protected:
  ManyMarksTest()
      : ObjectStoreTest(
            {.reserve_bytes = 0, .clean_period = std::chrono::hours(1), .max_marked_granules = 50}) {}
};

TEST_F(ManyMarksTest, WhatARecoveryReadsIsBounded) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(h.write(name, (i * 7919 % 1000) * kGranule, as_bytes("x")));
    h.loop.advance(std::chrono::microseconds(10));
    ASSERT_LE(h.count("store_marked_granules"), 120u);
  }
}

// Readers and writers of the same blocks at once, on a slow disk: nobody ever sees data beside a checksum
// that is not its own, and every read block is one that somebody wrote as a whole.
TEST_F(ObjectStoreTest, SimultaneousReadersAndWriters) {
  h.disk.set_delay(std::chrono::microseconds(1), std::chrono::microseconds(500));
  constexpr std::size_t kBytes = 4 * kBlock;
  std::mt19937_64 random(5);
  unsigned ended = 0, started = 0;
  std::deque<Buffer> kept;
  for (int i = 0; i < 600; ++i) {
    std::uint64_t at = random() % 3 * (kBlock / 2);
    ++started;
    auto count = [&ended](auto result) {
      EXPECT_TRUE(result) << result.error().message;
      ++ended;
    };
    switch (random() % 6) {
      case 0:
        spawn([](StoreHarness& harness, ObjectName object, auto done) -> Task<void> {
          done(co_await harness.store->commit(object));
        }(h, name, count));
        break;
      case 1:
      case 2: {
        Buffer& into = kept.emplace_back(kBytes);
        spawn([](StoreHarness& harness, ObjectName object, std::uint64_t offset, ByteSpan span,
                 auto done) -> Task<void> {
          done(co_await harness.store->read(object, offset, span));
        }(h, name, at, into.span(), count));
        break;
      }
      case 3:
        if (random() % 4 == 0) {
          spawn([](StoreHarness& harness, ObjectName object, std::uint32_t epoch, auto done) -> Task<void> {
            done(co_await harness.store->truncate(object, 3000, Epoch{epoch}));
          }(h, name, static_cast<std::uint32_t>(10 + i), count));
          break;
        }
        [[fallthrough]];
      default: {
        Buffer& bytes = kept.emplace_back(kBytes);
        std::memset(bytes.data(), i, kBytes);
        spawn([](StoreHarness& harness, ObjectName object, std::uint64_t offset, ByteView data, bool sync,
                 auto done) -> Task<void> {
          done(co_await harness.store->write(object, offset, data, {.epoch = Epoch{1}, .sync = sync}));
        }(h, name, at, bytes.view(), random() % 4 == 0, count));
      }
    }
    if (random() % 5 == 0) h.loop.advance(std::chrono::microseconds(random() % 800));
  }
  ASSERT_TRUE(h.loop.run_until([&] { return ended == started; }));
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
  EXPECT_EQ(h.count("store_torn_blocks_total"), 0u);
  auto last = h.read(name, 0, 6 * kBlock);
  ASSERT_TRUE(last);
  for (std::size_t at = 0; at + 512 <= last->size(); at += 512) {
    EXPECT_EQ(last->substr(at, 512), std::string(512, (*last)[at])) << at;
  }
}

}  // namespace
}  // namespace slice::storagenode
