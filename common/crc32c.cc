#include "common/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slice {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

std::uint32_t by_table(ByteView bytes, std::uint32_t crc) {
  static constexpr auto kTable = make_table();
  for (std::uint8_t byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ byte) & 0xff];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(ByteView bytes, std::uint32_t crc) {
  const std::uint8_t* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t wide = crc;
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; left > 0; ++at, --left) crc = _mm_crc32_u8(crc, *at);
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(ByteView bytes, std::uint32_t crc) {
  crc = ~crc;
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~by_instruction(bytes, crc);
#endif
  return ~by_table(bytes, crc);
}

}  // namespace slice
