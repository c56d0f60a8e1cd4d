#include "service/byte_rate.h"

#include <gtest/gtest.h>

namespace slice::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MonoTime kBegin{seconds(100)};

TEST(ByteRateTest, TheFirstIsTakenAsItIs) {
  ByteRate rate;
  EXPECT_EQ(rate.bytes_a_second(), 0u);
  rate.note(kBegin, 5000);
  EXPECT_EQ(rate.bytes_a_second(), 0u) << "what was done before";
  rate.note(kBegin + seconds(2), 7000);
  EXPECT_EQ(rate.bytes_a_second(), 1000u);
}

TEST(ByteRateTest, OldOnesCountLessAndLess) {
  ByteRate rate;
  rate.note(kBegin, 0);
  rate.note(kBegin + seconds(1), 1000);
  rate.note(kBegin + seconds(2), 1000);
  EXPECT_NEAR(static_cast<double>(rate.bytes_a_second()), 700, 1);
  for (int i = 3; i < 30; ++i) rate.note(kBegin + seconds(i), 1000);
  EXPECT_LT(rate.bytes_a_second(), 10u) << "nothing more is done";
}

TEST(ByteRateTest, WhatComesSoonCountsWithTheNext) {
  ByteRate rate;
  rate.note(kBegin, 0);
  for (int i = 1; i <= 1000; ++i) rate.note(kBegin + milliseconds(i), 10 * static_cast<std::uint64_t>(i));
  EXPECT_NEAR(static_cast<double>(rate.bytes_a_second()), 10'000, 1);
}

TEST(ByteRateTest, WhatBeginsAnewIsNoLoss) {
  ByteRate rate;
  rate.note(kBegin, 0);
  rate.note(kBegin + seconds(1), 1000);
  rate.note(kBegin + seconds(2), 0);
  EXPECT_EQ(rate.bytes_a_second(), 1000u);
  rate.note(kBegin + seconds(3), 1000);
  EXPECT_NEAR(static_cast<double>(rate.bytes_a_second()), 1000, 1);
}

}  // namespace
}  // namespace slice::service
