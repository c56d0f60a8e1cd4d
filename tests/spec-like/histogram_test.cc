#include "tests/spec-like/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/sim/random.h"

namespace slice::load {
namespace {

TEST(Histogram, AValueIsReadBackAtMostOneStepLarger) {
  sim::Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    Histogram histogram;
    histogram.add(value);
    histogram.add(~std::uint64_t{0});  // so that the largest value does not limit what is read back
    const std::uint64_t back = histogram.quantile(0.5);
    ASSERT_GE(back, value);
    ASSERT_LE(static_cast<double>(back - value), static_cast<double>(value) * Histogram::kError) << value;
  }
}

TEST(Histogram, QuantilesAreWithinTheErrorOfThoseOfSortedValues) {
  sim::Random random(2);
  std::vector<std::uint64_t> values;
  Histogram histogram;
  for (int i = 0; i < 50'000; ++i) {
    values.push_back(random.below(1000) * random.below(100'000) + 1);
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (double q : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size()))) - 1;
    const auto exact = static_cast<double>(values[rank]);
    EXPECT_GE(static_cast<double>(histogram.quantile(q)), exact) << q;
    EXPECT_LE(static_cast<double>(histogram.quantile(q)), exact * (1 + Histogram::kError)) << q;
  }
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(Histogram, MergedOnesAreOneOfAllValues) {
  sim::Random random(3);
  Histogram all, parts[3];
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    all.add(value);
    parts[i % 3].add(value);
  }
  Histogram merged;
  for (const Histogram& each : parts) merged.merge(each);
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.sparse().buckets, all.sparse().buckets);
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_NEAR(merged.mean() / all.mean(), 1, 1e-9);
}

TEST(Histogram, SurvivesAReport) {
  Histogram histogram;
  histogram.add(5, 3);
  histogram.add(1'000'000);
  auto back = Histogram::from(histogram.sparse());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->count(), 4u);
  EXPECT_EQ(back->quantile(0.5), 5u);
  EXPECT_EQ(back->max(), 1'000'000u);
  EXPECT_FALSE(Histogram::from({.buckets = {{Histogram::kBuckets, 1}}}));
}

TEST(Histogram, OfNothingIsZero) {
  EXPECT_EQ(Histogram().quantile(0.99), 0u);
  EXPECT_EQ(Histogram().mean(), 0);
}

}  // namespace
}  // namespace slice::load
