// What the codecs of several internal programs share. Private to wire/.
#ifndef SLICE_WIRE_CODEC_H
#define SLICE_WIRE_CODEC_H

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/endpoint.h"
#include "rpc/xdr.h"
#include "wire/nfs3.h"

namespace slice::wire {

inline constexpr std::size_t kMaxText = 255;
inline constexpr std::uint32_t kMaxSites = 65536;  // of one class

inline std::string_view bounded(std::string_view text) {
  return text.substr(0, kMaxText);
}

// The status word that a result begins with.
inline void encode_status(rpc::XdrWriter& out, nfs3::Status status) {
  out.u32(static_cast<std::uint32_t>(status));
}
inline nfs3::Status decode_status(rpc::XdrReader& in) {
  return static_cast<nfs3::Status>(in.u32());
}
// True where the body of a success follows.
inline bool decode_status(rpc::XdrReader& in, nfs3::Status& status) {
  status = decode_status(in);
  return in.ok() && status == nfs3::Status::kOk;
}

inline TreeId decode_tree(rpc::XdrReader& in) {
  const std::uint32_t tree = in.u32();
  if (tree > 0xffff) in.fail();
  return TreeId{static_cast<std::uint16_t>(tree)};
}

inline std::uint64_t fnv1a(ByteView bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Four bytes of an IPv4 address, as all versions have them; one of IPv6 stands behind IpAddress::kNotV4.
inline void encode_address(rpc::XdrWriter& out, IpAddress address) {
  out.u32(address.word());
  if (address.is_v4()) return;
  out.u64(address.high());
  out.u64(address.low());
}
inline IpAddress decode_address(rpc::XdrReader& in) {
  const std::uint32_t word = in.u32();
  if (word != IpAddress::kNotV4) return word;
  const std::uint64_t high = in.u64();
  const IpAddress address = IpAddress::of_words(high, in.u64());
  if (address.is_v4()) in.fail();
  return address;
}
inline std::uint16_t decode_any_port(rpc::XdrReader& in) {
  const std::uint32_t port = in.u32();
  if (port > 0xffff) in.fail();
  return static_cast<std::uint16_t>(port);
}
inline void encode_endpoint(rpc::XdrWriter& out, rpc::Endpoint endpoint) {
  encode_address(out, endpoint.address);
  out.u32(endpoint.port);
}
inline rpc::Endpoint decode_endpoint(rpc::XdrReader& in) {
  const IpAddress address = decode_address(in);
  return {address, decode_any_port(in)};
}

// How many of `items` a message carries, written and returned.
template <class Items>
std::size_t encode_count(rpc::XdrWriter& out, const Items& items, std::size_t limit) {
  std::size_t count = std::min<std::size_t>(items.size(), limit);
  out.u32(static_cast<std::uint32_t>(count));
  return count;
}

// 0, and the reader failed, over `limit`.
inline std::uint32_t decode_count(rpc::XdrReader& in, std::uint32_t limit) {
  std::uint32_t count = in.u32();
  if (count > limit) in.fail();
  return in.ok() ? count : 0;
}

// Elements as `one` decodes them; none, and the reader failed, over `limit`.
template <class Element, class One>
void decode_list(rpc::XdrReader& in, std::size_t limit, std::vector<Element>& out, One one) {
  out.clear();
  const std::uint32_t count = decode_count(in, static_cast<std::uint32_t>(limit));
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) out.push_back(one(in));
}

// Names; the first `limit` of them.
inline void encode_names(rpc::XdrWriter& out, const std::vector<std::string>& names, std::uint32_t limit) {
  const std::size_t count = encode_count(out, names, limit);
  for (std::size_t i = 0; i < count; ++i) out.text(bounded(names[i]));
}
inline void decode_names(rpc::XdrReader& in, std::uint32_t limit, std::vector<std::string>& names) {
  decode_list(in, limit, names, [](rpc::XdrReader& from) { return std::string(from.text(kMaxText)); });
}

// Sites, or servers; the first `limit` of them.
inline void encode_numbers(rpc::XdrWriter& out, const std::vector<std::uint32_t>& numbers,
                           std::uint32_t limit) {
  const std::size_t count = encode_count(out, numbers, limit);
  for (std::size_t i = 0; i < count; ++i) out.u32(numbers[i]);
}
inline std::vector<std::uint32_t> decode_numbers(rpc::XdrReader& in, std::uint32_t limit) {
  std::vector<std::uint32_t> numbers;
  const std::uint32_t count = decode_count(in, limit);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) numbers.push_back(in.u32());
  return numbers;
}

// One of 0 to `last`.
template <class Enum>
Enum decode_enum(rpc::XdrReader& in, Enum last) {
  std::uint32_t value = in.u32();
  if (value > static_cast<std::uint32_t>(last)) in.fail();
  return static_cast<Enum>(in.ok() ? value : 0);
}

}  // namespace slice::wire

#endif  // SLICE_WIRE_CODEC_H
