#include "rpc/endpoint.h"

#include <charconv>

namespace slice::rpc {
namespace {

// A decimal number of at most `limit`, without sign or leading zeros, and nothing behind it.
bool read_number(std::string_view text, std::uint32_t limit, std::uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool leads_with_zero = text.size() > 1 && text[0] == '0';
  return error == std::errc{} && end == text.data() + text.size() && out <= limit && !leads_with_zero;
}

}  // namespace

std::string to_string(Endpoint endpoint) {
  const std::string address = address_text(endpoint.address);
  return endpoint.address.is_v4() ? fmt::format("{}:{}", address, endpoint.port)
                                  : fmt::format("[{}]:{}", address, endpoint.port);
}

Result<NamedHost> parse_host_and_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  // Of IPv6 without brackets all colons are the address's.
  if (!bracketed && (colon == std::string_view::npos || text.find(':') != colon))
    return NamedHost{.host = std::string(text), .port = std::nullopt};
  const std::size_t end = bracketed ? text.find(']') : colon;
  if (bracketed && end != std::string_view::npos && end + 1 == text.size())
    return NamedHost{.host = std::string(text.substr(1, end - 1)), .port = std::nullopt};
  std::uint32_t port = 0;
  if (end == std::string_view::npos || colon != (bracketed ? end + 1 : end) ||
      !read_number(text.substr(colon + 1), 65535, port))
    return fail(Errc::kInvalid, "\"{}\" has no port of 0 to 65535", text);
  const std::size_t begin = bracketed ? 1 : 0;
  return NamedHost{.host = std::string(text.substr(begin, end - begin)),
                   .port = static_cast<std::uint16_t>(port)};
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  auto named = parse_host_and_port(text);
  if (!named) return fail(std::move(named).error());
  if (!named->port) return fail(Errc::kInvalid, "\"{}\" is not ADDRESS:PORT, of IPv6 [ADDRESS]:PORT", text);
  auto address = parse_address(named->host);
  if (!address) return fail(std::move(address).error());
  return Endpoint{*address, *named->port};
}

}  // namespace slice::rpc
