// slice-webd: a page that shows an ensemble (docs/page.md).
#include <algorithm>

#include "cli/command_line.h"
#include "common/log.h"
#include "control/webd/watch.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "service/membership.h"

namespace slice::webd {
namespace {

constexpr int kFailed = 1, kBadUsage = 2;
constexpr std::uint32_t kLoopback = 0x7f000000, kLoopbackMask = 0xff000000;

struct Arguments {
  std::string config = "/etc/slice/ensemble.toml";
  std::string address = "127.0.0.1";
  std::uint16_t port = 2080;
  std::vector<std::string> clients, names;
};

// An exit code where the process is to end already.
std::optional<int> parse_arguments(int argc, char** argv, Arguments& out) {
  cli::Program app("slice-webd: a page that shows a Slice ensemble, for browsers");
  app.add_option("--config", out.config, "the ensemble's configuration").capture_default();
  app.add_option("--address", out.address, "where it listens").capture_default();
  app.add_option("--port", out.port, "where it listens").in_range(1, 65535).capture_default();
  app.add_option("--clients", out.clients,
                 "networks or addresses of browsers that may ask; without it those of this host alone");
  app.add_option("--name", out.names,
                 "names that browsers have for this host, beside its address and localhost");
  app.footer(
      "It changes nothing, and shows no file's bytes. Exit codes: 1 failed; 2 wrong usage or configuration.");
  if (const auto code = app.parse(argc, argv)) return code;
  return std::nullopt;
}

Result<std::vector<Network>> networks_of(const std::vector<std::string>& words) {
  std::vector<Network> networks{Network::of_v4(kLoopback, kLoopbackMask),
                                Network::of_host(IpAddress::of_words(0, 1))};
  for (const std::string& word : words) {
    auto network = parse_network(word);
    if (!network) return fail(std::move(network.error()));
    networks.push_back(*network);
  }
  return networks;
}

int serve(const Arguments& arguments, const EnsembleConfig& config) {
  const auto networks = networks_of(arguments.clients);
  const auto at = parse_network(arguments.address);
  if (!networks || !at) {
    log_error("{}", (networks ? at.error() : networks.error()).message);
    return kBadUsage;
  }
  rpc::EpollLoop loop;
  rpc::KeyRing keys(config);
  if (Status begun = keys.use_tls(config.network.tls.of("slicectl")); !begun) {
    log_error("{}", begun.error().message);
    return kBadUsage;
  }
  rpc::SocketChannel channel(loop, {.keys = &keys, .sender = service::kNobody, .generation = nullptr});
  Watch watch({.loop = loop, .channel = channel, .config = config});
  Metrics metrics;
  http::Listener listener(loop, metrics,
                          {.takes =
                               [&](IpAddress address) {
                                 return std::any_of(
                                     networks->begin(), networks->end(),
                                     [address](const Network& each) { return each.has(address); });
                               },
                           .answers_to =
                               [&](std::string_view host) {
                                 const auto& names = arguments.names;
                                 return host == "localhost" || parse_network(host).has_value() ||
                                        std::find(names.begin(), names.end(), host) != names.end();
                               },
                           .page = [&](std::string_view path) { return watch.page(path); }});
  const auto listening = listener.listen({at->address, arguments.port});
  if (!listening) {
    log_error("{}", listening.error().message);
    return kFailed;
  }
  log_info("the page is at http://{}/", to_string(*listening));
  watch.start();
  loop.run();
  return 0;
}

int main(int argc, char** argv) {
  Arguments arguments;
  if (const auto code = parse_arguments(argc, argv, arguments)) return *code;
  configure_log("slice-webd", LogLevel::kInfo);
  auto config = load_ensemble(arguments.config);
  if (config) {
    const TlsConfig tls = config->network.tls.of("slicectl");
    config = service::learn_members(std::move(*config), tls);
  }
  if (!config) {
    log_error("{}", config.error().message);
    return kBadUsage;
  }
  return serve(arguments, *config);
}

}  // namespace
}  // namespace slice::webd

int main(int argc, char** argv) {
  return slice::webd::main(argc, argv);
}
