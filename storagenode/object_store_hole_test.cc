// Writes that make holes (ObjectStore::WriteOptions::hole).
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "storagenode/testing/store_harness.h"
#include "storagenode/zeros.h"

namespace slice::storagenode {
namespace {

class HoleTest : public testing::Test {
 protected:
  HoleTest() { EXPECT_TRUE(h.open()); }
  Result<ObjectStore::Written> hole(ObjectName of, std::uint64_t offset, std::size_t size,
                                    bool sync = false) {
    return h.run(h.store->write(of, offset, zeros(size), {.epoch = Epoch{1}, .sync = sync, .hole = true}));
  }
  std::uint64_t allocated() { return h.run(h.store->stat(name, 1))->allocated; }
  static std::string text(const Buffer& bytes) { return std::string(as_text(bytes.view())); }

  StoreHarness h{{.reserve_bytes = 0}};
  ObjectName name = file_object(0x0001000000000002);
};

TEST_F(HoleTest, ReadsAsZerosAndGivesWholeBlocksBack) {
  std::string expected(60 * kBlock, '\0');
  std::mt19937_64 random(9);
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t at = random() % expected.size();
    const std::size_t n = std::min<std::size_t>(1 + random() % (20 * kBlock), expected.size() - at);
    if (random() % 2 == 0) {
      ASSERT_TRUE(hole(name, at, n));
      expected.replace(at, n, n, '\0');
    } else {
      Buffer bytes = pattern(n, random());
      ASSERT_TRUE(h.write(name, at, bytes.view()));
      expected.replace(at, n, text(bytes));
    }
    std::string read = *h.read(name, 0, expected.size());
    read.resize(expected.size());
    ASSERT_EQ(read, expected) << i;
  }
  const std::uint64_t before = allocated();
  ASSERT_TRUE(hole(name, 3, 40 * kBlock, true));
  EXPECT_LE(allocated() + 15 * kBlock, before);
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
}

TEST_F(HoleTest, MakesNoObjectAndGrowsNone) {
  auto made = hole(name, 0, 1 << 20);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(h.run(h.store->stat(name, 1))->exists);
  ASSERT_TRUE(h.write(name, 0, as_bytes("abcdef")));
  for (std::uint64_t at : {std::uint64_t{3}, std::uint64_t{5000}, 3 * kSegment - 7}) {
    ASSERT_TRUE(hole(name, at, 1 << 20));
    EXPECT_EQ(h.run(h.store->commit(name))->end, 6u) << at;
  }
  EXPECT_EQ(*h.read(name, 0, 100), std::string("abc\0\0\0", 6));
}

TEST_F(HoleTest, OfOneHoleNothingIsWrittenAndRoomForNoneIsNeeded) {
  Buffer bytes = pattern(1 << 20, 4);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  ASSERT_TRUE(hole(name, kBlock, 1 << 19, true));
  h.disk.set_fault([](const MemoryDisk::Access& access) -> std::optional<Error> {
    EXPECT_EQ(access.operation, MemoryDisk::Operation::kRead);
    return std::nullopt;
  });
  ASSERT_TRUE(hole(name, 2 * kBlock, 1 << 18));
  h.disk.set_fault(nullptr);
  h.store->set_reserve(~std::uint64_t{0} / 2);
  EXPECT_FALSE(h.write(name, 0, bytes.view().first(2 * kBlock)));
  EXPECT_TRUE(hole(name, 0, 1 << 20));
}

TEST_F(HoleTest, OneThatFailsLeavesNothingThatCannotBeRead) {
  Buffer bytes = pattern(1 << 17, 6);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  h.disk.set_fault([](const MemoryDisk::Access& access) {
    const bool fails = access.operation == MemoryDisk::Operation::kPunch && access.offset < kDataStart;
    return fails ? std::optional(Error{Errc::kIo, "injected"}) : std::nullopt;
  });
  EXPECT_FALSE(hole(name, 0, 1 << 16));
  h.disk.set_fault(nullptr);
  EXPECT_TRUE(h.read(name, 0, 1 << 16));
  EXPECT_EQ(*h.read(name, 1 << 16, 1 << 16), text(bytes).substr(1 << 16));
}

TEST_F(HoleTest, ExtentsAreToldInWholeBlocks) {
  const auto extent = [this](std::uint64_t offset, std::uint64_t most) {
    const auto told = h.run(h.store->run(name, offset, most));
    EXPECT_TRUE(told);
    return told ? std::pair(told->length, told->hole) : std::pair<std::uint64_t, bool>();
  };
  using Told = std::pair<std::uint64_t, bool>;
  EXPECT_EQ(extent(5, 1 << 16), Told(1 << 16, true)) << "no object";
  const Buffer bytes = pattern(4 * kBlock + 7, 6);
  ASSERT_TRUE(h.write(name, 2 * kBlock, bytes.view()));
  ASSERT_TRUE(hole(name, 4 * kBlock, kBlock));
  EXPECT_EQ(extent(5, 1 << 16), Told(2 * kBlock - 5, true));
  EXPECT_EQ(extent(2 * kBlock, 1 << 16), Told(2 * kBlock, false));
  EXPECT_EQ(extent(2 * kBlock + 1, kBlock), Told(kBlock, false));
  EXPECT_EQ(extent(4 * kBlock, 1 << 16), Told(kBlock, true));
  EXPECT_EQ(extent(5 * kBlock, 1 << 16), Told(2 * kBlock, false)) << "the end's block";
  EXPECT_EQ(extent(7 * kBlock, 1 << 16), Told(1 << 16, true));
  EXPECT_EQ(extent(kSegment - 100, 1 << 16), Told(100, true)) << "the segment's end";
}

// What a disk has lost is no hole: a client would take it for zeros.
TEST_F(HoleTest, AHoleThatDoesNotFitItsChecksumsIsNotTold) {
  const Buffer bytes = pattern(4 * kBlock, 6);
  ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
  ASSERT_TRUE(hole(name, kBlock, 2 * kBlock, true));
  ASSERT_TRUE(h.disk.corrupt(head_path(name), kSumsStart + 4, 1));
  EXPECT_FALSE(h.run(h.store->run(name, kBlock, 1 << 16))->hole);
  EXPECT_FALSE(h.read(name, kBlock, kBlock));
  ASSERT_TRUE(hole(name, kBlock, 2 * kBlock)) << "which makes it one again";
  EXPECT_TRUE(h.run(h.store->run(name, kBlock, 1 << 16))->hole);
  EXPECT_EQ(*h.read(name, kBlock, kBlock), std::string(kBlock, '\0'));
}

// Of its blocks some are zeros and some are not, but each fits its checksum.
TEST_F(HoleTest, ACrashLeavesNoneThatCannotBeRead) {
  const Buffer bytes = pattern(64 * kBlock, 6);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    ASSERT_TRUE(h.write(name, 0, bytes.view(), true));
    h.loop.advance(std::chrono::minutes(1));  // nothing is marked as being written any more
    ASSERT_TRUE(hole(name, 0, 60 * kBlock));
    h.crash(MemoryDisk::Crash::kSeeded, seed);
    ASSERT_TRUE(h.open());
    const auto read = h.read(name, 0, bytes.size());
    ASSERT_TRUE(read) << read.error().message;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      const auto now = static_cast<std::uint8_t>((*read)[at]);
      ASSERT_TRUE(now == bytes.data()[at] || (now == 0 && at < 60 * kBlock)) << at;
    }
  }
  EXPECT_EQ(h.count("store_checksum_errors_total"), 0u);
}

}  // namespace
}  // namespace slice::storagenode
