#include "proxy/programs/routes_program.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace slice::proxy {
namespace {

TEST(RoutesProgramTest, RoutesAreToldToClientsOfAnExportAlone) {
  EnsembleConfig config;
  for (std::uint32_t i = 0; i < 4; ++i) {
    ServerConfig server;
    server.name = "s" + std::to_string(i);
    server.role = static_cast<ServerRole>(i);
    server.index = i;
    server.address = 0x0a4d0302 + (i << 8);
    config.servers.push_back(server);
  }
  const wire::Tables made = routing::RoutingTables::initial(config);
  const MemoryTables memory;
  const Tables& tables = memory.tables();
  bind_sites(made, tables);
  fill_config(*routing::RoutingTables::make(config, made).value(), *tables.config);
  slice_store_relaxed32(&tables.config->generation, 4);
  config.exports.push_back({.clients = Network::of_v4(0x0a4d0100, 0xffffff00)});
  Metrics metrics;
  const LiveSettings settings(settings_of(config));
  RoutesProgram program(settings, tables, metrics);
  const auto ask = [&](IpAddress address, std::uint64_t known, rpc::XdrWriter& results) {
    rpc::XdrWriter arguments;
    encode(arguments, wire::RoutesArgs{Generation{known}});
    const rpc::Call call{.procedure = 1, .client = {address, 700}, .arguments = arguments.view()};
    std::optional<rpc::Outcome> outcome;
    spawn([](RoutesProgram& of, const rpc::Call& asked, rpc::XdrWriter& out,
             std::optional<rpc::Outcome>& into) -> Task<void> {
      into = co_await of.handle(asked, out);
    }(program, call, results, outcome));
    return *outcome;
  };
  rpc::XdrWriter refused, told, same;
  EXPECT_EQ(ask(0x0a4d0202, 0, refused), rpc::Outcome::kDenied);
  EXPECT_EQ(refused.size(), 0u);
  EXPECT_EQ(ask(0x0a4d0102, 3, told), rpc::Outcome::kReply);
  EXPECT_EQ(ask(0x0a4d0102, 4, same), rpc::Outcome::kReply);
  wire::Routes routes;
  ASSERT_TRUE(decode(told.view(), routes));
  EXPECT_TRUE(routes.changed);
  EXPECT_EQ(routes.servers.size(), 4u);
  ASSERT_TRUE(decode(same.view(), routes));
  EXPECT_FALSE(routes.changed);
}

}  // namespace
}  // namespace slice::proxy
