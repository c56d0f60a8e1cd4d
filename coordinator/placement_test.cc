#include "coordinator/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bpf/shared/routing.h"
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
  // How many of the stripes each server got, of all copies.
  std::map<std::uint32_t, std::size_t> placed(const std::vector<Room>& rooms, std::size_t count) {
    std::map<std::uint32_t, std::size_t> by_server;
    sites_ = Placement(*tables_, rooms, copies_, random_).sites(count);
    EXPECT_EQ(sites_.size(), count);
    for (std::uint32_t site : sites_) {
      for (std::uint32_t server : tables_->copies_of(SiteId{site}, copies_)) ++by_server[server];
    }
    return by_server;
  }
  void add_later(const std::string& name, bool started = true) {
    change_tables([&](wire::Tables& tables) {
      tables.servers.push_back({.server = static_cast<std::uint32_t>(tables.servers.size()),
                                .role = wire::Role::kStorage,
                                .endpoint = {1, 2},
                                .name = name,
                                .started = started});
    });
  }

  EnsembleConfig config_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::uint32_t copies_ = 1;
  std::vector<std::uint32_t> sites_;
  std::uint64_t seed_ = 5;
  Random random_ = [this] { return slice_mix64(seed_ += 0x9e3779b97f4a7c15); };
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

TEST_F(PlacementTest, GivesNothingToDrainedNodesAndAPartToThoseThatCameLater) {
  const std::vector<Room> rooms{
      {index("store1"), 6 * kGiB}, {index("store2"), 3 * kGiB}, {index("store3"), kGiB}};
  change_tables([&](wire::Tables& tables) { tables.servers[index("store1")].drained = true; });
  auto found = placed(rooms, 400);
  EXPECT_FALSE(found.contains(index("store1")));
  EXPECT_NEAR(static_cast<double>(found[index("store2")]), 300, 5);
  EXPECT_FALSE(placed({}, 10).contains(index("store1"))) << "also where nobody's space is known";
  const auto added = static_cast<std::uint32_t>(tables_->wire().servers.size());
  add_later("store4", false);
  add_later("store5");
  std::vector<Room> more = rooms;
  more.push_back({added, 4 * kGiB});
  more.push_back({added + 1, 4 * kGiB});
  found = placed(more, 400);
  EXPECT_FALSE(found.contains(added)) << "it was never there";
  EXPECT_NEAR(static_cast<double>(found[added + 1]), 200, 5);
  // Where all are drained they get what there is.
  change_tables([](wire::Tables& tables) {
    for (wire::ServerEntry& each : tables.servers) each.drained = true;
  });
  EXPECT_EQ(placed(rooms, 10).size(), 3u);
}

TEST_F(PlacementTest, CopiesAreOnDistinctHostsAndOnNoDrainedNodeWhereTheyCan) {
  copies_ = 2;
  service::testing::add_server(config_, "store4", ServerRole::kStorage);
  tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value();
  change_tables([&](wire::Tables& tables) {
    for (const auto& [name, host] :
         {std::pair{"store1", "a"}, {"store2", "a"}, {"store3", "b"}, {"store4", "c"}})
      tables.servers[index(name)].host = host;
  });
  std::vector<Room> rooms{{index("store1"), kGiB}, {index("store2"), kGiB}, {index("store3"), kGiB}};
  auto check = [&](const auto& is_good) {
    placed(rooms, 300);
    for (std::uint32_t site : sites_) {
      const auto copies = tables_->copies_of(SiteId{site}, 2);
      ASSERT_EQ(copies.size(), 2u);
      EXPECT_TRUE(is_good(*tables_->server(copies[0]), *tables_->server(copies[1]))) << site;
    }
  };
  check([](const auto& first, const auto& second) { return first.host != second.host; });
  rooms.push_back({index("store4"), kGiB});
  change_tables([&](wire::Tables& tables) { tables.servers[index("store3")].drained = true; });
  check([](const auto& first, const auto& second) { return !first.drained && !second.drained; });
  // One of three that are alike in all has a third, be it the first copy or another.
  copies_ = 3;
  change_tables([&](wire::Tables& tables) { tables.servers[index("store3")].drained = false; });
  for (auto [server, count] : placed(rooms, 400)) EXPECT_NEAR(static_cast<double>(count), 300, 110) << server;
}

TEST_F(PlacementTest, CopiesAreSharedOutToo) {
  copies_ = 2;
  add_later("store4");
  std::vector<Room> rooms;
  for (const wire::ServerEntry* each : tables_->servers(wire::Role::kStorage))
    rooms.push_back({each->server, kGiB});
  std::map<std::uint32_t, std::size_t> first;
  for (auto [server, count] : placed(rooms, 400)) EXPECT_NEAR(static_cast<double>(count), 200, 4) << server;
  for (std::uint32_t site : sites_) ++first[tables_->copies_of(SiteId{site}, 1).front()];
  for (const Room& each : rooms) EXPECT_NEAR(static_cast<double>(first[each.server]), 100, 30) << each.server;
}

// Of two copies the one that stays where it is need not be copied.
TEST_F(PlacementTest, WhatLeavesAServerStaysOnTheOthers) {
  add_later("store4");
  change_tables([&](wire::Tables& tables) { tables.servers[index("store2")].drained = true; });
  const Placement placement(*tables_, {{index("store1"), kGiB}}, 2, random_);
  EXPECT_TRUE(placement.enough());
  std::set<std::uint32_t> others;
  for (std::uint32_t site = 0; site < tables_->layout_sites().size(); ++site) {
    auto now = tables_->copies_of(SiteId{site}, 2);
    const auto instead = placement.instead_of(SiteId{site});
    ASSERT_TRUE(instead);
    EXPECT_FALSE(tables_->is_left(SiteId{*instead}, 2));
    std::erase(now, index("store2"));
    const auto then = tables_->copies_of(SiteId{*instead}, 2);
    EXPECT_EQ(then.size(), 2u);
    for (std::uint32_t server : now) EXPECT_TRUE(routing::has(then, server));
    others.insert(then.begin(), then.end());
  }
  EXPECT_EQ(others.size(), 3u) << "the one that came later, too";
  change_tables([&](wire::Tables& tables) {
    tables.servers[index("store3")].drained = tables.servers.back().drained = true;
  });
  const Placement too_few(*tables_, {}, 2, random_);
  EXPECT_FALSE(too_few.enough());
  EXPECT_FALSE(too_few.instead_of(SiteId{0})) << "two copies need two servers";
}

TEST_F(PlacementTest, MixesTheServersEvenly) {
  placed({{index("store1"), kGiB}, {index("store2"), kGiB}, {index("store3"), kGiB}}, 256);
  for (std::size_t i = 0; i + 3 <= sites_.size(); i += 3) {
    EXPECT_EQ(std::set<std::uint32_t>(&sites_[i], &sites_[i] + 3).size(), 3u) << i;
  }
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
