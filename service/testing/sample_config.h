// sample_config(): the configuration of a small ensemble, for tests and simulation.
#ifndef SLICE_SERVICE_TESTING_SAMPLE_CONFIG_H
#define SLICE_SERVICE_TESTING_SAMPLE_CONFIG_H

#include <string>
#include <utility>
#include <vector>

#include "common/config.h"

namespace slice::service::testing {

inline void add_server(EnsembleConfig& config, const std::string& name, ServerRole role) {
  ServerConfig server;
  server.name = name;
  server.role = role;
  server.index = static_cast<std::uint32_t>(config.servers.size());
  server.address = 0x0a4d0202 + (server.index << 8);
  server.data = "/data/" + name;
  config.servers.push_back(server);
}

// One server of each role: dir1, small1, store1, store2, coord1, manager1, proxy1; 10.77.N.2:2049 with N
// from 2.
inline EnsembleConfig sample_config() {
  EnsembleConfig config;
  config.name = "test";
  config.ensemble_key = {1, 2, 3, 4};
  config.handle_key = {5, 6, 7, 8};
  config.name_key = {9, 10};
  config.volume.stripe_shift = 16;  // some hundred KiB have several stripes
  config.volume.mkdir_probability = 1;
  config.proxy.virtual_address = 0x0a4d0001;
  config.exports.push_back(
      {.clients = Network::of_v4(0x0a4d0000, 0xffff0000), .squash = ExportConfig::Squash::kNone});
  const std::vector<std::pair<std::string, ServerRole>> servers = {
      {"dir1", ServerRole::kDirectory},     {"small1", ServerRole::kSmallFile},
      {"store1", ServerRole::kStorage},     {"store2", ServerRole::kStorage},
      {"coord1", ServerRole::kCoordinator}, {"manager1", ServerRole::kManager},
      {"proxy1", ServerRole::kProxy}};
  for (const auto& [name, role] : servers) add_server(config, name, role);
  return config;
}

// The same and dir2.
inline EnsembleConfig two_directories() {
  EnsembleConfig config = sample_config();
  add_server(config, "dir2", ServerRole::kDirectory);
  return config;
}

}  // namespace slice::service::testing

#endif  // SLICE_SERVICE_TESTING_SAMPLE_CONFIG_H
