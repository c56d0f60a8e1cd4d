// What is on a host of an ensemble: which servers, where they listen, how they are called, and the commands
// that bring them up there (docs/install.md). Shared by `init`, for a volume's birth, and `join`.
#ifndef SLICE_CONTROL_SLICECTL_HOST_SETUP_H
#define SLICE_CONTROL_SLICECTL_HOST_SETUP_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "common/result.h"

namespace slice::slicectl {

inline constexpr const char* kDataFolder = "/var/lib/slice";

// Where a server of this role listens, so that firewalls can be told once: 2049 proxy, 2050 manager, 2051
// directory, 2052 small-file, 2053 coordinator, 2054 and on storage nodes, `nth` of them before this one.
std::uint16_t port_of(ServerRole role, std::size_t nth = 0);
// "store" for "store1".
std::string_view stem_of(ServerRole role);
// "slice-stored@store1.service" without its end.
std::string unit_of(ServerRole role, std::string_view name);

struct HostServer {
  std::string name;
  ServerRole role = ServerRole::kStorage;
  std::uint16_t port = 0;
  std::string data;  // empty of a proxy
};
struct Host {
  std::string name;  // what [[server]] has as host: copies of a byte go to distinct ones
  IpAddress address;
  std::string login = {};  // how the operator names it: its name, or its address
  std::string rack = {};
  std::vector<HostServer> servers = {};
};
// Of the configuration: its [[server]].
std::string servers_text(const Host& host);
// For sh, as root there: the owner of these files, folders for data elsewhere than in kDataFolder, and units.
// Each line a command.
std::string start_commands(const Host& host, const std::vector<std::string>& secrets);

// IPv4 addresses of a name; kNotFound with the resolver's reason.
using Resolve = std::function<Result<std::vector<IpAddress>>(const std::string& name)>;
Result<std::vector<IpAddress>> resolve_by_system(const std::string& name);
// The one address that others reach a host at: "NAME", "ADDRESS" or "NAME=ADDRESS". kInvalid: it has none, or
// several, or one that is this machine's alone.
Result<Host> parse_host(const std::string& text, const Resolve& resolve);
// The same of an address alone.
Result<IpAddress> parse_reachable(const std::string& text, const Resolve& resolve);

// Absolute folders, each once, of characters that need no quoting anywhere.
Status check_folders(const std::vector<std::string>& folders);
// Whether this machine has the address.
bool is_here(IpAddress address);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_HOST_SETUP_H
