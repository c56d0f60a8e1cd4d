#include "routing/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "routing/file_handle.h"

namespace slice::routing {
namespace {

using ::testing::HasSubstr;

EnsembleConfig sample_config() {
  EnsembleConfig config;
  config.volume.threshold = 64 << 10;
  config.volume.mkdir_probability = 0.25;
  config.name_key = {1, 2, 3};
  auto add = [&](std::string name, ServerRole role) {
    ServerConfig server;
    server.index = static_cast<std::uint32_t>(config.servers.size());
    server.name = std::move(name);
    server.role = role;
    server.address = 0x0a4d0202 + (server.index << 8);
    config.servers.push_back(server);
  };
  add("proxy1", ServerRole::kProxy);
  add("manager1", ServerRole::kManager);
  add("dir1", ServerRole::kDirectory);
  add("small1", ServerRole::kSmallFile);
  add("store1", ServerRole::kStorage);
  add("store2", ServerRole::kStorage);
  add("store3", ServerRole::kStorage);
  add("coord1", ServerRole::kCoordinator);
  return config;
}

std::shared_ptr<const RoutingTables> sample_tables(const EnsembleConfig& config) {
  return RoutingTables::make(config, RoutingTables::initial(config)).value();
}

TEST(RoutingTables, DealsSitesOverTheServersOfTheirRole) {
  auto config = sample_config();
  auto tables = sample_tables(config);
  EXPECT_EQ(tables->generation(), Generation{0});
  std::map<std::string, int> sites;
  for (std::uint32_t site = 0; site < 1024; ++site) {
    ++sites[tables->server_of(wire::Role::kStorage, SiteId{site}).name];
  }
  EXPECT_EQ(sites, (std::map<std::string, int>{{"store1", 342}, {"store2", 341}, {"store3", 341}}));
  EXPECT_EQ(tables->servers(wire::Role::kStorage).size(), 3u);
  EXPECT_EQ(tables->servers(wire::Role::kProxy).size(), 1u);
  EXPECT_TRUE(tables->owns(5, wire::Role::kStorage, SiteId{1}));
  EXPECT_FALSE(tables->owns(4, wire::Role::kStorage, SiteId{1}));
  EXPECT_FALSE(tables->owns(5, wire::Role::kStorage, SiteId{1024 + 1}));
  EXPECT_EQ(tables->server(7)->name, "coord1");
  EXPECT_EQ(tables->server(8), nullptr);
}

TEST(RoutingTables, RolesAreNumberedAndNamedAlikeInConfigurationsAndMessages) {
  for (std::uint32_t role = 0; role < kServerRoles; ++role) {
    EXPECT_EQ(role_name(static_cast<ServerRole>(role)), wire::role_name(static_cast<wire::Role>(role)));
  }
  EXPECT_EQ(static_cast<std::uint32_t>(wire::Role::kProxy) + 1, kServerRoles);
}

TEST(RoutingTables, RefusesTablesThatDoNotFit) {
  auto config = sample_config();
  auto good = RoutingTables::initial(config);
  auto refused = [&](const wire::Tables& tables, std::string_view reason) {
    auto made = RoutingTables::make(config, tables);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::kInvalid);
    EXPECT_THAT(made.error().message, HasSubstr(std::string(reason)));
  };
  auto tables = good;
  tables.sites[2][7] = 99;
  refused(tables, "storage site 7 is bound to 99");
  tables.sites[2][7] = 2;
  refused(tables, "storage site 7 is bound to 2, no storage server");
  tables = good;
  for (auto i = static_cast<std::uint32_t>(good.servers.size()); i <= kMaxServers; ++i) {
    tables.servers.push_back({i, wire::Role::kStorage, {i, 1}, "more"});
  }
  refused(tables, "1024 servers, of 1023 at most");
  tables = good;
  tables.sites[0].pop_back();
  refused(tables, "63 directory sites");
  tables.sites[0].clear();
  refused(tables, "0 directory sites");
  tables = good;
  tables.servers[3].server = 4;
  refused(tables, "server 4 stands at position 3");
  tables = good;
  std::swap(tables.servers[4].name, tables.servers[5].name);
  refused(tables, "server 4 is 'store2', in this process's configuration 'store1'");
  // A server that was added at the end, of which this process does not know yet.
  tables = good;
  tables.servers.push_back({.server = 8, .role = wire::Role::kStorage, .name = "store4"});
  tables.sites[2][5] = 8;
  EXPECT_TRUE(RoutingTables::make(config, tables));
}

// splitmix64's finaliser, written anew from its publication, so that the sites' formulas are pinned down.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

TEST(RoutingTables, PlacesFilesAsDocumented) {
  auto config = sample_config();
  auto tables = sample_tables(config);
  for (std::uint64_t id : {1ull, 77ull, 0x0005000000000123ull}) {
    EXPECT_EQ(tables->small_file_site(FileId{id}).value, ((id * 0x61c88647) & 0xffffffff) >> 16 & 63);
    EXPECT_EQ(tables->coordinator_site(FileId{id}).value, mix(id ^ 0x636f6f7264) & 63);
    for (std::uint64_t offset : {0ull, 65535ull, 65536ull, 1ull << 40, ~0ull}) {
      EXPECT_EQ(tables->storage_site(FileId{id}, offset, 16).value, mix(id + mix((offset >> 16) + 1)) & 1023);
    }
  }
}

TEST(RoutingTables, SpreadsTheStripesOfOneFileEvenly) {
  auto tables = sample_tables(sample_config());
  std::map<std::string, int> stripes;
  for (std::uint64_t stripe = 1; stripe <= 3000; ++stripe) {
    ++stripes[tables->server_of(wire::Role::kStorage, tables->storage_site(FileId{42}, stripe << 16, 16))
                  .name];
  }
  for (const auto& [name, count] : stripes) EXPECT_NEAR(count, 1000, 150) << name;
}

TEST(RoutingTables, HashesNamesByTheVolumesHash) {
  auto config = sample_config();
  // MD5("\0\0\0\0\0\0\0\1" "etc"), by md5sum: b0e78b44060d863c2f0d44967b835523
  std::uint64_t md5 = sample_tables(config)->name_hash(FileId{1}, "etc");
  config.volume.hash = VolumeConfig::NameHash::kSipHash13;
  std::uint64_t keyed = sample_tables(config)->name_hash(FileId{1}, "etc");
  EXPECT_NE(md5, keyed);
  EXPECT_NE(md5, sample_tables(config)->name_hash(FileId{2}, "etc"));
  config.name_key = {9};
  EXPECT_NE(keyed, sample_tables(config)->name_hash(FileId{1}, "etc"));
  EXPECT_EQ(md5, 0xb0e78b44060d863cu);
  // Over-long names do not run off the end.
  EXPECT_EQ(sample_tables(config)->name_hash(FileId{1}, std::string(300, 'x')),
            sample_tables(config)->name_hash(FileId{1}, std::string(255, 'x')));
}

TEST(RoutingTables, WithoutAProbabilityAMkdirGoesToItsDirectory) {
  auto config = sample_config();
  config.volume.mkdir_probability.reset();
  EXPECT_EQ(sample_tables(config)->name_site(nfs3::Procedure::kMkdir, SiteId{6}, 0), SiteId{6});
}

TEST(RoutingTables, RedirectsTheShareOfMkdirsThatTheVolumeWants) {
  auto config = sample_config();
  auto tables = sample_tables(config);
  const auto redirected = [&](std::uint64_t hash) {
    return tables->name_site(nfs3::Procedure::kMkdir, SiteId{6}, hash) != SiteId{6};
  };
  int some = 0;
  for (int i = 0; i < 4000; ++i) {
    std::uint64_t hash = tables->name_hash(FileId{1}, fmt::format("d{}", i));
    some += redirected(hash) ? 1 : 0;
    EXPECT_EQ(tables->name_site(nfs3::Procedure::kCreate, SiteId{6}, hash), SiteId{6});
  }
  const double elsewhere = 1 - 1.0 / config.site_counts[0];  // of those that are dealt over all sites
  EXPECT_NEAR(some, 1000 * elsewhere, 120);
  config.volume.mkdir_probability = 1;
  tables = sample_tables(config);
  EXPECT_TRUE(redirected(~0ull));
  config.volume.mkdir_probability = 0;
  tables = sample_tables(config);
  EXPECT_FALSE(redirected(0));
}

class RouteTest : public ::testing::Test {
 protected:
  RouteTest() : config_(sample_config()), tables_(sample_tables(config_)), codec_(config_) {
    FileHandle file;
    file.fileid = FileId{0x55};
    file.directory_site = SiteId{6};
    file_ = codec_.mint(file);
  }
  template <class Args>
  std::optional<Route> route(nfs3::Procedure procedure, const Args& args,
                             std::optional<std::uint64_t> size = std::nullopt) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    return tables_->place_of(procedure, out.view(), size);
  }

  EnsembleConfig config_;
  std::shared_ptr<const RoutingTables> tables_;
  HandleCodec codec_;
  HandleBytes file_;
};

TEST_F(RouteTest, SendsBytesByOffsetAndTheRestByTheHandle) {
  using nfs3::Procedure;
  auto below = route(Procedure::kRead, nfs3::ReadArgs{.file = file_, .offset = 65535, .count = 10});
  ASSERT_TRUE(below);
  EXPECT_EQ(below->site_class, wire::Role::kSmallFile);
  EXPECT_EQ(below->site, tables_->small_file_site(FileId{0x55}));
  auto above = route(Procedure::kRead, nfs3::ReadArgs{.file = file_, .offset = 65536, .count = 10});
  EXPECT_EQ(above->site_class, wire::Role::kStorage);
  EXPECT_EQ(above->site, tables_->storage_site(FileId{0x55}, 65536, 16));
  auto lookup = route(Procedure::kLookup, nfs3::DirOpArgs{.directory = file_, .name = "x"});
  EXPECT_EQ(lookup->site_class, wire::Role::kDirectory);
  EXPECT_EQ(lookup->site, SiteId{6});
  EXPECT_EQ(route(Procedure::kCommit, nfs3::CommitArgs{.file = file_})->site_class, wire::Role::kCoordinator);
  EXPECT_EQ(route(Procedure::kCommit, nfs3::CommitArgs{.file = file_}, 100)->site_class,
            wire::Role::kSmallFile);
  EXPECT_EQ(route(Procedure::kGetattr, nfs3::HandleView(file_))->site, SiteId{6});
}

// The proxy and every server must agree, or such a call would be sent on and on.
TEST_F(RouteTest, SendsNamesWithoutAHashToTheFirstHandlesServer) {
  using nfs3::Procedure;
  config_.volume.policy = VolumeConfig::NamePolicy::kNameHashing;
  tables_ = sample_tables(config_);
  FileHandle elsewhere;
  elsewhere.fileid = FileId{0x56};
  elsewhere.directory_site = SiteId{3};
  const HandleBytes other = codec_.mint(elsewhere);
  for (const std::string& bad : {std::string(), std::string(256, 'n')}) {
    for (const auto& place :
         {route(Procedure::kLookup, nfs3::DirOpArgs{.directory = file_, .name = bad}),
          route(Procedure::kRemove, nfs3::DirOpArgs{.directory = file_, .name = bad}),
          route(Procedure::kRename, nfs3::RenameArgs{.from = {file_, bad}, .to = {other, "good"}}),
          route(Procedure::kRename, nfs3::RenameArgs{.from = {file_, "good"}, .to = {other, bad}}),
          route(Procedure::kLink, nfs3::LinkArgs{.file = file_, .link = {other, bad}})}) {
      ASSERT_TRUE(place);
      EXPECT_EQ(place->site_class, wire::Role::kDirectory);
      EXPECT_EQ(place->site, SiteId{6});
    }
  }
}

TEST_F(RouteTest, KnowsNoRouteForArgumentsItCannotRead) {
  using nfs3::Procedure;
  EXPECT_FALSE(tables_->place_of(Procedure::kNull, {}));
  EXPECT_FALSE(tables_->place_of(Procedure::kGetattr, {}));
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, nfs3::ReadArgs{.file = file_, .offset = 0, .count = 10});
  for (std::size_t length = 0; length < out.size(); ++length) {
    EXPECT_FALSE(tables_->place_of(Procedure::kRead, out.view().first(length)));
  }
}

}  // namespace
}  // namespace slice::routing
