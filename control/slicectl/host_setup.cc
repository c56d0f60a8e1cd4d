#include "control/slicectl/host_setup.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "rpc/bound_socket.h"

namespace slice::slicectl {
namespace {

struct RoleOnHost {
  std::string_view stem, program;
  std::uint16_t port;
};
// By ServerRole.
constexpr std::array<RoleOnHost, kServerRoles> kRoles{{{"dir", "slice-dird", 2051},
                                                       {"small", "slice-smallfiled", 2052},
                                                       {"store", "slice-stored", 2054},
                                                       {"coord", "slice-coordd", 2053},
                                                       {"manager", "slice-managerd", 2050},
                                                       {"proxy", "slice-proxyd", 2049}}};

const RoleOnHost& on_host(ServerRole role) {
  return kRoles.at(static_cast<std::size_t>(role));
}

bool is_plain_folder(std::string_view folder) {
  auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  };
  return folder.starts_with('/') && std::all_of(folder.begin(), folder.end(), plain);
}

// For sh.
std::string quoted(const std::string& path) {
  if (is_plain_folder(path)) return path;
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// That no other host has, or could have.
bool is_unreachable(IpAddress address) {
  return !address.is_host() || address.is_loopback() || (address.is_v4() && address.v4() >> 24 == 0);
}

}  // namespace

std::uint16_t port_of(ServerRole role, std::size_t nth) {
  return static_cast<std::uint16_t>(on_host(role).port + nth);
}

std::string_view stem_of(ServerRole role) {
  return on_host(role).stem;
}

std::string unit_of(ServerRole role, std::string_view name) {
  return fmt::format("{}@{}", on_host(role).program, name);
}

std::string servers_text(const Host& host) {
  std::string text;
  for (const HostServer& server : host.servers) {
    text += fmt::format("\n[[server]]\nname = \"{}\"\nrole = \"{}\"\naddress = \"{}\"\nport = {}\n",
                        server.name, role_name(server.role), address_text(host.address), server.port);
    if (!server.data.empty()) text += fmt::format("data = \"{}\"\n", server.data);
    text += fmt::format("host = \"{}\"\n", host.name);
    if (!host.rack.empty()) text += fmt::format("rack = \"{}\"\n", host.rack);
  }
  return text;
}

std::string start_commands(const Host& host, const std::vector<std::string>& secrets) {
  std::string text, units;
  for (const std::string& file : secrets) text += fmt::format("chown slice: {}\n", quoted(file));
  for (const HostServer& server : host.servers) {
    const std::string unit = unit_of(server.role, server.name);
    units += " " + unit;
    if (server.data.empty() || server.data == fmt::format("{}/{}", kDataFolder, server.name)) continue;
    const std::string drop_in = fmt::format("/etc/systemd/system/{}.service.d", unit);
    text += fmt::format("install -d -o slice -g slice -m 700 {}\n", server.data);
    text += fmt::format("install -d {0} && printf '[Service]\\nReadWritePaths={1}\\n' > {0}/data.conf\n",
                        drop_in, server.data);
  }
  return text + fmt::format("systemctl enable{}\nsystemctl start{}\n", units, units);
}

// A host with addresses of both families is known by that of IPv4, unless the other is said.
Result<std::vector<IpAddress>> resolve_by_system(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(name.c_str(), nullptr, &hints, &found); code != 0)
    return fail(Errc::kNotFound, "{}", ::gai_strerror(code));
  std::vector<IpAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
    addresses.push_back(rpc::endpoint_of(each->ai_addr, each->ai_addrlen).address);
  ::freeaddrinfo(found);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  if (std::any_of(addresses.begin(), addresses.end(), [](IpAddress each) { return each.is_v4(); }))
    std::erase_if(addresses, [](IpAddress each) { return !each.is_v4(); });
  return addresses;
}

Result<IpAddress> parse_reachable(const std::string& text, const Resolve& resolve) {
  auto found = resolve(text);
  if (!found) return fail(Errc::kInvalid, "'{}' has no IP address: {}", text, found.error().message);
  if (found->empty()) return fail(Errc::kInvalid, "'{}' has no IP address", text);
  if (found->size() > 1) {
    return fail(Errc::kInvalid, "'{}' has several addresses, {} among them: say which", text,
                address_text(found->front()));
  }
  if (is_unreachable(found->front())) {
    return fail(Errc::kInvalid, "'{}' is {} on this machine, where no other host can reach it", text,
                address_text(found->front()));
  }
  return found->front();
}

Result<Host> parse_host(const std::string& text, const Resolve& resolve) {
  const std::size_t equals = text.find('=');
  Host host{.name = text.substr(0, equals)};
  if (!is_server_name(host.name)) {
    return fail(Errc::kInvalid, "'{}' is no name of a host: 1 to 63 letters, digits, '-', '_' or '.'",
                host.name);
  }
  auto address = parse_reachable(equals == std::string::npos ? text : text.substr(equals + 1), resolve);
  if (!address && equals == std::string::npos)
    return fail(Errc::kInvalid, "{} (NAME=ADDRESS names a host's address)", address.error().message);
  if (!address) return fail(std::move(address).error());
  host.address = *address;
  host.login = text.substr(equals == std::string::npos ? 0 : equals + 1);
  return host;
}

Status check_folders(const std::vector<std::string>& folders) {
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (!is_plain_folder(folders[i])) {
      return fail(
          Errc::kInvalid,
          "'{}' is no folder for data: an absolute path of letters, digits, '.', '_' and '-' is expected",
          folders[i]);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (std::filesystem::path(folders[i]).lexically_normal() ==
          std::filesystem::path(folders[j]).lexically_normal())
        return fail(Errc::kInvalid, "the folder {} is named twice", folders[i]);
    }
  }
  return {};
}

bool is_here(IpAddress address) {
  const int socket = rpc::socket_for(address, SOCK_DGRAM);
  if (socket < 0) return false;
  const rpc::SocketAddress name({address, 0});
  const bool here = ::bind(socket, name.get(), name.length()) == 0;
  ::close(socket);
  return here;
}

}  // namespace slice::slicectl
