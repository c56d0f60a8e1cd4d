// SipHash-2-4 with 128-bit output (Aumasson, Bernstein): the MAC of sealed calls.
#ifndef SLICE_RPC_SIPHASH_H
#define SLICE_RPC_SIPHASH_H

#include <array>
#include <cstdint>

#include "common/bytes.h"

namespace slice::rpc {

// Takes its input in any number of pieces.
class SipHash128 {
 public:
  explicit SipHash128(const std::array<std::uint8_t, 16>& key);
  void update(ByteView bytes);
  // The 16 bytes in the order that the algorithm defines; ends the use of this object.
  std::array<std::uint8_t, 16> finish();

 private:
  void absorb(std::uint64_t word);
  void round();

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t tail_ = 0;  // bytes not absorbed yet, little-endian
  std::uint64_t length_ = 0;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_SIPHASH_H
