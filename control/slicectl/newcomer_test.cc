#include "control/slicectl/newcomer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/version.h"
#include "rpc/endpoint.h"
#include "service/testing/sample_config.h"

namespace slice::slicectl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kDelta = 0x0a4d000e, kBeta = 0x0a4d000c;

class NewcomerTest : public ::testing::Test {
 protected:
  NewcomerTest() {
    for (const ServerConfig& server : config_.servers)
      add(server.name, static_cast<wire::Role>(server.role), server.address, server.port);
  }
  void add(const std::string& name, wire::Role role, IpAddress address, std::uint16_t port,
           const std::string& host = "") {
    members_.push_back({.role = role, .endpoint = {address, port}, .name = name, .host = host});
  }
  Result<Host> plan(NewcomerOptions options = {}) {
    if (options.host.empty()) options.host = "delta";
    if (options.address == 0) options.address = kDelta;
    return plan_newcomer(options, config_, members_);
  }
  std::vector<std::string> names(const NewcomerOptions& options = {}) {
    auto host = plan(options);
    EXPECT_TRUE(host) << host.error().message;
    std::vector<std::string> names;
    for (const HostServer& server : host->servers)
      names.push_back(fmt::format("{}:{}", server.name, server.port));
    return names;
  }
  std::string refusal(const NewcomerOptions& options) {
    auto host = plan(options);
    return host ? "" : host.error().message;
  }

  EnsembleConfig config_ = service::testing::sample_config();  // dir1, dir2, small1, store1, store2, ...
  std::vector<wire::ServerEntry> members_;
};

TEST_F(NewcomerTest, GetsNamesThatNobodyHasOrHad) {
  EXPECT_THAT(names(), ElementsAre("store3:2054"));
  add("store3", wire::Role::kRemoved, 0, 0);
  EXPECT_THAT(names(), ElementsAre("store4:2054"));
  EXPECT_THAT(names({.roles = {"storage", "small-file"}, .storage = {"/srv/a", "/srv/b"}}),
              ElementsAre("store4:2054", "store5:2055", "small2:2052"));
}

TEST_F(NewcomerTest, BeginsAgainWhereItWasBrokenOff) {
  add("store3", wire::Role::kStorage, kDelta, 2054, "delta");
  EXPECT_THAT(names(), ElementsAre("store3:2054"));
  EXPECT_THAT(names({.storage = {"/srv/a", "/srv/b"}}), ElementsAre("store3:2054", "store4:2055"));
}

TEST_F(NewcomerTest, ListsWhatHasDataElsewhere) {
  EXPECT_EQ(servers_to_list(*plan(), config_).servers.size(), 0u);
  const Host host = servers_to_list(*plan({.storage = {"/srv/a"}}), config_);
  ASSERT_EQ(host.servers.size(), 1u);
  EXPECT_EQ(host.servers[0].data, "/srv/a/store3");
  // The file has a server at that endpoint, which was removed since.
  config_.servers.push_back({.name = "old", .role = ServerRole::kStorage, .address = kDelta, .port = 2054});
  EXPECT_THAT(names(), ElementsAre("store3:2054"));
  EXPECT_THAT(names({.storage = {"/srv/a"}}), ElementsAre("store3:2055"));
}

TEST_F(NewcomerTest, ReadsTheFilesThatTheConfigurationNames) {
  config_.key_file = "/etc/slice/ensemble.key";
  EXPECT_THAT(files_of_servers(*plan(), config_), ElementsAre("/etc/slice/ensemble.key"));
  config_.network.session_key_files = {"/s/a", "/s/b"};
  config_.network.tls = {
      .certificate = "/t/{name}.crt", .key = "/t/{name}.key", .authority = "/t/ca", .revoked = ""};
  const Host host = *plan({.roles = {"storage", "small-file"}});
  EXPECT_THAT(files_of_servers(host, config_),
              ElementsAre("/etc/slice/ensemble.key", "/s/a", "/s/b", "/t/store3.crt", "/t/store3.key",
                          "/t/ca", "/t/small2.crt", "/t/small2.key"));
}

TEST_F(NewcomerTest, CommandsGiveSecretsToTheServersUser) {
  const std::string commands = start_commands(*plan(), {"/etc/slice/ensemble.key", "/srv/it's here"});
  EXPECT_THAT(commands,
              HasSubstr("chown slice: /etc/slice/ensemble.key\nchown slice: '/srv/it'\\''s here'\n"));
  EXPECT_THAT(start_commands(*plan(), {}), ::testing::Not(HasSubstr("chown")));
}

TEST_F(NewcomerTest, RefusesWhatCannotBe) {
  add("store9", wire::Role::kStorage, kBeta, 2054, "beta");
  EXPECT_THAT(refusal({.host = "beta"}), HasSubstr("'beta' is the host of store9 at 10.77.0.12"));
  EXPECT_EQ(refusal({.host = "beta", .address = kBeta}), "");
  EXPECT_THAT(refusal({.host = "a b"}), HasSubstr("--host"));
  EXPECT_THAT(refusal({.rack = "a b"}), HasSubstr("--rack"));
  EXPECT_THAT(refusal({.roles = {"manager"}}), HasSubstr("'manager' is none of"));
  EXPECT_THAT(refusal({.storage = {"here"}}), HasSubstr("--storage"));
  EXPECT_THAT(refusal({.address = config_.proxy.virtual_address}), HasSubstr("virtual address"));
}

TEST(CheckNewcomer, WantsTheVersionAndTheTimeOfTheManager) {
  wire::ConfigurationResult manager{.version = kVersion, .now_ns = 100'000'000'000};
  auto why = [&](std::int64_t asked, std::int64_t answered) {
    Status good = check_newcomer(manager, {asked * 1'000'000'000}, {answered * 1'000'000'000});
    return good ? std::string() : good.error().message;
  };
  EXPECT_EQ(why(99, 101), "");
  EXPECT_EQ(why(101, 101), "");
  EXPECT_EQ(why(90, 120), "") << "the answer came late";
  EXPECT_THAT(why(103, 104), HasSubstr("3 s ahead of the manager's"));
  EXPECT_THAT(why(90, 95), HasSubstr("5 s behind the manager's"));
  manager.version = "slice 0.0";
  EXPECT_THAT(why(100, 100), HasSubstr("the manager is of slice 0.0"));
  manager.refused = "ensemble.toml:3: no";
  EXPECT_THAT(why(100, 100), HasSubstr("ensemble.toml:3: no"));
}

}  // namespace
}  // namespace slice::slicectl
