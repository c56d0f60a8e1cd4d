#include "control/slicectl/doctor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "control/slicectl/render_parts.h"
#include "rpc/call.h"

namespace slice::slicectl {
namespace {

using Level = HealthLevel;

// What servers ask for (docs/operations.md, "Starting and stopping").
constexpr std::uint64_t kUdpRoom = 8 << 20;
// Kernels before know no XDP programs for packets of several buffers; those before 6.1 were not tried.
constexpr std::pair<unsigned, unsigned> kFirstXdpKernel{5, 18}, kTriedKernel{6, 1};

std::pair<unsigned, unsigned> kernel_version(const std::string& release) {
  std::pair<unsigned, unsigned> version;
  const char* end = release.data() + release.size();
  const char* dot = std::from_chars(release.data(), end, version.first).ptr;
  if (dot != end) std::from_chars(dot + 1, end, version.second);
  return version;
}

// Of the name the first 15 letters are told.
bool is_ours(const std::string& program) {
  return program.starts_with("slice-");
}

class Doctor {
 public:
  Doctor(const EnsembleConfig& config, const HostFacts& host, const Heard& heard)
      : config_(config), host_(host), heard_(heard), servers_(servers_of(config, host)) {
    has_proxy_ = std::any_of(servers_.begin(), servers_.end(), is_proxy);
  }

  std::vector<Check> examine() {
    check_configuration();
    check_key_file();
    check_key();
    check_managers();
    check_same_configuration();
    check_clock();
    check_servers();
    check_ports();
    check_folders();
    check_udp_room();
    if (has_proxy_) check_proxy_host();
    check_reachable();
    return std::move(checks_);
  }

 private:
  static bool is_proxy(const ServerConfig* server) { return server->role == ServerRole::kProxy; }
  void good(std::string name, std::string what) {
    checks_.push_back({Level::kOk, std::move(name), std::move(what), ""});
  }
  void bad(Level level, std::string name, std::string what, std::string cure) {
    checks_.push_back({level, std::move(name), std::move(what), std::move(cure)});
  }
  bool manager_knows() const { return heard_.members.has_value(); }

  void check_configuration() {
    good("configuration", fmt::format("{}: good: ensemble {}, {} servers", config_.path, config_.name,
                                      config_.servers.size()));
    for (const std::string& warning : config_.warnings)
      bad(Level::kWarning, "configuration", warning, "docs/configuration.md");
  }

  // That it can be read, and by its owner alone, was seen when the configuration was.
  void check_key_file() {
    const FileFacts& key = host_.key_file;
    const std::string what = fmt::format("{}: mode {:04o}, owner {}", config_.key_file, key.mode, key.owner);
    for (const auto& [name, folder] : host_.data) {
      if (!folder.file.there || folder.file.owner == key.owner || folder.file.owner == "root") continue;
      bad(Level::kError, "key-file",
          fmt::format("{}, and the data directory of {} is {}'s, who cannot read it", what, name,
                      folder.file.owner),
          fmt::format("chown {}: {}", folder.file.owner, config_.key_file));
      return;
    }
    good("key-file", what);
  }

  void check_key() {
    if (heard_.manager_silence && rpc::keys_differ(*heard_.manager_silence)) {
      bad(Level::kError, "key", "this host's key differs from the manager's",
          "copy the key file from the manager's host");
    } else if (manager_knows()) {
      good("key", "the same as the manager's");
    } else {
      bad(Level::kWarning, "key",
          fmt::format("not compared: the manager does not answer ({})", heard_.manager_silence->message),
          "start the manager, then ask again");
    }
  }

  // Of several: that one leads, and that what they share their state in is whole.
  void check_managers() {
    if (!config_.managers.shared()) return;
    const wire::LeaderResult* said = leadership(heard_);
    if (said == nullptr) return;  // "key" and "reachable" say why
    const std::vector<std::string> ill = ill_places(*said);
    if (said->leader.empty()) {
      bad(Level::kError, "managers",
          fmt::format("none of {} leads{}{}", config_.count(ServerRole::kManager),
                      said->trouble.empty() ? "" : ": ", said->trouble),
          "docs/operations.md, \"Several managers\"");
    } else {
      good("managers", fmt::format("{} of {} leads", said->leader, config_.count(ServerRole::kManager)));
    }
    if (ill.empty()) {
      good("etcd", fmt::format("{} members are well", said->places.size()));
    } else {
      bad(Level::kWarning, "etcd", fmt::format("{}", fmt::join(ill, "; ")),
          "docs/operations.md, \"Several managers\"");
    }
  }

  void check_same_configuration() {
    std::size_t same = 0;
    const std::vector<wire::SharedKey> here = wire::shared_keys(config_);
    for (const HeardServer& each : heard_.servers) {
      if (!each.about) continue;
      const std::vector<std::string> differing = differing_keys(here, each.about->shared);
      if (differing.empty()) {
        ++same;
        continue;
      }
      bad(Level::kError, "same-configuration",
          fmt::format("{} runs with another ensemble.toml: {}", each.entry.name, fmt::join(differing, ", ")),
          "make the files the same, and restart it");
    }
    if (same > 0) good("same-configuration", fmt::format("the same at {} processes", same));
  }

  void check_clock() {
    const HeardServer* reference = nullptr;
    for (const HeardServer& each : heard_.servers) {
      if (!each.about) continue;
      if (reference == nullptr || each.entry.role == wire::Role::kManager) reference = &each;
    }
    if (reference == nullptr) return;  // "key" and "reachable" say why
    const auto milliseconds = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
    const std::string what =
        fmt::format("{:.1f} ms {} {}'s, to within {:.1f} ms", milliseconds(std::abs(reference->ahead_ns)),
                    reference->ahead_ns > 0 ? "behind" : "ahead of", reference->entry.name,
                    milliseconds(reference->inexact.count()));
    if (clock_is_off(reference->ahead_ns, reference->inexact.count())) {
      bad(Level::kError, "clock", what,
          "have all hosts take the time of day from the same source (chrony, systemd-timesyncd)");
    } else {
      good("clock", what);
    }
  }

  void check_servers() {
    if (servers_.empty()) {
      bad(Level::kWarning, "servers", "no server of the ensemble is at an address of this host",
          "nothing, where it only looks after the ensemble; else `address` in " + config_.path);
      return;
    }
    std::vector<std::string> names;
    for (const ServerConfig* each : servers_) names.push_back(each->name);
    good("servers", fmt::format("of this host: {}", fmt::join(names, " ")));
  }

  void check_ports() {
    for (const ServerConfig* each : servers_) {
      check_port(each->name, each->address, each->port, true);
      check_port(each->name, each->address, each->port, false);
      if (config_.metrics.served) check_port(each->name, each->address, config_.metrics_port_of(*each), true);
    }
    if (!has_proxy_) return;
    const ProxyConfig& proxy = config_.proxy;
    for (const bool tcp : {true, false}) {
      for (const IpAddress each : proxy.addresses()) {
        for (const std::uint16_t port : {proxy.nfs_port, proxy.mount_port, proxy.portmap_port})
          check_port("the virtual address", each, port, tcp);
      }
    }
  }
  void check_port(const std::string& whose, IpAddress address, std::uint16_t port, bool tcp) {
    const std::string what =
        fmt::format("{} {} {}", whose, tcp ? "TCP" : "UDP", rpc::to_string({address, port}));
    std::string holder;
    bool held = false;
    for (const Listener& each : host_.listeners) {
      const bool meets =
          each.tcp == tcp && each.port == port && (each.address == 0 || each.address == address);
      if (!meets) continue;
      held = true;
      holder = each.program;
      // The proxy tells the host's rpcbind of its ports instead of having that one.
      const bool good_holder = is_ours(holder) || (port == config_.proxy.portmap_port &&
                                                   (holder == "rpcbind" || holder == "systemd"));
      if (good_holder) continue;
      bad(Level::kError, "port",
          fmt::format(
              "{} is {}", what,
              holder.empty() ? "the kernel's, or a process's that this user may not see" : holder + "'s"),
          "end it, or another port in " + config_.path);
      return;
    }
    good("port", what + (held ? fmt::format(" is {}'s", holder) : " is free"));
  }

  void check_folders() {
    for (const ServerConfig* each : servers_) {
      const auto found = host_.data.find(each->name);
      if (found != host_.data.end()) check_folder(*each, found->second);
    }
  }
  void check_folder(const ServerConfig& server, const FolderFacts& folder) {
    const std::string what = fmt::format("{} of {}", server.data, server.name);
    if (!folder.file.there) {
      good("data-directory", what + " is not there: the first start makes it");
      return;
    }
    if (!folder.is_folder) {
      bad(Level::kError, "data-directory", what + " is not a directory", "`data` in " + config_.path);
      return;
    }
    const std::string facts =
        fmt::format("{}: owner {}, mode {:04o}, {}, {} of {} free", what, folder.file.owner, folder.file.mode,
                    folder.file_system.empty() ? "a file system unknown here" : folder.file_system,
                    bytes_text(folder.free_bytes), bytes_text(folder.total_bytes));
    if ((folder.file.mode & 0200) == 0) {
      bad(Level::kError, "data-directory", facts + ": its owner may not write", "chmod u+w " + server.data);
    } else if (folder.file_system == "tmpfs" || folder.file_system == "nfs") {
      bad(Level::kWarning, "data-directory",
          fmt::format("{}: what is synced there may be gone after a power cut", facts),
          "a folder of a local disk");
    } else if (folder.free_bytes < server.reserve_bytes) {
      bad(Level::kError, "data-directory",
          fmt::format("{}: less than its reserve of {}", facts, bytes_text(server.reserve_bytes)),
          "docs/health.md, NO_SPACE");
    } else if (static_cast<double>(folder.free_bytes) <
               kNearlyFull * static_cast<double>(folder.total_bytes)) {
      bad(Level::kWarning, "data-directory", facts, "slicectl server add, and slicectl rebalance");
    } else {
      good("data-directory", facts);
    }
  }

  // With CAP_NET_ADMIN sockets go beyond these limits; servers run without it.
  void check_udp_room() {
    if (servers_.empty()) return;
    for (const char* name : {"net.core.rmem_max", "net.core.wmem_max"}) {
      const auto found = host_.settings.find(name);
      if (found == host_.settings.end()) continue;  // of the host, not to be seen in a namespace
      const std::string what = fmt::format("{} = {}", name, found->second);
      if (found->second >= kUdpRoom) {
        good("sysctl", what);
      } else {
        bad(Level::kWarning, "sysctl", what + ": servers drop UDP when much comes at once",
            fmt::format("sysctl -w {}={}", name, kUdpRoom));
      }
    }
  }

  void check_proxy_host() {
    for (const IpAddress each : config_.proxy.addresses()) check_virtual_address(each);
    if (host_.reverse_path.empty()) {
      good("sysctl", fmt::format("rp_filter and forwarding of {}", fmt::join(host_.interfaces, " ")));
    } else {
      bad(Level::kWarning, "sysctl", host_.reverse_path, "docs/operations.md, \"Networks\"");
    }
    if (config_.proxy.xdp == ProxyConfig::Xdp::kOff) return;
    check_kernel();
    check_xdp();
    check_forwarding();
  }
  // Where the proxy puts it by itself another host may have it now.
  void check_own_address(const std::string& interface, IpAddress virtual_address) {
    const auto found = host_.addresses.find(virtual_address);
    const std::string address = address_text(virtual_address);
    if (std::find(host_.interfaces.begin(), host_.interfaces.end(), interface) == host_.interfaces.end()) {
      bad(Level::kError, "virtual-address",
          fmt::format("address_interface {} is no interface of this host that is up and has an address",
                      interface),
          "address_interface in ensemble.toml, or the interface's own settings");
    } else if (found != host_.addresses.end() && found->second == "lo" && host_.arp.empty()) {
      good("virtual-address", address + " is at lo: this host serves a part of the clients");
    } else if (found != host_.addresses.end() && found->second != interface) {
      bad(Level::kError, "virtual-address",
          fmt::format("{} is at {}, and the proxy is to put it at {} by itself", address, found->second,
                      interface),
          fmt::format("ip address del {} dev {}", network_text(Network::of_host(virtual_address)),
                      found->second));
    } else {
      good("virtual-address",
           fmt::format("{} {} {}", address, found == host_.addresses.end() ? "would be put at" : "is at",
                       interface));
    }
    if (!host_.arp.empty() &&
        std::ranges::count(config_.servers, ServerRole::kProxy, &ServerConfig::role) > 1)
      bad(Level::kWarning, "sysctl", "a proxy here shares no clients with others: " + host_.arp,
          "docs/operations.md, \"A second proxy\"");
  }
  void check_virtual_address(IpAddress virtual_address) {
    const std::string address = address_text(virtual_address);
    const ServerConfig* proxy = *std::find_if(servers_.begin(), servers_.end(), is_proxy);
    if (const std::string& own = config_.address_interface_of(*proxy); !own.empty())
      return check_own_address(own, virtual_address);
    const auto found = host_.addresses.find(virtual_address);
    if (found != host_.addresses.end()) {
      good("virtual-address", fmt::format("{} is at {}", address, found->second));
    } else {
      bad(Level::kError, "virtual-address", fmt::format("{} is at no interface of this host", address),
          fmt::format("ip address add {} dev lo, or as docs/operations.md says",
                      network_text(Network::of_host(virtual_address))));
    }
  }
  void check_kernel() {
    const auto version = kernel_version(host_.kernel);
    if (version >= kTriedKernel) {
      good("kernel", host_.kernel + ": takes the XDP program");
    } else if (version >= kFirstXdpKernel) {
      bad(Level::kWarning, "kernel", host_.kernel + ": the XDP program was not tried on it",
          "Linux 6.1 or later");
    } else {
      bad(wants_xdp(), "kernel", host_.kernel + ": refuses the XDP program: user space routes all UDP",
          "Linux 6.1 or later");
    }
  }
  // Where it is not asked for by name, user space does as well.
  Level wants_xdp() const {
    return config_.proxy.xdp == ProxyConfig::Xdp::kAuto ? Level::kWarning : Level::kError;
  }
  void check_xdp() {
    if (host_.xdp_refused) {
      bad(wants_xdp(), "xdp", "this process may not load an XDP program: " + *host_.xdp_refused,
          "run doctor as root; the proxy needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
    } else {
      good("xdp", "a program for packets of several buffers was loaded, and given up again");
    }
    for (const std::string& interface : host_.interfaces) check_interface(interface);
  }
  void check_interface(const std::string& interface) {
    const auto found = host_.native_xdp.find(interface);
    if (found == host_.native_xdp.end()) {
      good("xdp",
           fmt::format("{}: the kernel does not tell whether it takes native programs (6.3 and later do)",
                       interface));
    } else if (found->second) {
      good("xdp", interface + ": its driver takes native programs");
    } else if (config_.proxy.xdp == ProxyConfig::Xdp::kNative) {
      bad(Level::kError, "xdp", interface + ": its driver takes no native programs",
          "[proxy] xdp = \"auto\", or another network card");
    } else {
      good("xdp", interface + ": its driver takes generic programs alone");
    }
  }
  void check_forwarding() {
    const auto found = host_.settings.find("net.ipv4.ip_forward");
    if (found == host_.settings.end()) return;
    if (found->second == 1) {
      good("sysctl", "net.ipv4.ip_forward = 1");
    } else {
      bad(wants_xdp(), "sysctl",
          fmt::format("net.ipv4.ip_forward = {}: the XDP program may not ask the routes", found->second),
          "sysctl -w net.ipv4.ip_forward=1");
    }
  }

  void check_reachable() {
    for (const HeardServer& each : heard_.servers) {
      const std::string what = fmt::format("{} at {}", each.entry.name, rpc::to_string(each.entry.endpoint));
      if (!each.silence) {
        good("reachable", what);
      } else if (rpc::keys_differ(*each.silence)) {
        bad(Level::kError, "reachable", what + ": its host's key is another",
            "copy the key file from the manager's host");
      } else {
        bad(Level::kError, "reachable", fmt::format("{}: {}", each.entry.name, each.silence->message),
            "slicectl status says whether it runs; else what is between the hosts has to let it through");
      }
    }
  }

  const EnsembleConfig& config_;
  const HostFacts& host_;
  const Heard& heard_;
  const std::vector<const ServerConfig*> servers_;  // of this host
  bool has_proxy_ = false;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<Check> diagnose(const EnsembleConfig& config, const HostFacts& host, const Heard& heard) {
  return Doctor(config, host, heard).examine();
}

std::vector<Check> diagnose(const Error& refusal) {
  return {{Level::kError, "configuration", refusal.message, "docs/configuration.md"}};
}

std::string render_checks(const std::vector<Check>& checks, Format format) {
  std::size_t warnings = 0, errors = 0;
  std::string text;
  Json list = Json::array();
  for (const Check& each : checks) {
    warnings += each.level == Level::kWarning ? 1 : 0;
    errors += each.level == Level::kError ? 1 : 0;
    text += fmt::format("{:<7}  {}: {}{}\n", level_name(each.level), each.name, each.what,
                        each.cure.empty() ? "" : ". Cure: " + each.cure);
    list.push_back({{"name", each.name},
                    {"level", level_name(each.level)},
                    {"what", each.what},
                    {"cure", each.cure.empty() ? Json(nullptr) : Json(each.cure)}});
  }
  if (format == Format::kJson)
    return dump({{"checks", std::move(list)}, {"warnings", warnings}, {"errors", errors}});
  return text;
}

bool all_good(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(),
                     [](const Check& each) { return each.level == Level::kOk; });
}

}  // namespace slice::slicectl
