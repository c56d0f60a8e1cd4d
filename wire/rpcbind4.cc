#include "wire/rpcbind4.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace slice::rpcbind4 {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

constexpr std::array<std::string_view, 4> kNetids{"udp6", "udp", "tcp6", "tcp"};

void decode_one(XdrReader& in, Registration& out) {
  out.program = in.u32();
  out.version = in.u32();
  out.netid = std::string(in.text(kMaxText));
  out.address = std::string(in.text(kMaxText));
  out.owner = std::string(in.text(kMaxText));
}

// The number behind the last dot, which is taken off.
std::optional<std::uint8_t> take_byte(std::string_view& text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view number = text.substr(dot + 1);
  std::uint8_t byte = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), byte);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  text = text.substr(0, dot);
  return byte;
}

}  // namespace

std::string_view netid(bool tcp, bool v4) {
  return kNetids[(tcp ? 2u : 0u) + (v4 ? 1u : 0u)];
}

std::optional<Transport> transport_of(std::string_view netid) {
  const auto found = std::find(kNetids.begin(), kNetids.end(), netid);
  if (found == kNetids.end()) return std::nullopt;
  const auto at = static_cast<unsigned>(found - kNetids.begin());
  return Transport{.tcp = at >= 2, .v4 = at % 2 == 1};
}

std::string universal_address(rpc::Endpoint endpoint) {
  return fmt::format("{}.{}.{}", address_text(endpoint.address), endpoint.port >> 8, endpoint.port & 255);
}

std::optional<rpc::Endpoint> parse_universal_address(std::string_view text) {
  const auto low = take_byte(text), high = low ? take_byte(text) : std::nullopt;
  if (!high) return std::nullopt;
  const auto address = parse_address(text);
  if (!address) return std::nullopt;
  return rpc::Endpoint{*address, static_cast<std::uint16_t>(*high << 8 | *low)};
}

bool decode(ByteView bytes, Registration& out) {
  XdrReader in(bytes);
  decode_one(in, out);
  return in.complete();
}
void encode(XdrWriter& out, const Registration& registration) {
  out.u32(registration.program);
  out.u32(registration.version);
  for (const std::string* text : {&registration.netid, &registration.address, &registration.owner})
    out.text(std::string_view(*text).substr(0, kMaxText));
}

bool decode_address(ByteView bytes, std::string& address) {
  XdrReader in(bytes);
  address = std::string(in.text(kMaxText));
  return in.complete();
}
void encode_address(XdrWriter& out, std::string_view address) {
  out.text(address.substr(0, kMaxText));
}

bool decode(ByteView bytes, std::vector<Registration>& out) {
  XdrReader in(bytes);
  out.clear();
  while (in.boolean()) {
    if (out.size() == kMaxRegistrations) return false;
    decode_one(in, out.emplace_back());
  }
  return in.complete();
}
void encode(XdrWriter& out, const std::vector<Registration>& registrations) {
  const std::size_t count = std::min(registrations.size(), kMaxRegistrations);
  for (std::size_t i = 0; i < count; ++i) {
    out.boolean(true);
    encode(out, registrations[i]);
  }
  out.boolean(false);
}

}  // namespace slice::rpcbind4
