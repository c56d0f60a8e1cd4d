#include "coordinator/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "routing/copies.h"
#include "service/testing/sample_config.h"

namespace slice::coordinator {
namespace {

constexpr std::uint64_t kGiB = 1 << 30;

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() : config_(service::testing::sample_config()) {
    service::testing::add_server(config_, "store3", ServerRole::kStorage);
    tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value();
  }
  template <class Change>
  void change_tables(const Change& change) {
    wire::Tables tables = tables_->wire();
    change(tables);
    tables_ = routing::RoutingTables::make(config_, tables).value();
  }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  // How many of the stripes each server got.
  std::map<std::uint32_t, std::size_t> placed(const std::vector<Room>& rooms, std::size_t count) {
    std::map<std::uint32_t, std::size_t> by_server;
    sites_ =
        place_by_free_space(*tables_, rooms, copies_, count, [this] { return seed_ += 0x9e3779b97f4a7c15; });
    EXPECT_EQ(sites_.size(), count);
    for (std::uint16_t site : sites_) {
      ++by_server[tables_->server_of(wire::Role::kStorage, SiteId{site}).server];
    }
    return by_server;
  }

  EnsembleConfig config_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::uint32_t copies_ = 1;
  std::vector<std::uint16_t> sites_;
  std::uint64_t seed_ = 5;
};

TEST_F(PlacementTest, GoesByTheShareOfFreeSpace) {
  std::map<std::uint32_t, std::size_t> all;
  for (int file = 0; file < 100; ++file) {
    auto one =
        placed({{index("store1"), 6 * kGiB}, {index("store2"), 3 * kGiB}, {index("store3"), kGiB}}, 10);
    for (auto [server, count] : one) all[server] += count;
  }
  EXPECT_NEAR(static_cast<double>(all[index("store1")]), 600, 30);
  EXPECT_NEAR(static_cast<double>(all[index("store2")]), 300, 30);
  EXPECT_NEAR(static_cast<double>(all[index("store3")]), 100, 30);
}

TEST_F(PlacementTest, GivesNothingToDrainedNodesNorToThoseWithoutSites) {
  const std::vector<Room> rooms{
      {index("store1"), 6 * kGiB}, {index("store2"), 3 * kGiB}, {index("store3"), kGiB}};
  change_tables([&](wire::Tables& tables) { tables.servers[index("store1")].drained = true; });
  auto found = placed(rooms, 400);
  EXPECT_FALSE(found.contains(index("store1")));
  EXPECT_NEAR(static_cast<double>(found[index("store2")]), 300, 5);
  EXPECT_FALSE(placed({}, 10).contains(index("store1"))) << "also where nobody's space is known";
  change_tables([&](wire::Tables& tables) {
    for (std::uint32_t& owner : tables.sites[2]) owner = owner == index("store2") ? index("store3") : owner;
  });
  found = placed(rooms, 400);
  EXPECT_EQ(found[index("store3")], 400u);
  // Where all are drained they get what there is.
  change_tables([](wire::Tables& tables) {
    for (wire::ServerEntry& each : tables.servers) each.drained = true;
  });
  EXPECT_EQ(placed(rooms, 10).size(), 2u);
}

TEST_F(PlacementTest, CopiesAreOnDistinctHostsAndOnNoDrainedNodeWhereTheyCan) {
  copies_ = 2;
  service::testing::add_server(config_, "store4", ServerRole::kStorage);
  tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value();
  // Neighbours in turn, but for some sites.
  change_tables([&](wire::Tables& tables) {
    for (const auto& [name, host] :
         {std::pair{"store1", "a"}, {"store2", "a"}, {"store3", "b"}, {"store4", "c"}})
      tables.servers[index(name)].host = host;
    for (std::uint32_t site = 0; site < 64; site += 8) {
      tables.sites[2][site + 1] = index("store3");
      tables.sites[2][site + 2] = index("store2");
    }
  });
  const std::vector<Room> rooms{{index("store1"), kGiB}, {index("store2"), kGiB}, {index("store3"), kGiB}};
  auto check = [&](const auto& is_good) {
    placed(rooms, 300);
    for (std::uint16_t site : sites_) {
      const auto copies = tables_->copies_of(SiteId{site}, 2);
      ASSERT_EQ(copies.size(), 2u);
      EXPECT_TRUE(is_good(*tables_->server(copies[0]), *tables_->server(copies[1]))) << site;
    }
  };
  check([](const auto& first, const auto& second) { return first.host != second.host; });
  change_tables([&](wire::Tables& tables) { tables.servers[index("store3")].drained = true; });
  check([](const auto& first, const auto& second) { return !first.drained && !second.drained; });
}

// Of two copies the one that stays where it is need not be copied.
TEST_F(PlacementTest, WhatLeavesAServerGoesToSitesThatHaveMostInCommon) {
  change_tables([&](wire::Tables& tables) { tables.servers[index("store2")].drained = true; });
  for (std::uint32_t site = 0; site < tables_->layout_sites().size(); ++site) {
    auto now = tables_->copies_of(SiteId{site}, 2);
    const auto instead = sites_instead_of(*tables_, SiteId{site}, 2);
    ASSERT_FALSE(instead.empty());
    std::erase(now, index("store2"));
    for (std::uint16_t other : instead) {
      EXPECT_FALSE(tables_->is_left(SiteId{other}, 2));
      const auto then = tables_->copies_of(SiteId{other}, 2);
      for (std::uint32_t server : now) EXPECT_TRUE(routing::has(then, server));
    }
  }
  change_tables([&](wire::Tables& tables) { tables.servers[index("store3")].drained = true; });
  EXPECT_TRUE(sites_instead_of(*tables_, SiteId{0}, 2).empty()) << "two copies need two servers";
}

TEST_F(PlacementTest, MixesTheServersEvenly) {
  placed({{index("store1"), kGiB}, {index("store2"), kGiB}, {index("store3"), kGiB}}, 256);
  for (std::size_t i = 0; i + 3 <= sites_.size(); i += 3) {
    std::set<std::uint32_t> servers;
    for (std::size_t j = i; j < i + 3; ++j) {
      servers.insert(tables_->server_of(wire::Role::kStorage, SiteId{sites_[j]}).server);
    }
    EXPECT_EQ(servers.size(), 3u) << i;
  }
  std::set<std::uint16_t> distinct(sites_.begin(), sites_.end());
  EXPECT_GT(distinct.size(), 200u) << "many sites of a server, so that these can move one by one";
}

TEST_F(PlacementTest, ServersWithoutSpaceOrWordGetNothing) {
  auto by_server = placed({{index("store1"), 0}, {index("store2"), kGiB}}, 256);
  EXPECT_EQ(by_server[index("store2")], 256u);
}

TEST_F(PlacementTest, WithoutAnySpaceAllAreAlike) {
  auto by_server = placed({}, 255);
  for (const char* name : {"store1", "store2", "store3"}) EXPECT_EQ(by_server[index(name)], 85u) << name;
}

}  // namespace
}  // namespace slice::coordinator
