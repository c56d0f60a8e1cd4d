#include "proxy/tables/server_latencies.h"

#include <gtest/gtest.h>

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

TEST(ServerLatencies, AreByTheServersOfTheTables) {
  Metrics metrics;
  ServerLatencies latencies(metrics);
  const rpc::Endpoint store{0x0a4d0602, 2049}, gone{0x0a4d0702, 2049};
  wire::Tables tables;
  tables.servers.push_back({.server = 0, .role = wire::Role::kStorage, .endpoint = store, .name = "store1"});
  tables.servers.push_back({.server = 1, .role = wire::Role::kRemoved, .endpoint = gone, .name = "store2"});
  latencies.learn(tables);
  latencies.of(store).observe(3ms);
  latencies.of(gone).observe(1ms);
  latencies.of({1, 2}).observe(1ms);
  EXPECT_EQ(metrics.histogram("proxy_server_latency_seconds{backend=\"store1\"}").sum(), 3ms);
  EXPECT_EQ(metrics.histogram("proxy_server_latency_seconds{backend=\"other\"}").count(), 2u);
  tables.servers[1] = {.server = 2, .role = wire::Role::kStorage, .endpoint = gone, .name = "store3"};
  latencies.learn(tables);
  latencies.of(gone).observe(1ms);
  EXPECT_EQ(metrics.histogram("proxy_server_latency_seconds{backend=\"store3\"}").count(), 1u);
}

}  // namespace
}  // namespace slice::proxy
