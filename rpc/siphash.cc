#include "rpc/siphash.h"

#include <bit>
#include <cstring>

namespace slice::rpc {
namespace {

std::uint64_t little_endian(std::uint64_t value) {
  return std::endian::native == std::endian::little ? value : __builtin_bswap64(value);
}
std::uint64_t load_le(const std::uint8_t* at) {
  std::uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return little_endian(value);
}

}  // namespace

SipHash128::SipHash128(const std::array<std::uint8_t, 16>& key) {
  std::uint64_t k0 = load_le(key.data());
  std::uint64_t k1 = load_le(key.data() + 8);
  v0_ = k0 ^ 0x736f6d6570736575;
  v1_ = k1 ^ 0x646f72616e646f6d ^ 0xee;  // 0xee: 128 bits of output
  v2_ = k0 ^ 0x6c7967656e657261;
  v3_ = k1 ^ 0x7465646279746573;
}

inline void SipHash128::round() {
  v0_ += v1_;
  v1_ = std::rotl(v1_, 13) ^ v0_;
  v0_ = std::rotl(v0_, 32);
  v2_ += v3_;
  v3_ = std::rotl(v3_, 16) ^ v2_;
  v0_ += v3_;
  v3_ = std::rotl(v3_, 21) ^ v0_;
  v2_ += v1_;
  v1_ = std::rotl(v1_, 17) ^ v2_;
  v2_ = std::rotl(v2_, 32);
}

inline void SipHash128::absorb(std::uint64_t word) {
  v3_ ^= word;
  round();
  round();
  v0_ ^= word;
}

void SipHash128::update(ByteView bytes) {
  const std::uint8_t* at = bytes.data();
  std::size_t left = bytes.size();
  unsigned filled = length_ & 7;
  length_ += left;
  for (; filled != 0 && left > 0; --left) {
    tail_ |= std::uint64_t{*at++} << (8 * filled);
    filled = (filled + 1) & 7;
    if (filled == 0) {
      absorb(tail_);
      tail_ = 0;
    }
  }
  for (; left >= 8; at += 8, left -= 8) absorb(load_le(at));
  for (unsigned i = 0; i < left; ++i) tail_ |= std::uint64_t{at[i]} << (8 * i);
}

std::array<std::uint8_t, 16> SipHash128::finish() {
  absorb(tail_ | (length_ << 56));
  v2_ ^= 0xee;
  for (int i = 0; i < 4; ++i) round();
  std::uint64_t low = little_endian(v0_ ^ v1_ ^ v2_ ^ v3_);
  v1_ ^= 0xdd;
  for (int i = 0; i < 4; ++i) round();
  std::uint64_t high = little_endian(v0_ ^ v1_ ^ v2_ ^ v3_);
  std::array<std::uint8_t, 16> out;
  std::memcpy(out.data(), &low, 8);
  std::memcpy(out.data() + 8, &high, 8);
  return out;
}

}  // namespace slice::rpc
