#include "block/unflushed_writes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "block/range_queue.h"
#include "common/manual_loop.h"

namespace slice::block {
namespace {

std::shared_ptr<const Buffer> filled(std::size_t size, std::uint8_t with) {
  Buffer bytes(size);
  std::ranges::fill(bytes.span(), with);
  return std::make_shared<const Buffer>(std::move(bytes));
}

// What it has, beside a model of a byte each.
class UnflushedWritesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSize = 300;
  struct Byte {
    int value = -1;  // none is kept
    std::uint64_t verifier = 0;
  };

  void write(std::size_t at, std::size_t size, std::uint8_t value, std::uint64_t verifier) {
    writes.add(at, filled(size + 5, value), 5, size, Verifier{verifier});
    for (std::size_t i = at; i < at + size; ++i) model[i] = {value, verifier};
  }
  void expect_model() {
    std::size_t kept = 0;
    Buffer seen(kSize);
    std::ranges::fill(seen.span(), std::uint8_t{0});
    put_pieces(writes.within(0, kSize), 0, seen.span());
    for (std::size_t i = 0; i < kSize; ++i) {
      kept += model[i].value >= 0 ? 1 : 0;
      EXPECT_EQ(seen.data()[i], std::max(model[i].value, 0)) << i;
    }
    EXPECT_EQ(writes.bytes(), kept);
    EXPECT_EQ(writes.empty(), kept == 0);
  }

  UnflushedWrites writes;
  std::vector<Byte> model{kSize};
};

TEST_F(UnflushedWritesTest, TheLaterOneOfTwoCounts) {
  write(10, 100, 1, 7);
  write(50, 20, 2, 7);
  expect_model();
  write(0, 300, 3, 7);
  expect_model();
}

TEST_F(UnflushedWritesTest, KeepsWhatAModelKeeps) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t at = random() % kSize, size = 1 + random() % (kSize - at);
    const std::uint64_t verifier = random() % 3;
    switch (random() % 8) {
      case 0:
        writes.forget(at, size);
        for (std::size_t b = at; b < at + size; ++b) model[b] = {};
        break;
      case 1: {
        writes.forget_committed(writes.last(), Verifier{verifier});
        for (Byte& byte : model) byte = byte.verifier == verifier ? Byte{} : byte;
        for (const auto& other : writes.others(writes.last(), Verifier{verifier}))
          EXPECT_NE(other.verifier, Verifier{verifier});
        break;
      }
      default:
        write(at, std::min<std::size_t>(size, 40), static_cast<std::uint8_t>(1 + random() % 200),
              verifier + 10 * (i / 500));
    }
    expect_model();
    if (HasFailure()) return;
  }
}

TEST_F(UnflushedWritesTest, WhatCameAfterACommitWasSentStays) {
  write(0, 10, 1, 7);
  const std::uint64_t last = writes.last();
  write(20, 10, 2, 7);
  writes.forget_committed(last, Verifier{7});
  EXPECT_EQ(writes.bytes(), 10u);
  EXPECT_EQ(writes.within(0, 300).front().offset, 20u);
  EXPECT_TRUE(writes.others(last, Verifier{8}).empty());
}

// ---- RangeQueue ----

struct Taken {
  std::optional<RangeQueue::Held> held;
};
Task<void> take(RangeQueue& queue, std::uint64_t offset, std::uint64_t length, Taken& out) {
  out.held.emplace(co_await queue.acquire(offset, length));
}

TEST(RangeQueueTest, WhoOverlapsWaitsForWhoCameBefore) {
  ManualLoop loop;
  RangeQueue queue(loop);
  Taken first, beside, over_both, behind;
  spawn(take(queue, 0, 10, first));
  spawn(take(queue, 10, 10, beside));
  spawn(take(queue, 5, 10, over_both));
  spawn(take(queue, 0, 3, behind));
  EXPECT_TRUE(first.held && beside.held);
  EXPECT_FALSE(over_both.held || behind.held);
  first.held.reset();
  loop.advance(Duration(0));
  EXPECT_FALSE(over_both.held) << "the other half is held";
  EXPECT_TRUE(behind.held) << "nobody before wants what it wants";
  beside.held.reset();
  loop.advance(Duration(0));
  EXPECT_TRUE(over_both.held);
}

}  // namespace
}  // namespace slice::block
