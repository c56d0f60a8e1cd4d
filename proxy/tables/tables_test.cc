#include "proxy/tables/tables.h"

#include <gtest/gtest.h>

#include <cstring>

#include "proxy/tables/routes.h"

namespace slice::proxy {
namespace {

using routing::RoutingTables;

class TablesTest : public ::testing::Test {
 protected:
  TablesTest() {
    config_.ensemble_key = {1};
    for (std::uint32_t i = 0; i < 6; ++i) {
      ServerConfig server;
      server.name = "s" + std::to_string(i);
      server.role = static_cast<ServerRole>(i < 4 ? i : 1);  // three small-file servers: 1, 4, 5
      server.index = i;
      server.address = 0x0a4d0302 + (i << 8);
      config_.servers.push_back(server);
    }
    wire_ = RoutingTables::initial(config_);
  }
  rpc::Endpoint endpoint(std::uint32_t server) const { return wire_.servers[server].endpoint; }
  std::uint32_t owner(std::uint32_t site) const { return wire_.sites[SLICE_CLASS_SMALL_FILE][site]; }

  EnsembleConfig config_;
  wire::Tables wire_;
  MemoryTables memory_;
  Tables tables_ = memory_.tables();
};

TEST_F(TablesTest, BindsEverySiteAndThenNothingMore) {
  EXPECT_FALSE(tables_.endpoint_of(SLICE_CLASS_SMALL_FILE, 3));
  EXPECT_EQ(bind_sites(wire_, tables_), 6u + 64 + 64 + 1024 + 64);
  for (std::uint32_t site = 0; site < 64; ++site) {
    EXPECT_EQ(tables_.endpoint_of(SLICE_CLASS_SMALL_FILE, site), endpoint(owner(site)));
  }
  EXPECT_EQ(bind_sites(wire_, tables_), 0u);
}

TEST_F(TablesTest, PutsRightWhatWasReboundByHand) {
  bind_sites(wire_, tables_);
  std::uint32_t other = owner(3) == 4 ? 5 : 4;
  tables_.sites[slice_site_key(SLICE_CLASS_SMALL_FILE, 3)] = {other + 1, 9};
  tables_.sites[slice_site_key(SLICE_CLASS_STORAGE, 1000)] = {0, 0};
  EXPECT_EQ(tables_.endpoint_of(SLICE_CLASS_SMALL_FILE, 3), endpoint(other)) << "at once";
  EXPECT_FALSE(tables_.endpoint_of(SLICE_CLASS_STORAGE, 1000));
  EXPECT_EQ(bind_sites(wire_, tables_), 2u);
  EXPECT_EQ(tables_.endpoint_of(SLICE_CLASS_SMALL_FILE, 3), endpoint(owner(3)));
  EXPECT_EQ(tables_.endpoint_of(SLICE_CLASS_STORAGE, 1000), endpoint(2));
  // A generation of another number is no other place.
  tables_.sites[slice_site_key(SLICE_CLASS_SMALL_FILE, 3)].generation = 77;
  EXPECT_EQ(bind_sites(wire_, tables_), 0u);
  EXPECT_EQ(tables_.sites[slice_site_key(SLICE_CLASS_SMALL_FILE, 3)].generation, wire_.generation.value);
}

TEST_F(TablesTest, NothingIsLeftOfAServerThatWasRemoved) {
  bind_sites(wire_, tables_);
  tables_.servers[6].ifindex = 7;
  for (std::uint32_t& owner : wire_.sites[SLICE_CLASS_SMALL_FILE]) owner = owner == 5 ? 4 : owner;
  wire_.servers[5] = {.server = 5, .role = wire::Role::kRemoved, .endpoint = {}, .name = "s5"};
  EXPECT_GT(bind_sites(wire_, tables_), 0u);
  EXPECT_EQ(tables_.servers[6].port, 0u);
  EXPECT_EQ(tables_.servers[6].ifindex, 0u);
  for (std::uint32_t site = 0; site < 64; ++site)
    EXPECT_EQ(tables_.endpoint_of(SLICE_CLASS_SMALL_FILE, site), endpoint(owner(site)));
  EXPECT_EQ(bind_sites(wire_, tables_), 0u);
}

TEST_F(TablesTest, AServersWayIsForgottenWhereItsAddressWasWrong) {
  bind_sites(wire_, tables_);
  tables_.servers[2].ifindex = 7;
  tables_.servers[3].ifindex = 7;
  tables_.servers[3].port = 1;
  EXPECT_EQ(bind_sites(wire_, tables_), 1u);
  EXPECT_EQ(tables_.servers[2].ifindex, 7u);
  EXPECT_EQ(tables_.servers[3].ifindex, 0u) << "it led to another host";
  EXPECT_EQ(tables_.servers[3].port, 2049u);
}

// As a proxy on a client's own host has them.
TEST_F(TablesTest, RoutesLeadWhereTheTablesDo) {
  bind_sites(wire_, tables_);
  fill_config(*RoutingTables::make(config_, wire_).value(), *tables_.config);
  MemoryTables memory;
  const Tables& theirs = memory.tables();
  ASSERT_TRUE(follow(routes_of(tables_), theirs));
  EXPECT_EQ(theirs.config->flags, 0u) << "attributes are not patched";
  EXPECT_EQ(theirs.config->threshold, tables_.config->threshold);
  for (std::uint32_t site_class = 0; site_class < SLICE_CLASSES; ++site_class) {
    EXPECT_EQ(theirs.config->site_mask[site_class], tables_.config->site_mask[site_class]);
    for (std::uint32_t site = 0; site <= tables_.config->site_mask[site_class]; ++site)
      EXPECT_EQ(theirs.endpoint_of(site_class, site), tables_.endpoint_of(site_class, site));
  }
  wire_.servers[1].endpoint.address = wire_.servers[1].endpoint.address.v4() + 100;
  wire_.generation = Generation{5};
  bind_sites(wire_, tables_);
  ASSERT_TRUE(follow(routes_of(tables_), theirs));
  EXPECT_EQ(theirs.config->generation, 5u);
  EXPECT_EQ(theirs.endpoint_of(SLICE_CLASS_SMALL_FILE, 3), tables_.endpoint_of(SLICE_CLASS_SMALL_FILE, 3));
  wire::Routes other = routes_of(tables_);
  other.volume += 1;
  EXPECT_FALSE(follow(other, theirs)) << "another volume's";
  EXPECT_EQ(theirs.config->volume, tables_.config->volume);
}

TEST_F(TablesTest, NoSecretIsAmongTheRoutes) {
  config_.volume.hash = VolumeConfig::NameHash::kSipHash13;
  fill_config(*RoutingTables::make(config_, wire_).value(), *tables_.config);
  std::memset(tables_.config->name_key, 0x5a, sizeof tables_.config->name_key);
  rpc::XdrWriter out;
  encode(out, routes_of(tables_));
  EXPECT_EQ(as_text(out.view()).find("ZZZZ"), std::string_view::npos);
}

}  // namespace
}  // namespace slice::proxy
