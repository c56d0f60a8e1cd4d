// What the page is told of servers: figures out of their metrics, rates, and the last hour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "control/webd/history.h"
#include "control/webd/pages.h"

namespace slice::webd {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kMetrics = R"(# HELP slice_nfs_latency_seconds time
# TYPE slice_nfs_latency_seconds histogram
slice_nfs_latency_seconds_bucket{procedure="READ",le="0.001"} 7
slice_nfs_latency_seconds_sum{procedure="READ"} 0.5
slice_nfs_latency_seconds_count{procedure="READ"} 10
slice_nfs_latency_seconds_sum{procedure="WRITE"} 1.5
slice_nfs_latency_seconds_count{procedure="WRITE"} 20
slice_nfs_latency_seconds_count{procedure="COMMIT"} 2
slice_nfs_latency_seconds_count{procedure="LOOKUP"} 3e2
slice_nfs_failures_total{procedure="LOOKUP"} 4
slice_nfs_failures_total{procedure="READ"} 1
slice_xdp_outcomes_total{outcome="ROUTED_READ"} 100
slice_xdp_outcomes_total{outcome="PASSED_TCP"} 50
process_cpu_seconds_total 2.25
)";

TEST(Figures, AreSumsOverProcedures) {
  const Figures figures = figures_of(kMetrics);
  EXPECT_EQ(figures.reads, 10);
  EXPECT_EQ(figures.writes, 22);
  EXPECT_EQ(figures.names, 300);
  EXPECT_EQ(figures.failures, 5);
  EXPECT_EQ(figures.seconds, 2);
  EXPECT_EQ(figures.by_xdp, 100);
  EXPECT_EQ(figures.cpu_seconds, 2.25);
}

TEST(Figures, WhatIsNoMetricIsPassedOver) {
  for (const std::string_view text : {"", "\n\n", "slice_nfs_failures_total", "slice_nfs_failures_total x\n",
                                      "slice_nfs_failures_total 1 2x\n", " \n", "}{ 1\n", "# 7"}) {
    EXPECT_EQ(figures_of(text).failures, 0) << text;
  }
  // A reply that was cut.
  EXPECT_EQ(figures_of("slice_nfs_failures_total 3\nslice_nfs_failures_tot").failures, 3);
}

TEST(Rates, AreOfASecond) {
  Figures before{.reads = 10, .writes = 0, .names = 5, .failures = 1, .seconds = 1, .cpu_seconds = 3};
  Figures after{.reads = 30, .writes = 4, .names = 5, .failures = 3, .seconds = 1.48, .cpu_seconds = 4};
  const auto rates = rates_between(before, after, 2s);
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->reads, 10);
  EXPECT_EQ(rates->writes, 2);
  EXPECT_EQ(rates->names, 0);
  EXPECT_EQ(rates->failures, 1);
  EXPECT_NEAR(rates->latency, 0.02, 1e-9);
  EXPECT_EQ(rates->cpu, 0.5);
  EXPECT_FALSE(rates_between(after, before, 2s)) << "it was started anew";
  EXPECT_FALSE(rates_between(before, after, 0s));
  EXPECT_EQ(rates_between(before, before, 1s)->latency, 0);
}

History::Reading reading(int second, std::map<std::string, Figures> servers,
                         std::map<std::string, Figures> proxies = {}) {
  return {.at = MonoTime(std::chrono::seconds(100 + second)),
          .wall = WallTime{(1000ll + second) * 1'000'000'000},
          .servers = std::move(servers),
          .proxies = std::move(proxies)};
}

TEST(HistoryTest, APointIsWhatWasDoneSinceTheLast) {
  History history(10);
  history.add(reading(0, {{"dir1", {.names = 100}}, {"store1", {.reads = 10}}}, {{"proxy1", {.by_xdp = 5}}}));
  EXPECT_TRUE(history.now().empty());
  history.add(reading(2,
                      {{"dir1", {.names = 140, .seconds = 0.4}}, {"store1", {.reads = 30, .seconds = 0.2}}},
                      {{"proxy1", {.reads = 8, .by_xdp = 25}}}));
  EXPECT_EQ(history.now().at("dir1").names, 20);
  EXPECT_EQ(history.now().at("proxy1").by_xdp, 10);
  const auto json = nlohmann::json::parse(history.json());
  ASSERT_EQ(json["points"].size(), 1u);
  const auto& point = json["points"][0];
  EXPECT_EQ(point["at"], 1002);
  EXPECT_EQ(point["names"], 20);
  EXPECT_EQ(point["reads"], 10);
  EXPECT_EQ(point["latency"], 0.01);
  EXPECT_EQ(point["by_xdp"], 10);
  EXPECT_EQ(point["by_user"], 4);
  EXPECT_EQ(point["servers"], (nlohmann::json{{"dir1", 20}, {"store1", 10}}));
}

TEST(HistoryTest, AServerThatIsAwayHasNoRatesAndNoneWhenItIsBackAnew) {
  History history(10);
  history.add(reading(0, {{"dir1", {.names = 100}}}));
  history.add(reading(2, {}));
  EXPECT_TRUE(history.now().empty());
  history.add(reading(4, {{"dir1", {.names = 3}}}));
  EXPECT_TRUE(history.now().empty());
  history.add(reading(6, {{"dir1", {.names = 7}}}));
  EXPECT_EQ(history.now().at("dir1").names, 2);
}

TEST(HistoryTest, HasAnHourAndNoMore) {
  History history(3);
  for (int i = 0; i < 10; ++i) history.add(reading(i, {{"dir1", {.names = 10.0 * i}}}));
  const auto json = nlohmann::json::parse(history.json());
  ASSERT_EQ(json["points"].size(), 3u);
  EXPECT_EQ(json["points"][0]["at"], 1007);
  EXPECT_EQ(json["points"][2]["at"], 1009);
}

TEST(Pages, AreWholeAndLoadNothingFromElsewhere) {
  std::vector<std::string_view> paths;
  for (const Asset& each : kAssets) {
    paths.push_back(each.path);
    EXPECT_EQ(each.text.find("https://"), std::string_view::npos) << each.path;
    EXPECT_EQ(each.text.find("innerHTML"), std::string_view::npos)
        << each.path << ": names are text, not markup";
  }
  EXPECT_THAT(paths, Contains("/"));
  for (const Asset& each : kAssets) {
    if (each.path != "/") continue;
    EXPECT_THAT(std::string(each.text), HasSubstr("<script src=\"page.js\" defer>"));
    EXPECT_THAT(std::string(each.text), HasSubstr("</html>"));
  }
}

}  // namespace
}  // namespace slice::webd
