#include "common/metrics.h"

#include <gtest/gtest.h>

#include <thread>

namespace slice {
namespace {

using namespace std::chrono_literals;

TEST(Metrics, TextIsPrometheusOwn) {
  Metrics metrics;
  metrics.counter("calls_total", "calls that came", {{"procedure", "READ"}}).add(7);
  metrics.counter("calls_total", "calls that came", {{"procedure", "LOOKUP"}});
  metrics.gauge("free_bytes", "free space").set(1ull << 60);
  metrics.counter("busy_seconds_total", "time of work", {}, Unit::kMicroseconds).add(1'050'000);
  metrics.gauge("process_start_time_seconds", "when it began", {}, Unit::kNanoseconds)
      .set(1'700'000'000'000'000'001);
  EXPECT_EQ(metrics.text(),
            "# HELP slice_busy_seconds_total time of work\n"
            "# TYPE slice_busy_seconds_total counter\n"
            "slice_busy_seconds_total 1.05\n"
            "# HELP slice_calls_total calls that came\n"
            "# TYPE slice_calls_total counter\n"
            "slice_calls_total{procedure=\"LOOKUP\"} 0\n"
            "slice_calls_total{procedure=\"READ\"} 7\n"
            "# HELP slice_free_bytes free space\n"
            "# TYPE slice_free_bytes gauge\n"
            "slice_free_bytes 1152921504606846976\n"
            "# HELP process_start_time_seconds when it began\n"
            "# TYPE process_start_time_seconds gauge\n"
            "process_start_time_seconds 1700000000.000000001\n");
}

TEST(Metrics, LabelsAndHelpAreEscaped) {
  Metrics metrics;
  metrics.gauge("strange", "a \\ in the help", {{"name", "\"a\\b\"\nc{}"}, {"b", ""}}).set(1);
  EXPECT_EQ(metrics.text(),
            "# HELP slice_strange a \\\\ in the help\n"
            "# TYPE slice_strange gauge\n"
            "slice_strange{name=\"\\\"a\\\\b\\\"\\nc{}\",b=\"\"} 1\n");
}

TEST(Metrics, TheSameCellIsGivenAgain) {
  Metrics metrics;
  Counter& first = metrics.counter("calls_total", "calls that came", {{"log", "a"}});
  EXPECT_EQ(&metrics.counter("calls_total", "calls that came", {{"log", "a"}}), &first);
  EXPECT_EQ(&metrics.counter("calls_total{log=\"a\"}"), &first);
  EXPECT_NE(&metrics.counter("calls_total", "calls that came", {{"log", "b"}}), &first);
}

TEST(MetricsDeathTest, WhatWasNotMadeWithHelpEndsTheProgram) {
  Metrics metrics;
  metrics.counter("calls_total", "calls that came", {{"log", "a"}});
  EXPECT_DEATH(metrics.counter("other_total"), "other_total: was not made before");
  EXPECT_DEATH(metrics.counter("calls_total{log=\"b\"}"), "was not made before");
  EXPECT_DEATH(metrics.histogram("calls_total"), "was not made before");
  metrics.gauge("time_seconds", "a gauge in seconds");
  EXPECT_DEATH(metrics.histogram("time_seconds", "a gauge in seconds"), "two kinds of metrics");
}

TEST(Histogram, CountsByBounds) {
  Metrics metrics;
  Histogram& histogram = metrics.histogram("wait_seconds", "how long it took", {{"server", "a"}});
  for (Duration each :
       {Duration(0), Duration(-5), Duration(50us), Duration(50us) + 1ns, Duration(10s), Duration(11s)})
    histogram.observe(each);
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_EQ(histogram.in_bucket(0), 3u);
  EXPECT_EQ(histogram.in_bucket(1), 1u);
  EXPECT_EQ(histogram.in_bucket(Histogram::kBounds.size() - 1), 1u);
  EXPECT_EQ(histogram.in_bucket(Histogram::kBounds.size()), 1u);
  const std::string text = metrics.text();
  EXPECT_TRUE(
      text.starts_with("# HELP slice_wait_seconds how long it took\n"
                       "# TYPE slice_wait_seconds histogram\n"
                       "slice_wait_seconds_bucket{server=\"a\",le=\"0.00005\"} 3\n"
                       "slice_wait_seconds_bucket{server=\"a\",le=\"0.0001\"} 4\n"));
  EXPECT_TRUE(
      text.ends_with("slice_wait_seconds_bucket{server=\"a\",le=\"10\"} 5\n"
                     "slice_wait_seconds_bucket{server=\"a\",le=\"+Inf\"} 6\n"
                     "slice_wait_seconds_sum{server=\"a\"} 21.000100001\n"
                     "slice_wait_seconds_count{server=\"a\"} 6\n"));
}

TEST(Histogram, LosesNothingOfSeveralThreads) {
  Histogram histogram;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) histogram.observe(std::chrono::microseconds(n));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(histogram.count(), 40'000u);
  EXPECT_EQ(histogram.sum(), 4 * std::chrono::microseconds(9'999ll * 5'000));
}

}  // namespace
}  // namespace slice
