#include "control/slicectl/top.h"

#include <gtest/gtest.h>

namespace slice::slicectl {
namespace {

using namespace std::chrono_literals;

wire::TopEntry top_entry(wire::TopKey key, std::uint64_t calls, Duration took, Duration slowest = 1ms) {
  return {.key = key,
          .calls = calls,
          .received = calls * 1000,
          .sent = calls * 100,
          .took = took,
          .slowest = slowest};
}

wire::TopResult top_result(std::vector<wire::TopEntry> clients, std::vector<wire::TopEntry> procedures = {}) {
  return {.counted = 1s, .clients = std::move(clients), .files = {}, .procedures = std::move(procedures)};
}

TEST(TopTest, RatesAreOfWhatCameBetweenTheSamplesOfAllServers) {
  const wire::TopKey a{.client = 0x0a4d0102}, b{.client = IpAddress::of_words(0xfd77ull << 48, 3)};
  const TopSample first{{"store1", top_result({top_entry(a, 10, 10ms)})}, {"dir1", top_result({})}};
  const TopSample second{{"store1", top_result({top_entry(a, 30, 50ms, 7ms), top_entry(b, 5, 5ms)})},
                         {"dir1", top_result({top_entry(a, 20, 20ms, 3ms)})},
                         {"store2", top_result({top_entry(b, 1000, 20ms)})}};  // it was not in the first
  const Loads loads = loads_between(first, second, 2s);
  ASSERT_EQ(loads.clients.size(), 2u);
  EXPECT_EQ(loads.clients[0].who, "10.77.1.2");
  EXPECT_DOUBLE_EQ(loads.clients[0].calls, 20);
  EXPECT_DOUBLE_EQ(loads.clients[0].received, 20'000);
  EXPECT_EQ(loads.clients[0].mean, 1500us);
  EXPECT_EQ(loads.clients[0].slowest, 7ms);
  EXPECT_DOUBLE_EQ(loads.clients[1].calls, 2.5);
  EXPECT_EQ(loads.clients[1].who, "fd77::3");
}

TEST(TopTest, WhoDidNothingBetweenIsNotShown) {
  const TopSample both{{"store1", top_result({top_entry({.client = 1}, 10, 10ms)})}};
  EXPECT_TRUE(loads_between(both, both, 1s).clients.empty());
}

// A key that lost its room and came again, or a server that began anew, has fewer than before.
TEST(TopTest, FewerThanBeforeIsNothingAndNotMoreThanEverWas) {
  const TopSample first{{"store1", top_result({top_entry({.client = 1}, 100, 10ms)})}};
  const TopSample second{{"store1", top_result({top_entry({.client = 1}, 10, 1ms)})}};
  EXPECT_TRUE(loads_between(first, second, 1s).clients.empty());
}

TEST(TopTest, SaysWhereACountMayBeOthers) {
  wire::TopEntry entry = top_entry({.client = 1}, 10, 10ms);
  entry.others = 8;
  const Loads loads = loads_between({{"s", top_result({})}}, {{"s", top_result({entry})}}, 1s);
  ASSERT_EQ(loads.clients.size(), 1u);
  EXPECT_TRUE(loads.clients[0].about);
  EXPECT_EQ(loads.clients[0].mean, 5ms);  // of those two that are its own
  const std::string text = render_top(loads, {.clients = true}, 10, {}, Format::kText);
  EXPECT_NE(text.find("~10.0"), std::string::npos) << text;
}

TEST(TopTest, OperationsMakeTheServersRow) {
  const TopSample first{{"store1", top_result({}, {})}};
  const TopSample second{{"store1", top_result({}, {top_entry({.number = 7}, 10, 10ms),
                                                    top_entry({.number = 6}, 30, 10ms, 9ms)})}};
  const Loads loads = loads_between(first, second, 1s);
  ASSERT_EQ(loads.servers.size(), 1u);
  EXPECT_DOUBLE_EQ(loads.servers[0].calls, 40);
  EXPECT_EQ(loads.servers[0].slowest, 9ms);
  ASSERT_EQ(loads.operations.size(), 2u);
  EXPECT_EQ(loads.operations[0].who, "READ");
  EXPECT_EQ(render_top(loads, {.operations = true}, 1, {}, Format::kText),
            "OPERATION  CALLS/S  IN/S      OUT/S    MEAN     SLOWEST\n"
            "READ       30.0     29.3 KiB  2.9 KiB  0.33 ms  9.00 ms\n");
}

}  // namespace
}  // namespace slice::slicectl
