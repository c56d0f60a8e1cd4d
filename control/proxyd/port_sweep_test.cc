#include "control/proxyd/port_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace slice::proxy {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kPorts = 359;  // 665 to 1023
constexpr std::uint16_t kNfs = 2049, kOtherPort = 4045;

std::vector<wire::AddressPeer> round_of(PortSweep& sweep, std::size_t step = 100) {
  std::vector<wire::AddressPeer> all;
  for (auto some = sweep.next(step); !some.empty(); some = sweep.next(step)) {
    EXPECT_LE(some.size(), step);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(PortSweepTest, AllReservedPortsOfEachClientButThoseKnown) {
  PortSweep sweep({{2, 700, kNfs}, {1, 1023, kNfs}, {1, 665, kNfs}});
  const auto all = round_of(sweep);
  const std::set<wire::AddressPeer> different(all.begin(), all.end());
  EXPECT_THAT(all, SizeIs(2 * kPorts - 3));
  EXPECT_THAT(different, SizeIs(all.size())) << "each once";
  for (std::uint16_t port = 665; port <= 1023; ++port) {
    EXPECT_EQ(different.contains({1, port, kNfs}), port != 665 && port != 1023) << port;
    EXPECT_EQ(different.contains({2, port, kNfs}), port != 700) << port;
  }
  EXPECT_EQ(sweep.clients(), 2u);
  EXPECT_EQ(sweep.left_out(), 0u);
  EXPECT_EQ(round_of(sweep, 7), all) << "a round again";
}

TEST(PortSweepTest, ToThePortThatTheClientCalled) {
  PortSweep sweep({{1, 700, kNfs}, {1, 700, kOtherPort}});
  const auto all = round_of(sweep);
  EXPECT_THAT(all, SizeIs(2 * (kPorts - 1)));
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& peer) { return peer.at == kOtherPort; }),
            std::ptrdiff_t{kPorts - 1});
}

TEST(PortSweepTest, NoneOfWhoCameFromAnyPort) {
  PortSweep none({});
  EXPECT_THAT(none.next(10), IsEmpty());
  PortSweep sweep({{1, 1024, kNfs}, {2, 40000, kNfs}});
  EXPECT_THAT(sweep.next(10), IsEmpty());
  EXPECT_EQ(sweep.clients() + sweep.left_out(), 0u);
  PortSweep below({{1, 600, kNfs}});  // reserved, though not one of those that Linux takes
  EXPECT_THAT(round_of(below), SizeIs(kPorts));
}

TEST(PortSweepTest, PortByPort) {
  PortSweep sweep({{3, 700, kNfs}, {1, 700, kNfs}, {2, 700, kNfs}});
  EXPECT_EQ(sweep.next(4),
            (std::vector<wire::AddressPeer>{{1, 665, kNfs}, {2, 665, kNfs}, {3, 665, kNfs}, {1, 666, kNfs}}));
}

TEST(PortSweepTest, IsBounded) {
  std::vector<wire::AddressPeer> known;
  for (std::uint32_t client = 1; client <= PortSweep::kMaxClients + 5; ++client) {
    known.push_back({client, 700, kNfs});
    known.push_back({client, 701, kNfs});
  }
  PortSweep sweep(known);
  EXPECT_EQ(sweep.clients(), PortSweep::kMaxClients);
  EXPECT_EQ(sweep.left_out(), 5u);
  EXPECT_THAT(round_of(sweep, 1000), SizeIs(PortSweep::kMaxClients * (kPorts - 2)));
}

}  // namespace
}  // namespace slice::proxy
