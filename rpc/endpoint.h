// Endpoint: an IPv4 address and port. The volume's data path is IPv4 only (docs/architecture.md, limits).
#ifndef SLICE_RPC_ENDPOINT_H
#define SLICE_RPC_ENDPOINT_H

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace slice::rpc {

struct Endpoint {
  std::uint32_t address = 0;  // host byte order
  std::uint16_t port = 0;
  constexpr auto operator<=>(const Endpoint&) const = default;
};

std::string to_string(Endpoint endpoint);         // "10.77.2.2:2049"
std::string address_text(std::uint32_t address);  // "10.77.2.2"
Result<std::uint32_t> parse_address(std::string_view text);
Result<Endpoint> parse_endpoint(std::string_view text);  // "ADDRESS:PORT"

}  // namespace slice::rpc

template <>
struct std::hash<::slice::rpc::Endpoint> {
  std::size_t operator()(::slice::rpc::Endpoint e) const noexcept {
    return std::hash<std::uint64_t>{}((std::uint64_t{e.address} << 16) | e.port);
  }
};

#endif  // SLICE_RPC_ENDPOINT_H
