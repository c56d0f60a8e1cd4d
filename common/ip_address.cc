#include "common/ip_address.h"

#include <arpa/inet.h>

#include <bit>
#include <charconv>
#include <optional>

#include "common/bytes.h"

namespace slice {
namespace {

constexpr std::uint64_t leading_ones(unsigned count) {
  return count == 0 ? 0 : ~std::uint64_t{0} << (64 - count);
}

// Of what stands behind the slash: how many bits, as the address's family counts.
std::optional<unsigned> parse_bits(std::string_view text, bool v4) {
  if (v4 && text.find('.') != std::string_view::npos) {
    const auto mask = parse_address(text);
    if (!mask) return std::nullopt;
    const unsigned bits = static_cast<unsigned>(std::popcount(mask->v4()));
    const bool is_one = leading_ones(bits) >> 32 == mask->v4();
    return is_one ? std::optional(bits) : std::nullopt;
  }
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  const bool is_one = error == std::errc{} && end == text.data() + text.size() && bits <= (v4 ? 32u : 128u);
  return is_one ? std::optional(bits) : std::nullopt;
}

IpAddress mask_of(unsigned bits) {
  return IpAddress::of_words(leading_ones(std::min(bits, 64u)), leading_ones(bits > 64 ? bits - 64 : 0));
}

// 0.0.0.0 is one here, and not none: a network begins with it.
constexpr IpAddress mapped(std::uint32_t v4) {
  return IpAddress::of_words(0, std::uint64_t{0xffff} << 32 | v4);
}

}  // namespace

IpAddress IpAddress::of_bytes(const void* bytes, std::size_t size) {
  const auto* at = static_cast<const std::uint8_t*>(bytes);
  if (size == AddressBytes::kV4) return load_be<std::uint32_t>(at);
  const IpAddress address = of_words(load_be<std::uint64_t>(at), load_be<std::uint64_t>(at + 8));
  return address == mapped(0) ? IpAddress() : address;
}

IpAddress::Bytes IpAddress::bytes() const {
  Bytes bytes;
  store_be(bytes.data(), high_);
  store_be(bytes.data() + 8, low_);
  return bytes;
}

std::string address_text(IpAddress address) {
  const AddressBytes bytes(address);
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(address.is_v4() ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

Result<IpAddress> parse_address(std::string_view text) {
  const std::string whole(text);
  const bool v4 = whole.find(':') == std::string::npos;
  IpAddress::Bytes bytes{};
  if (::inet_pton(v4 ? AF_INET : AF_INET6, whole.c_str(), bytes.data()) == 1)
    return IpAddress::of_bytes(bytes.data(), v4 ? AddressBytes::kV4 : bytes.size());
  return fail(Errc::kInvalid, "'{}' is not an IP address", text);
}

Network Network::of_v4(std::uint32_t address, std::uint32_t mask) {
  return {.address = mapped(address & mask),
          .bits = static_cast<std::uint8_t>(kV4Bits + static_cast<unsigned>(std::popcount(mask)))};
}

Network Network::of_host(IpAddress host) {
  return {.address = host, .bits = 128, .v6 = !host.is_v4()};
}

IpAddress Network::mask() const {
  return mask_of(bits);
}

bool Network::valid() const {
  if (bits > 128 || (address & mask()) != address) return false;
  const bool begins_as_v4 = bits >= kV4Bits && (address & mask_of(kV4Bits)) == mapped(0);
  return v6 ? !begins_as_v4 : begins_as_v4 || *this == Network{};
}

std::string network_text(const Network& network) {
  if (network.is_everybody()) return "*";
  const IpAddress shown = network.is_v4() ? IpAddress(network.address.v4()) : network.address;
  const std::string text = network.v6 && shown.none() ? "::" : address_text(shown);
  return fmt::format("{}/{}", text, network.prefix());
}

Result<Network> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return fail(address.error());
  const bool v4 = address->is_v4() && text.substr(0, slash).find('.') != std::string_view::npos;
  const std::string_view behind =
      slash == std::string_view::npos ? v4 ? "32" : "128" : text.substr(slash + 1);
  const auto bits = parse_bits(behind, v4);
  if (!bits) {
    return fail(Errc::kInvalid, "'{}' is no network: ADDRESS/0 to ADDRESS/{} is expected", text,
                v4 ? "32, or ADDRESS/MASK," : "128");
  }
  Network network{.address = v4 ? mapped(address->v4()) : *address,
                  .bits = static_cast<std::uint8_t>(*bits + (v4 ? Network::kV4Bits : 0)),
                  .v6 = !v4};
  const Network meant{network.address & mask_of(network.bits), network.bits, network.v6};
  if (meant != network) {
    return fail(Errc::kInvalid, "{} has bits behind its /{}: {} is meant, or a single host", text, behind,
                network_text(meant));
  }
  if (!network.valid()) return fail(Errc::kInvalid, "'{}': say IPv4's hosts as IPv4 does", text);
  return network;
}

}  // namespace slice
