// What the NFSv3 codec's own files share; others include wire/nfs3.h.
#ifndef SLICE_WIRE_NFS3_CODEC_H
#define SLICE_WIRE_NFS3_CODEC_H

#include "wire/nfs3.h"

namespace slice::nfs3 {

// An enum whose values are `least` to `most`; fails on any other, answering `least`.
template <class Enum>
Enum decode_enum(rpc::XdrReader& in, std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = in.u32();
  if (value < least || value > most) {
    in.fail();
    return static_cast<Enum>(least);
  }
  return static_cast<Enum>(value);
}

// A fixed-length opaque copied out; zeros where it fails.
template <std::size_t N>
void decode_fixed(rpc::XdrReader& in, std::array<std::uint8_t, N>& out) {
  ByteView bytes = in.fixed(N);
  if (bytes.size() == N) std::copy(bytes.begin(), bytes.end(), out.begin());
}

}  // namespace slice::nfs3

#endif  // SLICE_WIRE_NFS3_CODEC_H
