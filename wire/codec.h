// What the codecs of several internal programs share. Private to wire/.
#ifndef SLICE_WIRE_CODEC_H
#define SLICE_WIRE_CODEC_H

#include <cstdint>
#include <string_view>

#include "rpc/xdr.h"

namespace slice::wire {

inline constexpr std::size_t kMaxText = 255;
inline constexpr std::uint32_t kMaxSites = 65536;  // of one class

inline std::string_view bounded(std::string_view text) {
  return text.substr(0, kMaxText);
}

// 0, and the reader failed, over `limit`.
inline std::uint32_t decode_count(rpc::XdrReader& in, std::uint32_t limit) {
  std::uint32_t count = in.u32();
  if (count > limit) in.fail();
  return in.ok() ? count : 0;
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
