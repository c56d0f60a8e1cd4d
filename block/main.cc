// slice-blockd: serves raw volumes to block clients (docs/raw-volumes.md).
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "block/daemon.h"
#include "block/raw_volumes.h"
#include "common/log.h"
#include "common/version.h"
#include "service/membership.h"

namespace slice::block {
namespace {

constexpr int kBadUsage = 2;

struct Words {
  std::string config = "/etc/slice/ensemble.toml", metrics;
  std::vector<std::string> listen, allow;
  double patience = 0;
};

Result<rpc::Endpoint> parse_listen(const std::string& text, std::uint16_t usual_port) {
  auto named = rpc::parse_host_and_port(text);
  if (!named) return fail(std::move(named.error()));
  auto address = parse_address(named->host);
  if (!address) return fail(std::move(address.error()));
  return rpc::Endpoint{*address, named->port.value_or(usual_port)};
}

Status take_words(const Words& words, DaemonOptions& out) {
  for (const std::string& text : words.listen) {
    auto at = parse_listen(text, kNbdPort);
    if (!at) return fail(std::move(at.error()));
    out.listen.push_back(*at);
  }
  for (const std::string& text : words.allow) {
    auto network = parse_network(text);
    if (!network) return fail(std::move(network.error()));
    out.allow.push_back(*network);
  }
  if (!words.metrics.empty()) {
    auto at = rpc::parse_endpoint(words.metrics);
    if (!at) return fail(std::move(at.error()));
    out.metrics = *at;
  }
  for (const std::string& name : out.volumes) SLICE_RETURN_IF_ERROR(check_volume_name(name));
  if (out.listen.empty() && out.paths.empty())
    return fail(Errc::kInvalid, "nothing to serve at: --listen ADDRESS, or --unix PATH");
  if (out.only_tls && !out.tls.used()) return fail(Errc::kInvalid, "--only-tls needs --tls-certificate");
  out.patience = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(words.patience));
  return {};
}

int main(int argc, char** argv) {
  Words words;
  DaemonOptions options;
  CLI::App app("slice-blockd: serves the raw volumes of a Slice ensemble to block clients, by NBD");
  app.set_version_flag("--version", kVersion);
  app.add_option("--config", words.config, "the ensemble's configuration (docs/configuration.md)")
      ->capture_default_str();
  app.add_option("--name", options.name, "as which it is known by the ensemble's TLS, and in logs")
      ->capture_default_str();
  app.add_option("--listen", words.listen, "ADDRESS[:PORT] for TCP; port 10809 where none is said");
  app.add_option("--unix", options.paths, "path of a unix socket, which its owner and group may use");
  app.add_option("--allow", words.allow,
                 "networks whose clients come in over TCP, e.g. 10.0.0.0/8; none: this host's, by loopback");
  app.add_option("--volume", options.volumes, "that is served, by its name; none: all that there are");
  app.add_option("--patience", words.patience,
                 "seconds that a server is waited for before an operation fails; 0: for ever")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--metrics", words.metrics, "ADDRESS:PORT of a page for Prometheus (docs/metrics.md)");
  app.add_option("--tls-certificate", options.tls.certificate, "that clients get who ask for TLS");
  app.add_option("--tls-key", options.tls.key, "its key");
  app.add_option("--tls-authority", options.tls.authority,
                 "who signed clients' certificates: they must show one, and come by TLS alone");
  app.add_flag("--only-tls", options.only_tls, "over TCP, clients without TLS are refused");
  app.footer(
      "SIGHUP: reads keys and certificates again, and lets volumes be opened that were opened elsewhere.\n"
      "Exit codes: 0 ended by SIGTERM or SIGINT; 1 failed; 2 wrong usage or configuration.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  configure_log(options.name, LogLevel::kInfo);
  auto notify = service::Notify::from_environment();
  Status taken = take_words(words, options);
  auto config = load_ensemble(words.config);
  if (taken && config)
    config = service::learn_members(std::move(*config), config->network.tls.of(options.name));
  if (!taken || !config) {
    log_error("{}", taken ? config.error().message : taken.error().message);
    return kBadUsage;
  }
  const int code = serve(*config, options, notify);
  std::_Exit(code);
}

}  // namespace
}  // namespace slice::block

int main(int argc, char** argv) {
  return slice::block::main(argc, argv);
}
