#include "proxy/tables/tables.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace slice::proxy
