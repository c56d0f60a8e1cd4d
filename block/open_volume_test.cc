#include "block/open_volume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "common/manual_loop.h"

namespace slice::block {
namespace {

constexpr std::uint64_t kBegin = 64 << 10, kSize = 8 << 20;

// A file whose server can be started anew: what was not committed is lost then. Answers wait until release().
class FakeFile : public VolumeFile {
 public:
  FakeFile() : durable(kBegin + kSize), now(kBegin + kSize) {
    std::ranges::fill(durable.span(), std::uint8_t{0});
    std::ranges::fill(now.span(), std::uint8_t{0});
  }
  void restart() {
    std::ranges::copy(durable.view(), now.data());
    ++verifier.value;
    ++restarts;
  }
  Task<Status> read(std::uint64_t offset, ByteSpan into) override {
    EXPECT_LE(into.size(), kMostBytes);
    std::ranges::copy(now.view().subspan(offset, into.size()), into.begin());
    co_await answer();
    if (failure) co_return fail(*failure);
    co_return Status{};
  }
  Task<Result<Verifier>> write(std::uint64_t offset, ByteView data, bool sync) override {
    EXPECT_LE(data.size(), kMostBytes);
    EXPECT_GE(offset, kBegin);
    ++writes;
    if (failure) co_return fail(*failure);
    std::ranges::copy(data, now.data() + offset);
    if (sync) std::ranges::copy(data, durable.data() + offset);
    const Verifier at = verifier;
    co_await answer();
    co_return at;
  }
  Task<Result<Verifier>> make_hole(std::uint64_t offset, std::uint32_t size, bool sync) override {
    holes += size;
    const Buffer data = zeros(size);
    co_return co_await write(offset, data.view(), sync);
  }
  Task<Result<Verifier>> commit() override {
    ++commits;
    if (failure) co_return fail(*failure);
    std::ranges::copy(now.view(), durable.data());
    const Verifier at = verifier;
    co_await answer();
    co_return at;
  }
  // Blocks that are zeros are holes.
  Task<Result<Extent>> extent(std::uint64_t offset) override {
    co_await answer();
    if (failure) co_return fail(*failure);
    const std::uint64_t end = std::min<std::uint64_t>((offset / 4096 + 1) * 4096, now.size());
    const ByteView bytes = now.view().subspan(offset, end - offset);
    co_return Extent{bytes.size(), std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; })};
  }
  void release() {
    for (const auto& each : std::exchange(held, {})) each.set(true);
  }

  Buffer durable, now;
  Verifier verifier{1};
  std::optional<Error> failure;
  bool hold = false;
  unsigned writes = 0, commits = 0, restarts = 0;
  std::uint64_t holes = 0;  // bytes

 private:
  Task<void> answer() {
    if (!hold) co_return;
    held.emplace_back();
    const auto mine = held.back();
    co_await mine;
  }
  std::vector<OneShot<bool>> held;
};

class OpenVolumeTest : public ::testing::Test {
 protected:
  OpenVolumeTest() { open(); }
  void open(Duration patience = Duration(0)) {
    auto owned = std::make_unique<FakeFile>();
    file = owned.get();
    volume = std::make_shared<OpenVolume>(loop, std::move(owned),
                                          OpenVolume::Options{.name = "v",
                                                              .begin = kBegin,
                                                              .size = kSize,
                                                              .most_unflushed = 2 << 20,
                                                              .patience = patience,
                                                              .on_taken_away = [this] { ++taken_away; }},
                                          figures);
  }
  Status run(Task<Status> task) {
    std::optional<Status> done;
    spawn(std::move(task), done);
    for (int i = 0; i < 100 && !done; ++i) loop.advance(std::chrono::milliseconds(1));
    EXPECT_TRUE(done);
    return done ? std::move(*done) : Status{};
  }
  static Buffer bytes(std::size_t size, std::uint8_t with) {
    Buffer out(size);
    std::ranges::fill(out.span(), with);
    return out;
  }
  Status write(std::uint64_t offset, std::size_t size, std::uint8_t with, bool durable = false) {
    return run(volume->write(offset, bytes(size, with), durable));
  }
  std::vector<Extent> extents(std::uint64_t offset, std::uint64_t length) {
    std::optional<Result<std::vector<Extent>>> done;
    spawn(volume->extents(offset, length), done);
    for (int i = 0; i < 100 && !done; ++i) loop.advance(std::chrono::milliseconds(1));
    EXPECT_TRUE(done && *done);
    return done && *done ? **done : std::vector<Extent>{};
  }
  int byte_at(std::uint64_t offset) {
    Buffer into(1);
    EXPECT_TRUE(run(volume->read(offset, into.span())));
    return into.data()[0];
  }
  int durable_at(std::uint64_t offset) const { return file->durable.data()[kBegin + offset]; }

  ManualLoop loop;
  Metrics metrics;
  OpenVolume::Figures figures{metrics};
  FakeFile* file = nullptr;
  std::shared_ptr<OpenVolume> volume;
  int taken_away = 0;
};

TEST_F(OpenVolumeTest, ReadsWhatWasWritten) {
  EXPECT_TRUE(write(0, 3 << 20, 5));
  EXPECT_EQ(byte_at(0), 5);
  EXPECT_EQ(byte_at((3 << 20) - 1), 5);
  EXPECT_EQ(byte_at(3 << 20), 0);
  EXPECT_TRUE(run(volume->write_zeroes(4096, 2 << 20, false, Room::kKept)));
  EXPECT_EQ(byte_at(4096), 0);
  EXPECT_EQ(byte_at(4095), 5);
}

TEST_F(OpenVolumeTest, ZerosKeepTheirRoomOrGiveItBack) {
  EXPECT_TRUE(write(0, 8 << 20, 5, true));
  EXPECT_TRUE(run(volume->write_zeroes(0, 3 << 20, false, Room::kKept)));
  EXPECT_EQ(file->holes, 0u);
  EXPECT_TRUE(run(volume->write_zeroes((4 << 20) + 100, 3 << 20, false, Room::kGivenBack)));
  EXPECT_EQ(file->holes, 3u << 20);
  const int expected[] = {0, 5, 5, 0, 0, 5};
  const std::uint64_t at[] = {(3 << 20) - 1,   3 << 20,        (4 << 20) + 99,
                              (4 << 20) + 100, (7 << 20) + 99, (7 << 20) + 100};
  for (std::size_t i = 0; i < std::size(at); ++i) EXPECT_EQ(byte_at(at[i]), expected[i]) << at[i];
}

TEST_F(OpenVolumeTest, AHoleThatAServerForgotIsMadeAgainAsOne) {
  EXPECT_TRUE(write(0, 1 << 20, 5, true));
  EXPECT_TRUE(run(volume->write_zeroes(0, 1 << 19, false, Room::kGivenBack)));
  file->restart();
  EXPECT_EQ(byte_at(0), 0) << "it is kept here";
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(file->holes, 2u << 19);
  EXPECT_EQ(durable_at((1 << 19) - 1), 0);
  EXPECT_EQ(durable_at(1 << 19), 5);
}

TEST_F(OpenVolumeTest, TellsItsHoles) {
  EXPECT_EQ(extents(0, kSize), (std::vector<Extent>{{kSize, true}}));
  EXPECT_TRUE(write(1 << 20, 8192, 5, true));
  EXPECT_EQ(extents(0, kSize),
            (std::vector<Extent>{{1 << 20, true}, {8192, false}, {kSize - (1 << 20) - 8192, true}}));
  EXPECT_EQ(extents((1 << 20) + 100, 10'000), (std::vector<Extent>{{8092, false}, {1908, true}}));
  EXPECT_TRUE(run(volume->write_zeroes(1 << 20, 4096, false, Room::kGivenBack)));
  EXPECT_EQ(extents(1 << 20, 8192), (std::vector<Extent>{{4096, true}, {4096, false}}));
}

TEST_F(OpenVolumeTest, WhatOnlyItKnowsIsNoHole) {
  EXPECT_TRUE(write(100'000, 1000, 5));
  EXPECT_TRUE(write(200'000, 1000, 6));
  EXPECT_TRUE(run(volume->write_zeroes(300'000, 1000, false, Room::kGivenBack)));
  file->restart();
  EXPECT_EQ(extents(0, 1 << 20),
            (std::vector<Extent>{
                {100'000, true}, {1000, false}, {99'000, true}, {1000, false}, {(1 << 20) - 201'000, true}}));
}

TEST_F(OpenVolumeTest, AFlushMakesItDurableAndWithoutWritesAsksNobody) {
  EXPECT_TRUE(write(0, 512, 5));
  EXPECT_EQ(durable_at(0), 0);
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(durable_at(0), 5);
  EXPECT_EQ(metrics.counter("volume_unflushed_bytes").value(), 0u);
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(file->commits, 1u);
}

// Of a slice-blockd that was killed, whose client goes on with the next one and flushes; or of connections
// before.
TEST_F(OpenVolumeTest, TheFirstFlushIsOfWhatOpenersBeforeWroteAsWell) {
  std::ranges::fill(file->now.span().subspan(kBegin, 512), std::uint8_t{5});
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(durable_at(0), 5);
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(file->commits, 1u);
}

TEST_F(OpenVolumeTest, WhatAServerLostIsReadAndWrittenAgain) {
  EXPECT_TRUE(write(0, 512, 5));
  EXPECT_EQ(metrics.counter("volume_unflushed_bytes").value(), 512u);
  file->restart();
  EXPECT_EQ(byte_at(0), 5) << "though the server has zeros";
  EXPECT_TRUE(write(512, 512, 6));
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(durable_at(0), 5);
  EXPECT_EQ(durable_at(512), 6);
  EXPECT_EQ(metrics.counter("volume_repeated_bytes_total").value(), 512u)
      << "the other came after the restart";
}

TEST_F(OpenVolumeTest, WhatIsDurableIsNotUndoneByWhatIsWrittenAgain) {
  EXPECT_TRUE(write(0, 1024, 5));
  EXPECT_TRUE(write(0, 512, 9, true));
  file->restart();
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(durable_at(0), 9);
  EXPECT_EQ(durable_at(512), 5);
}

TEST_F(OpenVolumeTest, AFlushThatFailsKeepsWhatItHas) {
  EXPECT_TRUE(write(0, 512, 5));
  file->restart();
  file->failure = Error{Errc::kIo, "broken"};
  EXPECT_FALSE(run(volume->flush()));
  file->failure.reset();
  EXPECT_EQ(byte_at(0), 5);
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(durable_at(0), 5);
}

// Who overlaps is done one after the other, so that all servers and this have the same one last.
TEST_F(OpenVolumeTest, OverlappingWritesAreDoneInTheirOrder) {
  file->hold = true;
  std::optional<Status> first, second, beside;
  spawn(volume->write(0, bytes(1024, 1), false), first);
  spawn(volume->write(512, bytes(1024, 2), false), second);
  spawn(volume->write(4096, bytes(512, 3), false), beside);
  EXPECT_EQ(file->writes, 2u);
  file->release();
  loop.advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(first && beside);
  EXPECT_EQ(file->writes, 3u);
  file->release();
  loop.advance(std::chrono::milliseconds(1));
  ASSERT_TRUE(second);
  file->hold = false;
  EXPECT_EQ(byte_at(511), 1);
  EXPECT_EQ(byte_at(512), 2);
}

TEST_F(OpenVolumeTest, OnlySoMuchIsKept) {
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(write(std::uint64_t{1 << 20} * i, 1 << 20, 7));
  EXPECT_GE(file->commits, 2u);
  EXPECT_LE(metrics.counter("volume_unflushed_bytes").value(), 2u << 20);
}

TEST_F(OpenVolumeTest, AnotherOpenerIsToldOfOnce) {
  EXPECT_TRUE(write(0, 512, 5));
  file->failure = Error{Errc::kStale, "opened"};
  const Status refused = write(0, 512, 6);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kStale);
  EXPECT_FALSE(run(volume->flush()));
  EXPECT_EQ(taken_away, 1);
  EXPECT_EQ(metrics.counter("volume_taken_away_total").value(), 1u);
}

// It may still be done, and would undo what came later.
TEST_F(OpenVolumeTest, WhatFailedForWantOfAnAnswerGoesOnBeforeWhatOverlaps) {
  open(std::chrono::milliseconds(50));
  file->hold = true;
  const Status late = write(0, 512, 1);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kTimedOut);
  EXPECT_FALSE(write(0, 512, 2)) << "behind it";
  EXPECT_EQ(file->writes, 1u);
  Buffer into(512);
  EXPECT_FALSE(run(volume->read(4096, into.span())));
  EXPECT_FALSE(run(volume->write_zeroes(8192, 512, true, Room::kKept)));
  file->hold = false;
  for (int i = 0; i < 3; ++i) {
    file->release();
    loop.advance(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(byte_at(0), 2) << "both were done, in their order";
  EXPECT_TRUE(run(volume->flush()));
  EXPECT_EQ(durable_at(0), 2);
}

TEST_F(OpenVolumeTest, WhatIsUnderWayOutlivesWhoDoesNotWaitForIt) {
  open(std::chrono::milliseconds(50));
  file->hold = true;
  EXPECT_FALSE(write(0, 512, 1));
  FakeFile& still = *file;
  volume.reset();
  still.release();
  loop.advance(std::chrono::milliseconds(1));
}

// Whatever is lost at whatever moment: what was acknowledged is read, and what was flushed is durable.
TEST_F(OpenVolumeTest, NothingIsLostByAnyRestart) {
  std::mt19937 random(5);
  constexpr std::uint64_t kBlock = 512, kBlocks = 64;
  std::vector<int> acknowledged(kBlocks, 0), flushed(kBlocks, 0);
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t block = random() % kBlocks,
                        count = std::min<std::uint64_t>(1 + random() % 8, kBlocks - block);
    switch (random() % 10) {
      case 0:
        file->restart();
        break;
      case 1:
        ASSERT_TRUE(run(volume->flush()));
        flushed = acknowledged;
        break;
      default: {
        int value = 1 + static_cast<int>(random() % 250);
        const bool durable = random() % 5 == 0;
        if (random() % 4 == 0) {
          value = 0;
          ASSERT_TRUE(run(volume->write_zeroes(block * kBlock, count * kBlock, durable,
                                               random() % 2 == 0 ? Room::kKept : Room::kGivenBack)));
        } else {
          ASSERT_TRUE(write(block * kBlock, count * kBlock, static_cast<std::uint8_t>(value), durable));
        }
        for (std::uint64_t b = block; b < block + count; ++b) acknowledged[b] = value;
        for (std::uint64_t b = block; durable && b < block + count; ++b) flushed[b] = value;
      }
    }
    const std::uint64_t any = random() % kBlocks;
    ASSERT_EQ(byte_at(any * kBlock + 7), acknowledged[any]) << i;
    if (flushed[any] == acknowledged[any] && flushed[any] != 0)
      ASSERT_EQ(durable_at(any * kBlock + 7), flushed[any]) << i;
  }
  EXPECT_GT(file->restarts, 100u);
}

}  // namespace
}  // namespace slice::block
