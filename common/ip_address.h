// IpAddress: a host's, of IPv4 or IPv6. Network: a range of them, as exports and limits name hosts.
#ifndef SLICE_COMMON_IP_ADDRESS_H
#define SLICE_COMMON_IP_ADDRESS_H

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace slice {

// One of IPv4 is held as IPv6 maps it (RFC 4291 section 2.5.5.2): the host that comes over a socket of either
// family is the same one. The interface of a link-local address is not part of it.
class IpAddress {
 public:
  constexpr IpAddress() = default;  // none
  // Of IPv4, host byte order; 0: none. Not explicit: an IPv4 address is an address.
  constexpr IpAddress(std::uint32_t v4) : low_(v4 == 0 ? 0 : kMapped << 32 | v4) {}
  // The first and the last eight bytes.
  static constexpr IpAddress of_words(std::uint64_t high, std::uint64_t low) {
    IpAddress address;
    address.high_ = high;
    address.low_ = low;
    return address;
  }
  using Bytes = std::array<std::uint8_t, 16>;  // as they travel
  Bytes bytes() const;
  // Of as many readable bytes as an address of its family has: 4, or 16.
  static IpAddress of_bytes(const void* bytes, std::size_t size);

  constexpr std::uint64_t high() const { return high_; }
  constexpr std::uint64_t low() const { return low_; }
  constexpr bool none() const { return high_ == 0 && low_ == 0; }
  // Of IPv4, or none.
  constexpr bool is_v4() const { return (high_ == 0 && low_ >> 32 == kMapped) || none(); }
  // Host byte order; 0 for none and for IPv6.
  constexpr std::uint32_t v4() const { return is_v4() ? static_cast<std::uint32_t>(low_) : 0; }
  // Where formats have the word of an IPv4 address: this says that one of IPv6 follows somewhere.
  static constexpr std::uint32_t kNotV4 = 0xffffffff;
  constexpr std::uint32_t word() const { return is_v4() ? v4() : kNotV4; }
  // 127/8 or ::1.
  constexpr bool is_loopback() const { return v4() >> 24 == 127 || (high_ == 0 && low_ == 1); }
  // fe80::/10: it says nothing without an interface.
  constexpr bool is_link_local() const { return high_ >> 54 == 0xfe80 >> 6; }
  // Of one host, that others may be told of: neither none nor multicast, reserved or link-local.
  constexpr bool is_host() const {
    return is_v4() ? v4() != 0 && v4() >> 28 < 14 : high_ >> 56 != 0xff && !is_link_local();
  }

  constexpr auto operator<=>(const IpAddress&) const = default;
  friend constexpr IpAddress operator&(const IpAddress& a, const IpAddress& b) {
    return of_words(a.high_ & b.high_, a.low_ & b.low_);
  }

 private:
  static constexpr std::uint64_t kMapped = 0xffff;
  std::uint64_t high_ = 0, low_ = 0;
};

// As many bytes as an address of its family has.
class AddressBytes {
 public:
  explicit AddressBytes(IpAddress address)
      : bytes_(address.bytes()), size_(address.is_v4() ? kV4 : bytes_.size()) {}
  static constexpr std::size_t kV4 = 4;
  const std::uint8_t* data() const { return bytes_.data() + bytes_.size() - size_; }
  std::size_t size() const { return size_; }

 private:
  IpAddress::Bytes bytes_;
  std::size_t size_;
};

std::string address_text(IpAddress address);  // "10.77.2.2"; "fd77::2" (RFC 5952); "0.0.0.0" for none
// kInvalid for what is no address, one with an interface ("fe80::1%eth0") among them.
Result<IpAddress> parse_address(std::string_view text);

// All hosts whose addresses begin as its own does. By itself: every host.
struct Network {
  IpAddress address;
  std::uint8_t bits = 0;  // that count, of IPv6's 128: 96 more than IPv4 says
  bool v6 = false;        // of IPv6 alone: ::/0 does not have IPv4's hosts
  // `mask` as IPv4 has it, of leading ones.
  static Network of_v4(std::uint32_t address, std::uint32_t mask);
  static Network of_host(IpAddress host);

  bool has(IpAddress host) const { return (host & mask()) == address && !(v6 && host.is_v4()); }
  // Whether each host of the other is in this one.
  bool has_all_of(const Network& other) const {
    return bits <= other.bits && (other.address & mask()) == address && (!v6 || other.v6);
  }
  bool is_everybody() const { return bits == 0 && !v6; }
  bool is_v4() const { return !v6 && !is_everybody(); }
  // As its family counts: 0 to 32, or to 128.
  unsigned prefix() const { return bits - (is_v4() ? kV4Bits : 0u); }
  static constexpr unsigned kV4Bits = 96;
  // No more of its address than its bits; what no parser gives is none.
  bool valid() const;
  bool operator==(const Network&) const = default;

 private:
  IpAddress mask() const;
};

std::string network_text(const Network& network);  // "10.77.0.0/16", "fd77::/64", "*"
// ADDRESS, ADDRESS/BITS, or ADDRESS/MASK of IPv4, such as 10.77.0.0/255.255.0.0. kInvalid with what is wrong.
Result<Network> parse_network(std::string_view text);

}  // namespace slice

template <>
struct std::hash<::slice::IpAddress> {
  std::size_t operator()(const ::slice::IpAddress& address) const noexcept {
    return std::hash<std::uint64_t>{}(address.low() ^ address.high() * 0x9e3779b97f4a7c15);
  }
};

#endif  // SLICE_COMMON_IP_ADDRESS_H
