// Emulated arms on simulated time: what waits, how long, and what is found in memory.
#include "storage/emulated_disk.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "common/manual_loop.h"
#include "storage/memory_disk.h"

namespace slice::storage {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBlock = DiskModel::kBlock, kChunk = DiskModel::kChunk;
// 8 KiB in 1 ms, so that every time below is a whole number of milliseconds.
constexpr DiskModel::Options kOneArm{
    .arms = 1, .access = 10ms, .bytes_per_second = kBlock * 1000, .memory_bytes = 64 * kBlock};

class ModelTest : public testing::Test {
 protected:
  DiskModel& make(DiskModel::Options options) { return model.emplace(loop, options, metrics); }
  // Milliseconds from now.
  std::int64_t in(MonoTime when) const { return (when - loop.now()) / 1ms; }
  std::uint64_t count(std::string_view name) {
    return metrics.counter("emulated_disk_" + std::string(name) + "_total").value();
  }

  ManualLoop loop;
  Metrics metrics;
  std::optional<DiskModel> model;
};

TEST_F(ModelTest, AReadSeeksAndMovesItsBytesAndIsFreeTheNextTime) {
  DiskModel& disk = make(kOneArm);
  EXPECT_EQ(in(disk.read(1, 5 * kBlock, 2 * kBlock)), 12);
  loop.advance(12ms);
  EXPECT_EQ(in(disk.read(1, 5 * kBlock, 2 * kBlock)), 0);
  EXPECT_EQ(in(disk.read(1, 5 * kBlock + 17, 1)), 0);
  EXPECT_EQ(count("reads"), 1u);
  EXPECT_EQ(count("hits"), 3u);
  EXPECT_EQ(count("misses"), 2u);
  EXPECT_EQ(count("busy_seconds"), 12'000u);
}

TEST_F(ModelTest, WhoReadsWhatIsOnItsWayWaitsForIt) {
  DiskModel& disk = make(kOneArm);
  disk.read(1, 0, kBlock);
  loop.advance(4ms);
  EXPECT_EQ(in(disk.read(1, 0, kBlock)), 7);
  EXPECT_EQ(count("reads"), 1u);
}

TEST_F(ModelTest, OperationsOfOneArmQueueAndThoseOfTwoDoNot) {
  DiskModel& one = make(kOneArm);
  EXPECT_EQ(in(one.read(2, 0, kBlock)), 11);
  EXPECT_EQ(in(one.read(3, 0, kBlock)), 22);
  auto two_arms = kOneArm;
  two_arms.arms = 2;
  DiskModel& two = make(two_arms);
  EXPECT_EQ(in(two.read(2, 0, kBlock)), 11);
  EXPECT_EQ(in(two.read(3, 0, kBlock)), 11);
  EXPECT_EQ(in(two.read(5, 0, kBlock)), 22);
}

TEST_F(ModelTest, ReadingInOrderSeeksOnce) {
  auto options = kOneArm;
  options.arms = 3;
  options.memory_bytes = 16 * kChunk;
  DiskModel& disk = make(options);
  MonoTime end;
  for (std::uint64_t at = 0; at < 6 * kChunk; at += kChunk) end = disk.read(1, at, kChunk);
  // Two chunks of 32 blocks for each arm, and one seek.
  EXPECT_EQ(in(end), 10 + 2 * 32);
  EXPECT_EQ(in(disk.read(2, 0, kBlock)), 10 + 2 * 32 + 10 + 1);  // elsewhere
}

TEST_F(ModelTest, OneOperationForEachRunThatIsMissing) {
  DiskModel& disk = make(kOneArm);
  disk.read(1, 2 * kBlock, kBlock);
  disk.read(1, 0, 5 * kBlock);  // blocks 0 and 1; then 3 and 4, behind 2 that comes already
  EXPECT_EQ(count("reads"), 3u);
  EXPECT_EQ(count("misses"), 5u);
}

TEST_F(ModelTest, WritesCostNothingUntilTheyAreSynced) {
  DiskModel& disk = make(kOneArm);
  EXPECT_EQ(in(disk.write(1, 100, 3 * kBlock)), 0);  // four blocks
  EXPECT_EQ(in(disk.read(1, 0, kBlock)), 0);
  EXPECT_EQ(in(disk.sync(2)), 0);
  EXPECT_EQ(in(disk.sync(1)), 14);
  EXPECT_EQ(in(disk.sync(1)), 14);  // the same write-back
  loop.advance(14ms);
  EXPECT_EQ(in(disk.sync(1)), 0);
  EXPECT_EQ(count("writes"), 1u);
}

TEST_F(ModelTest, ASyncWaitsForTheWriteBackThatWasBegun) {
  DiskModel& disk = make(kOneArm);
  disk.write(1, 0, 8 * kBlock);
  disk.start_write_back(1, 0, 4 * kBlock);
  loop.advance(10ms);
  EXPECT_EQ(in(disk.sync(1)), 4 + 4);  // the rest goes on where that ends
  EXPECT_EQ(count("writes"), 2u);
}

TEST_F(ModelTest, MemoryIsBoundedAndForgetsWhatWasUnusedLongest) {
  auto options = kOneArm;
  options.memory_bytes = 4 * kBlock;
  DiskModel& disk = make(options);
  for (std::uint64_t block : {0, 2, 4, 6}) disk.read(1, block * kBlock, kBlock);
  loop.advance(1s);
  disk.read(1, 0, kBlock);
  EXPECT_EQ(in(disk.read(1, 8 * kBlock, kBlock)), 11);
  EXPECT_EQ(disk.blocks_in_memory(), 4u);
  loop.advance(1s);
  EXPECT_EQ(in(disk.read(1, 0, kBlock)), 0);
  EXPECT_EQ(in(disk.read(1, 2 * kBlock, kBlock)), 11);
}

TEST_F(ModelTest, AWriterWaitsWhereMemoryIsFullOfWhatIsNotWritten) {
  auto options = kOneArm;
  options.memory_bytes = 4 * kBlock;
  DiskModel& disk = make(options);
  EXPECT_EQ(in(disk.write(1, 0, 4 * kBlock)), 0);
  EXPECT_EQ(in(disk.write(2, 0, kBlock)), 14);      // all four go in one operation
  EXPECT_EQ(in(disk.write(2, kBlock, kBlock)), 0);  // what makes room now is clean
  EXPECT_EQ(disk.blocks_in_memory(), 4u);
  EXPECT_EQ(in(disk.read(1, 0, kBlock)), 14 + 11);
}

TEST_F(ModelTest, WhatIsRemovedIsNeverWritten) {
  DiskModel& disk = make(kOneArm);
  disk.write(1, 0, 4 * kBlock);
  disk.forget(1, kBlock + 1, 2 * kBlock);  // block 2; 1 and 3 are cut in two
  EXPECT_EQ(disk.blocks_in_memory(), 3u);
  disk.forget(1);
  EXPECT_EQ(in(disk.sync(1)), 0);
  EXPECT_EQ(disk.blocks_in_memory(), 0u);
}

class EmulatedDiskTest : public ModelTest {
 protected:
  EmulatedDiskTest() {
    auto memory = std::make_unique<MemoryDisk>(loop);
    behind = memory.get();
    disk = std::make_unique<EmulatedDisk>(loop, std::move(memory), kOneArm, metrics);
  }
  template <class T>
  T timed(Task<T> task) {
    MonoTime began = loop.now();
    std::optional<T> slot;
    spawn(std::move(task), slot);
    loop.run_until([&] { return slot.has_value(); });
    took = (loop.now() - began) / 1ms;
    return std::move(*slot);
  }
  std::unique_ptr<File> open(const std::string& path) {
    return std::move(timed(disk->open(path, Disk::Mode::kCreate))).value();
  }

  MemoryDisk* behind = nullptr;
  std::unique_ptr<EmulatedDisk> disk;
  std::int64_t took = 0;  // milliseconds that the last operation took
};

TEST_F(EmulatedDiskTest, BytesAreThoseOfTheDiskBehindAndTimesThoseOfTheModel) {
  std::vector<std::uint8_t> written(3 * kBlock);
  for (std::size_t i = 0; i < written.size(); ++i) written.data()[i] = static_cast<std::uint8_t>(i * 7);
  auto file = open("one");
  EXPECT_TRUE(timed(file->write(0, written)));
  EXPECT_EQ(took, 0);
  EXPECT_TRUE(timed(file->sync()));
  EXPECT_EQ(took, 13);
  file.reset();
  std::vector<std::uint8_t> other(64 * kBlock);
  auto filler = open("two");
  EXPECT_TRUE(timed(filler->write(0, other)));  // all of the memory
  file = open("one");
  std::vector<std::uint8_t> read(4 * kBlock);
  auto got = timed(file->read(0, read));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, written.size());  // and nothing is charged behind the end
  EXPECT_EQ(std::memcmp(read.data(), written.data(), written.size()), 0);
  // Three blocks come, and 32 of "two" are written to make room.
  EXPECT_EQ(count("writes"), 2u);
  EXPECT_EQ(took, 10 + 3 + 10 + 32);
  EXPECT_EQ(behind->syncs(), 1u);
}

TEST_F(EmulatedDiskTest, PiecesOfOneReadWaitTogether) {
  auto file = open("one");
  std::vector<std::uint8_t> bytes(8 * kBlock);
  std::vector<WritePiece> writes{{0, bytes}, {16 * kBlock, bytes}};
  EXPECT_TRUE(timed(file->write_pieces(writes)));
  EXPECT_TRUE(timed(file->sync()));
  EXPECT_EQ(took, 2 * (10 + 8));
  EXPECT_TRUE(timed(disk->remove("one")));
  std::vector<ReadPiece> reads{{0, bytes}, {16 * kBlock, bytes}};
  EXPECT_TRUE(timed(file->read_pieces(reads)));
  EXPECT_EQ(took, 2 * (10 + 8));
  EXPECT_EQ(reads[1].got, bytes.size());
}

TEST_F(EmulatedDiskTest, WhatWillBeReadIsOnItsWayBeforeItIsAskedFor) {
  auto file = open("one");
  std::vector<std::uint8_t> bytes(4 * kBlock);
  EXPECT_TRUE(timed(file->write(0, bytes)));
  EXPECT_TRUE(timed(file->sync()));
  EXPECT_TRUE(timed(disk->rename("one", "two")));
  file = open("two");
  file->will_read(0, 4 * kBlock);
  loop.advance(10ms);
  EXPECT_TRUE(timed(file->read(0, bytes)));
  EXPECT_EQ(took, 4);
}

TEST_F(EmulatedDiskTest, ErrorsOfTheDiskBehindComeThrough) {
  auto file = open("one");
  std::vector<std::uint8_t> bytes(kBlock);
  EXPECT_TRUE(timed(file->write(0, bytes)));
  behind->set_fault([](const MemoryDisk::Access&) { return Error{Errc::kIo, "broken"}; });
  EXPECT_FALSE(timed(file->sync()));
  EXPECT_FALSE(timed(file->read(0, bytes)));
  EXPECT_FALSE(timed(disk->sync_folder("")));
  EXPECT_FALSE(timed(disk->remove("one")));
}

}  // namespace
}  // namespace slice::storage
