#include "routing/deal.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/config.h"

namespace slice::routing {
namespace {

using Servers = std::vector<wire::ServerEntry>;

wire::ServerEntry server(std::uint32_t number, const std::string& host, const std::string& rack = {},
                         std::uint64_t weight = 0) {
  return {.server = number,
          .role = wire::Role::kStorage,
          .endpoint = {0x0a000001 + number, 2049},
          .name = "store" + std::to_string(number),
          .weight = weight,
          .host = host,
          .rack = rack};
}

std::map<std::uint32_t, std::size_t> counts(const std::vector<std::uint32_t>& owners) {
  std::map<std::uint32_t, std::size_t> found;
  for (std::uint32_t owner : owners) ++found[owner];
  return found;
}

// The sites at which two of so many neighbours have the same `of`, but for those at the end.
template <class Of>
std::size_t clashes(const Servers& servers, const std::vector<std::uint32_t>& owners, std::size_t copies,
                    const Of& of) {
  std::map<std::uint32_t, const wire::ServerEntry*> by_number;
  for (const wire::ServerEntry& each : servers) by_number[each.server] = &each;
  std::size_t found = 0;
  for (std::size_t site = 0; site + copies <= owners.size(); ++site) {
    std::set<std::string> distinct;
    for (std::size_t i = 0; i < copies; ++i) distinct.insert(of(*by_number.at(owners[site + i])));
    found += distinct.size() < copies ? 1 : 0;
  }
  return found;
}

std::string host_of(const wire::ServerEntry& entry) {
  return entry.host;
}
std::string rack_of(const wire::ServerEntry& entry) {
  return entry.rack;
}

// So volumes were born before hosts could be said, and tables that are made of a file anew must be the same.
TEST(DealSites, IsInTurnWhereNothingIsSaid) {
  for (std::uint32_t count : {1u, 2u, 3u, 4u, 5u, 7u, 12u, 24u, 40u, 63u, 64u, 100u, 200u}) {
    Servers servers;
    for (std::uint32_t i = 0; i < count; ++i) servers.push_back(server(3 + i, ""));
    for (std::uint32_t sites : {1u, 2u, 64u, 256u, 1024u}) {
      const auto owners = deal_sites(servers, sites);
      ASSERT_EQ(owners.size(), sites);
      for (std::uint32_t site = 0; site < sites; ++site)
        ASSERT_EQ(owners[site], 3 + site % count) << count << " servers, site " << site << " of " << sites;
    }
  }
}

TEST(DealSites, PutsNeighboursOnDistinctHosts) {
  const Servers servers{server(0, "a"), server(1, "a"), server(2, "b"), server(3, "b")};
  const auto owners = deal_sites(servers, 1024);
  EXPECT_EQ(clashes(servers, owners, 2, host_of), 0u);
  for (const auto& [number, count] : counts(owners)) EXPECT_EQ(count, 256u) << number;
}

TEST(DealSites, PutsThreeNeighboursOnDistinctHosts) {
  Servers servers;
  for (std::uint32_t i = 0; i < 9; ++i)
    servers.push_back(server(i, std::string(1, static_cast<char>('a' + i / 3))));
  const auto owners = deal_sites(servers, 1024);
  EXPECT_EQ(clashes(servers, owners, 3, host_of), 0u);
  for (const auto& [number, count] : counts(owners))
    EXPECT_NEAR(static_cast<double>(count), 1024.0 / 9, 1) << number;
}

TEST(DealSites, AndInDistinctRacksWhereThereAreEnough) {
  Servers servers;
  for (std::uint32_t i = 0; i < 8; ++i)
    servers.push_back(server(i, "h" + std::to_string(i / 2), i < 4 ? "left" : "right"));
  const auto owners = deal_sites(servers, 512);
  EXPECT_EQ(clashes(servers, owners, 2, rack_of), 0u);
  EXPECT_EQ(clashes(servers, owners, 2, host_of), 0u);
}

TEST(DealSites, SharesGoBeforeHosts) {
  const Servers servers{server(0, "a"), server(1, "a"), server(2, "a"), server(3, "b")};
  for (const auto& [number, count] : counts(deal_sites(servers, 64))) EXPECT_EQ(count, 16u) << number;
}

TEST(DealSites, GoesByWeightsWhereAllHaveOne) {
  const Servers servers{server(0, "", "", 3ULL << 40), server(1, "", "", 1ULL << 40), server(2, "", "", 1)};
  auto found = counts(deal_sites(servers, 1024));
  EXPECT_NEAR(static_cast<double>(found[0]), 767, 1);
  EXPECT_NEAR(static_cast<double>(found[1]), 256, 1);
  EXPECT_EQ(found[2], 1u) << "one at least";
  const Servers some{server(0, "", "", 5), server(1, "")};
  EXPECT_EQ(counts(deal_sites(some, 64))[1], 32u);
}

TEST(DealSites, ManyServersShareFewSites) {
  const Servers servers{server(0, "a"), server(1, "b"), server(2, "c")};
  EXPECT_EQ(deal_sites(servers, 2), (std::vector<std::uint32_t>{0, 1}));
}

TEST(Together, CountsPairsOfAHostAndOfARack) {
  const wire::ServerEntry a = server(0, "a", "left"), b = server(1, "a", "left"), c = server(2, "", "left"),
                          d = server(3, "");
  EXPECT_EQ(together({&a, &b, &c, &d}), (Together{1, 3}));
  EXPECT_LT(together({&a, &c}), together({&a, &b}));
  EXPECT_EQ(together({&d}), Together{});
}

}  // namespace
}  // namespace slice::routing
