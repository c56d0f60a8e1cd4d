// NbdServerTest: an NBD server over devices in memory, and clients of it over loopback.
#ifndef SLICE_BLOCK_TESTING_NBD_SERVER_FIXTURE_H
#define SLICE_BLOCK_TESTING_NBD_SERVER_FIXTURE_H

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "block/nbd_server.h"
#include "block/testing/nbd_client.h"
#include "common/testing/temporary_folder.h"

namespace slice::block::testing {

inline constexpr std::uint32_t kLoopback = 0x7f000001;
inline constexpr std::size_t kSize = 8 << 20;

class NbdServerTest : public ::testing::Test {
 protected:
  NbdServerTest() { devices.sizes = {{"disk", kSize}, {"other", 1 << 20}}; }

  void serve(NbdServer::Options options = {}) {
    server.emplace(loop, metrics, devices, std::move(options));
    at = server->listen(rpc::Endpoint{kLoopback, 0}).value();
  }
  std::unique_ptr<NbdClient> connect(bool reads = true, int receive_buffer = 0) {
    return std::make_unique<NbdClient>(loop, at, reads, receive_buffer);
  }
  std::unique_ptr<NbdClient> open(std::string_view name = "disk", bool structured = false) {
    auto client = connect();
    client->open(name, structured);
    return client;
  }
  std::shared_ptr<MemoryDevice> device(const std::string& name = "disk") { return devices.last[name].lock(); }
  void pump(Duration time = 50ms) {
    loop.run_until([] { return false; }, time);
  }
  bool until(const std::function<bool()>& done, Duration limit = 5s) {
    const MonoTime end = loop.now() + limit;
    while (loop.now() < end) {
      if (loop.run_until(done, 1ms)) return true;
    }
    return false;
  }
  std::uint64_t metric(const std::string& name) { return metrics.counter(name).value(); }
  std::uint64_t refused(const char* why) {
    return metric(fmt::format("nbd_handshakes_refused_total{{why=\"{}\"}}", why));
  }

  const TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  rpc::EpollLoop loop;
  Metrics metrics;
  MemoryDevices devices;
  rpc::Endpoint at;
  std::optional<NbdServer> server;
};

}  // namespace slice::block::testing

#endif  // SLICE_BLOCK_TESTING_NBD_SERVER_FIXTURE_H
