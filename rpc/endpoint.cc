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

Result<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail(Errc::kInvalid, "\"{}\" is not ADDRESS:PORT", text);
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return fail(Errc::kInvalid, "\"{}\" is not [ADDRESS]:PORT", text);
  }
  auto address = parse_address(host);
  if (!address) return fail(std::move(address).error());
  std::uint32_t port = 0;
  if (!read_number(text.substr(colon + 1), 65535, port)) {
    return fail(Errc::kInvalid, "\"{}\" has no port of 0 to 65535", text);
  }
  return Endpoint{*address, static_cast<std::uint16_t>(port)};
}

}  // namespace slice::rpc
