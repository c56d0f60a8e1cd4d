// Endpoint: an IP address and port.
#ifndef SLICE_RPC_ENDPOINT_H
#define SLICE_RPC_ENDPOINT_H

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/ip_address.h"
#include "common/result.h"

namespace slice::rpc {

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;
  constexpr auto operator<=>(const Endpoint&) const = default;
};

std::string to_string(Endpoint endpoint);                // "10.77.2.2:2049", "[fd77::2]:2049"
Result<Endpoint> parse_endpoint(std::string_view text);  // the same

// A host as people name it, with a port or without one: "alpha", "alpha:2049", "fd77::2", "[fd77::2]:2049".
struct NamedHost {
  std::string host;  // a name or an address, without brackets; nobody has looked at it
  std::optional<std::uint16_t> port;
};
Result<NamedHost> parse_host_and_port(std::string_view text);  // kInvalid: it ends in no port

}  // namespace slice::rpc

template <>
struct std::hash<::slice::rpc::Endpoint> {
  std::size_t operator()(const ::slice::rpc::Endpoint& e) const noexcept {
    return std::hash<::slice::IpAddress>{}(e.address) * 0x9e3779b97f4a7c15 + e.port;
  }
};

#endif  // SLICE_RPC_ENDPOINT_H
