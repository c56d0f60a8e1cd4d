#include "control/slicectl/birth.h"

#include <algorithm>

#include "rpc/endpoint.h"

namespace slice::slicectl {
namespace {

constexpr std::size_t kHostsForCopies = 3;  // from so many on each byte is on two
constexpr std::size_t kMostFolders = 64;    // each takes a port

// ADDRESS/BITS: a mask, or one host, is not what an operator means here.
Status check_clients(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || text.find('.', slash) != std::string::npos)
    return fail(Errc::kInvalid, "'{}' is no network of clients, as 192.0.2.0/24 is", text);
  const auto network = parse_network(text);
  return network ? Status() : fail(network.error());
}

// Those beside the virtual address, as networks are usually made.
std::string network_around(IpAddress address) {
  if (address.is_v4()) return network_text(Network::of_v4(address.v4(), 0xffffff00));
  constexpr std::uint8_t kUsual = 64;
  return network_text({.address = IpAddress::of_words(address.high(), 0), .bits = kUsual, .v6 = true});
}

Result<std::vector<Host>> parse_hosts(const BirthOptions& options, IpAddress virtual_address,
                                      const Resolve& resolve) {
  std::vector<Host> hosts;
  for (const std::string& text : options.hosts) {
    auto host = parse_host(text, resolve);
    if (!host) return fail(host.error(), "--hosts");
    if (host->address == virtual_address) {
      return fail(Errc::kInvalid,
                  "--virtual: {} is the address of host {}: the volume has an address of its own, which no "
                  "host has",
                  address_text(virtual_address), host->name);
    }
    for (const Host& other : hosts) {
      if (other.name == host->name) return fail(Errc::kInvalid, "--hosts: '{}' is named twice", host->name);
      if (other.address == host->address) {
        return fail(Errc::kInvalid, "--hosts: {} and {} are one host, {}", other.name, host->name,
                    address_text(host->address));
      }
    }
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) return fail(Errc::kInvalid, "--hosts: at least one is expected");
  return hosts;
}

Status check_sizes(const BirthOptions& options, std::size_t hosts) {
  if (options.copies > kMaxCopies) return fail(Errc::kInvalid, "--copies: a file has at most {}", kMaxCopies);
  if (options.copies > hosts) {
    return fail(Errc::kInvalid, "--copies: {} on {} {}: each copy is on a host of its own", options.copies,
                hosts, hosts == 1 ? "host" : "hosts");
  }
  if (options.directories == 0 || options.directories > hosts)
    return fail(Errc::kInvalid, "--directories: 1 to {}, as many as there are hosts, are expected", hosts);
  if (options.storage.size() > kMostFolders)
    return fail(Errc::kInvalid, "--storage: at most {} folders", kMostFolders);
  if (auto good = check_folders(options.storage); !good) return fail(good.error(), "--storage");
  const std::size_t servers = hosts * (3 + std::max<std::size_t>(1, options.storage.size()));
  if (servers > kMaxServers) return fail(Errc::kInvalid, "more than {} servers", kMaxServers);
  return {};
}

class Dealer {
 public:
  // The next server of this role, on that host; `folder`: where its data is.
  void add(Host& host, ServerRole role, const std::string& folder = kDataFolder, std::size_t nth = 0) {
    std::string name = fmt::format("{}{}", stem_of(role), ++count_.at(static_cast<std::size_t>(role)));
    std::string data = role == ServerRole::kProxy ? "" : fmt::format("{}/{}", folder, name);
    host.servers.push_back({std::move(name), role, port_of(role, nth), std::move(data)});
  }

 private:
  std::array<unsigned, kServerRoles> count_{};
};

void deal_roles(Birth& birth, const BirthOptions& options) {
  const std::vector<std::string> folders =
      options.storage.empty() ? std::vector<std::string>{kDataFolder} : options.storage;
  Dealer dealer;
  for (std::size_t i = 0; i < birth.hosts.size(); ++i) {
    Host& host = birth.hosts[i];
    const bool names = i < options.directories;
    if (i == 0) dealer.add(host, ServerRole::kManager);
    if (names) dealer.add(host, ServerRole::kDirectory);
    if (names || birth.copies == 1) dealer.add(host, ServerRole::kSmallFile);
    if (names) dealer.add(host, ServerRole::kCoordinator);
    for (std::size_t nth = 0; nth < folders.size(); ++nth)
      dealer.add(host, ServerRole::kStorage, folders[nth], nth);
    if (i == 0) dealer.add(host, ServerRole::kProxy);
  }
}

constexpr const char* kPlace = R"(place() {  # PATH: what is read becomes that file, unless there is another
  cat > "$1.new"
  if [ -e "$1" ] && ! cmp -s "$1" "$1.new"; then
    rm "$1.new"
    echo "$1 is there, and is another one: is this host part of another ensemble?" >&2
    exit 1
  fi
  mv "$1.new" "$1"
}
)";

}  // namespace

Result<Birth> plan_birth(const BirthOptions& options, const Resolve& resolve) {
  if (!is_server_name(options.name)) {
    return fail(Errc::kInvalid, "--name: '{}' is not 1 to 63 letters, digits, '-', '_' or '.'", options.name);
  }
  Birth birth{.name = options.name};
  auto address = parse_reachable(options.virtual_address, resolve);
  if (!address) return fail(address.error(), "--virtual");
  birth.virtual_address = *address;
  auto hosts = parse_hosts(options, *address, resolve);
  if (!hosts) return fail(std::move(hosts).error());
  birth.hosts = std::move(*hosts);
  SLICE_RETURN_IF_ERROR(check_sizes(options, birth.hosts.size()));
  birth.clients = !options.clients.empty() ? options.clients : network_around(birth.virtual_address);
  if (auto good = check_clients(birth.clients); !good) return fail(good.error(), "--clients");
  birth.copies = options.copies != 0 ? options.copies : birth.hosts.size() >= kHostsForCopies ? 2 : 1;
  deal_roles(birth, options);
  return birth;
}

std::string configuration_of(const Birth& birth) {
  std::string text = fmt::format(
      R"(# Made by `slicectl init`; /usr/share/doc/slice/configuration.md explains each key.
name = "{}"
key_file = "ensemble.key"

[volume]
id = 1
export = "/"
copies = {}  # of each byte of a new file, on distinct hosts; `slicectl policy` says otherwise of a directory

[proxy]
virtual_address = "{}"
xdp = "off"  # "auto" where servers have their route to clients through the proxy's host

[[export]]
clients = "{}"
access = "rw"
squash = "none"  # root of a client is root here, and can make folders for others; "root" makes it nobody
)",
      birth.name, birth.copies, address_text(birth.virtual_address), birth.clients);
  for (const Host& host : birth.hosts) text += servers_text(host);
  return text;
}

std::string script_name(const Host& host) {
  return host.name + ".sh";
}

std::string script_of(const Birth& birth, const Host& host, const std::string& configuration,
                      const std::string& key) {
  const std::string address = address_text(host.address);
  std::string units;
  for (const HostServer& server : host.servers) units += " " + server.name;
  std::string text = fmt::format(
      R"(#!/bin/sh
# Host {} ({}) of the ensemble '{}': puts its configuration and its key into /etc/slice, and starts{}.
# Run it as root there, where the packages are installed; once more does no harm. It has the key in it.
set -eu
umask 077
)",
      host.name, address, birth.name, units);
  text += kPlace;
  text += "main() {\n";
  text += fmt::format(
      R"(if command -v ip >/dev/null && ! ip -4 -o address show | grep -qF ' {0}/'; then
  echo "this host does not have the address {0} of {1}" >&2
  exit 1
fi
)",
      address, host.name);
  std::string programs;
  for (const HostServer& server : host.servers) {
    const std::string program = unit_of(server.role, "");
    programs += " " + program.substr(0, program.size() - 1);
  }
  text += fmt::format(
      R"(for program in slicectl{}; do
  command -v $program >/dev/null || {{ echo "$program is not installed here" >&2; exit 1; }}
done
)",
      programs);
  text += fmt::format("place /etc/slice/ensemble.key <<'END'\n{}END\n", key);
  text += fmt::format("place /etc/slice/ensemble.toml <<'END'\n{}END\n", configuration);
  text += "chmod 644 /etc/slice/ensemble.toml\nslicectl check\n";
  text += start_commands(host, {"/etc/slice/ensemble.key"});
  return text + "}\nmain </dev/null\n";
}

}  // namespace slice::slicectl
