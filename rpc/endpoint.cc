#include "rpc/endpoint.h"

#include <charconv>

namespace slice::rpc {
namespace {

// A decimal number of at most `limit`, without sign or leading zeros, at the front of `text`.
bool take_number(std::string_view& text, std::uint32_t limit, std::uint32_t& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  std::size_t digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || out > limit || (digits > 1 && text[0] == '0')) return false;
  text.remove_prefix(digits);
  return true;
}

}  // namespace

std::string address_text(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, (address >> 16) & 255, (address >> 8) & 255,
                     address & 255);
}

std::string to_string(Endpoint endpoint) {
  return fmt::format("{}:{}", address_text(endpoint.address), endpoint.port);
}

Result<std::uint32_t> parse_address(std::string_view text) {
  std::string_view left = text;
  std::uint32_t address = 0;
  for (int part = 0; part < 4; ++part) {
    std::uint32_t number = 0;
    if (part > 0) {
      if (left.empty() || left[0] != '.') return fail(Errc::kInvalid, "\"{}\" is no IPv4 address", text);
      left.remove_prefix(1);
    }
    if (!take_number(left, 255, number)) return fail(Errc::kInvalid, "\"{}\" is no IPv4 address", text);
    address = address << 8 | number;
  }
  if (!left.empty()) return fail(Errc::kInvalid, "\"{}\" is no IPv4 address", text);
  return address;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail(Errc::kInvalid, "\"{}\" is not ADDRESS:PORT", text);
  auto address = parse_address(text.substr(0, colon));
  if (!address) return fail(std::move(address).error());
  std::string_view left = text.substr(colon + 1);
  std::uint32_t port = 0;
  if (!take_number(left, 65535, port) || !left.empty()) {
    return fail(Errc::kInvalid, "\"{}\" has no port of 0 to 65535", text);
  }
  return Endpoint{*address, static_cast<std::uint16_t>(port)};
}

}  // namespace slice::rpc
