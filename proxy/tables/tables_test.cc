#include "proxy/tables/tables.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

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

TEST_F(TablesTest, AServerMayBeAtAnAddressOfIpv6) {
  bind_sites(wire_, tables_);
  tables_.servers[2].ifindex = 7;
  const rpc::Endpoint six{IpAddress::of_words(0xfd77ull << 48, 2), 2049}, four = wire_.servers[1].endpoint;
  const auto move_to = [this](rpc::Endpoint endpoint) {
    wire_.servers[1].endpoint = endpoint;
    return bind_sites(wire_, tables_);
  };
  EXPECT_EQ(move_to(six), 1u);
  EXPECT_EQ(tables_.endpoint_at(2), six);
  EXPECT_EQ(tables_.servers[2].port, 0u) << "the XDP program has no way to it by IPv4";
  EXPECT_EQ(tables_.servers[2].ifindex, 0u);
  tables_.servers6[2].server.ifindex = 8;
  EXPECT_EQ(move_to(six), 0u);
  EXPECT_EQ(tables_.servers6[2].server.ifindex, 8u) << "the way stays";
  EXPECT_EQ(move_to({IpAddress::of_words(0xfd77ull << 48, 3), 2049}), 1u);
  EXPECT_EQ(tables_.servers6[2].server.ifindex, 0u);
  EXPECT_EQ(move_to(four), 1u);
  EXPECT_EQ(tables_.endpoint_at(2), four);
  EXPECT_EQ(tables_.servers6[2].server.port, 0u);
  EXPECT_EQ(move_to({}), 1u);
  EXPECT_EQ(tables_.endpoint_at(2), std::nullopt);
}

TEST_F(TablesTest, AnAddressOfIpv6IsReadWholeOrNotAtAll) {
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> torn = 0, seen = 0;
  std::thread reader([&] {
    while (!stop) {
      const auto endpoint = tables_.endpoint_at(5);
      if (!endpoint) continue;
      ++seen;
      if (endpoint->address.high() != endpoint->address.low() + 1) ++torn;
    }
  });
  for (std::uint64_t i = 1; i < 200'000 || seen == 0; ++i) {  // on a busy machine the reader may begin late
    const std::uint64_t low = i << 44 >> 4;
    tables_.set_endpoint(5, {IpAddress::of_words(low + 1, low), 2049});
  }
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GT(seen, 0u);
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

TEST_F(TablesTest, ThatMirroredFilesMayLieElsewhereIsNotedWhenTablesChange) {
  fill_config(*RoutingTables::make(config_, wire_).value(), *tables_.config);
  tables_.config->flags |= SLICE_CONFIG_CARDS;
  wire::keep_layout_sites(wire_);
  wire_.sites[SLICE_CLASS_STORAGE][0] = wire_.sites[SLICE_CLASS_STORAGE][1];
  note_maps(*RoutingTables::make(config_, wire_).value(), *tables_.config);
  EXPECT_EQ(tables_.config->flags, SLICE_CONFIG_PATCH | SLICE_CONFIG_CARDS | SLICE_CONFIG_MAPS);
  wire_.layout_sites.clear();
  note_maps(*RoutingTables::make(config_, wire_).value(), *tables_.config);
  EXPECT_EQ(tables_.config->flags, SLICE_CONFIG_PATCH | SLICE_CONFIG_CARDS);
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
