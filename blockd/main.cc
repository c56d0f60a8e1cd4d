// slice-blockd: serves raw volumes to block clients (docs/raw-volumes.md).
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "block/raw_volumes.h"
#include "blockd/daemon.h"
#include "cli/command_line.h"
#include "common/log.h"
#include "service/membership.h"

namespace slice::block {
namespace {

constexpr int kBadUsage = 2;

struct Words {
  std::string config = "/etc/slice/ensemble.toml";
  std::vector<std::string> link_udp, aoe_disks, aoe_clients;
};

Status take_aoe(const Words& words, AoeOptions& out) {
  for (const std::string& text : words.aoe_disks) {
    auto disk = parse_aoe_disk(text);
    if (!disk) return fail(std::move(disk.error()));
    const auto same = [&](const aoe::Disk& other) { return other.place == disk->place; };
    if (std::ranges::any_of(out.disks, same))
      return fail(Errc::kInvalid, "--aoe: two volumes at {}", aoe::to_string(disk->place));
    out.disks.push_back(std::move(*disk));
  }
  for (const std::string& text : words.aoe_clients) {
    auto client = link::parse_hardware_address(text);
    if (!client) return fail(std::move(client.error()));
    out.clients.push_back(*client);
  }
  if (out.used() && (out.interfaces.empty() || out.disks.empty() || out.clients.empty()))
    return fail(Errc::kInvalid, "AoE needs all of --aoe-interface, --aoe and --aoe-client");
  return {};
}

Status take_words(const Words& words, const FrontWords& front, DaemonOptions& out) {
  auto taken = front.take();
  if (!taken) return fail(std::move(taken.error()));
  out.front = std::move(*taken);
  for (const std::string& text : words.link_udp) {
    auto at = parse_place(text, link::kLinkPort);
    if (!at) return fail(std::move(at.error()));
    out.link.udp.push_back(*at);
  }
  for (const std::string& name : out.front.volumes) SLICE_RETURN_IF_ERROR(check_volume_name(name));
  SLICE_RETURN_IF_ERROR(take_aoe(words, out.aoe));
  if (out.front.listen.empty() && out.front.paths.empty() && !out.link.used() && !out.aoe.used())
    return fail(Errc::kInvalid,
                "nothing to serve at: --listen ADDRESS, --unix PATH, --link-udp, --link-interface or "
                "--aoe-interface");
  if (out.link.used() && out.link.keys.empty())
    return fail(Errc::kInvalid, "the link needs --link-key FILE, which its clients have, too");
  if (out.only_tls && !out.tls.used()) return fail(Errc::kInvalid, "--only-tls needs --tls-certificate");
  return {};
}

int main(int argc, char** argv) {
  Words words;
  DaemonOptions options;
  cli::Program app("slice-blockd: serves the raw volumes of a Slice ensemble to block clients, by NBD");
  app.add_option("--config", words.config, "the ensemble's configuration (docs/configuration.md)")
      .capture_default();
  app.add_option("--name", options.name, "as which it is known by the ensemble's TLS, and in logs")
      .capture_default();
  const FrontWords front(app, "a server");
  app.add_option("--tls-certificate", options.tls.certificate, "that clients get who ask for TLS");
  app.add_option("--tls-key", options.tls.key, "its key");
  app.add_option("--tls-authority", options.tls.authority,
                 "who signed clients' certificates: they must show one, and come by TLS alone");
  app.add_flag("--only-tls", options.only_tls, "over TCP, clients without TLS are refused");
  app.add_option("--link-udp", words.link_udp,
                 "ADDRESS[:PORT] where the link is served over UDP; port 10810 where none is said");
  app.add_option("--link-interface", options.link.interfaces,
                 "where the link is served by Ethernet frames; needs CAP_NET_RAW");
  app.add_option("--link-key", options.link.keys,
                 "file of a key that clients of the link have; several, while it is exchanged");
  app.add_option("--aoe", words.aoe_disks,
                 "SHELF.SLOT=VOLUME, e.g. 7.1=vm1: serves it so by ATA over Ethernet");
  app.add_option("--aoe-interface", options.aoe.interfaces,
                 "where that is served; needs CAP_NET_RAW, and a network of trusted hosts alone");
  app.add_option("--aoe-client", words.aoe_clients, "Ethernet address of a client, which alone are served");
  app.footer(
      "SIGHUP: reads keys and certificates again, and lets volumes be opened that were opened elsewhere.\n"
      "Exit codes: 0 ended by SIGTERM or SIGINT; 1 failed; 2 wrong usage or configuration.");
  if (const auto code = app.parse(argc, argv)) return *code;
  configure_log(options.name, LogLevel::kInfo);
  auto notify = service::Notify::from_environment();
  Status taken = take_words(words, front, options);
  auto config = load_ensemble(words.config);
  if (taken && config)
    config = service::learn_members(std::move(*config), config->network.tls.of(options.name));
  if (config) options.front.spin = std::chrono::microseconds(config->spin_us);
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
