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

// The instruction takes three cycles and one can start every cycle: four blocks side by side keep it busy.
__attribute__((target("sse4.2"))) void four_by_instruction(const std::uint8_t* at, std::size_t block,
                                                           std::uint32_t* each) {
  std::uint64_t a = ~0u, b = ~0u, c = ~0u, d = ~0u;
  for (const std::uint8_t* end = at + block; at != end; at += 8) {
    std::uint64_t word[4];
    std::memcpy(&word[0], at, 8);
    std::memcpy(&word[1], at + block, 8);
    std::memcpy(&word[2], at + 2 * block, 8);
    std::memcpy(&word[3], at + 3 * block, 8);
    a = _mm_crc32_u64(a, word[0]);
    b = _mm_crc32_u64(b, word[1]);
    c = _mm_crc32_u64(c, word[2]);
    d = _mm_crc32_u64(d, word[3]);
  }
  each[0] = ~static_cast<std::uint32_t>(a);
  each[1] = ~static_cast<std::uint32_t>(b);
  each[2] = ~static_cast<std::uint32_t>(c);
  each[3] = ~static_cast<std::uint32_t>(d);
}

bool has_instruction() {
  static const bool answer = __builtin_cpu_supports("sse4.2");
  return answer;
}
#endif

}  // namespace

std::uint32_t crc32c(ByteView bytes, std::uint32_t crc) {
  crc = ~crc;
#if defined(__x86_64__)
  if (has_instruction()) return ~by_instruction(bytes, crc);
#endif
  return ~by_table(bytes, crc);
}

void crc32c_each(ByteView bytes, std::size_t block, std::uint32_t* each) {
  std::size_t blocks = bytes.size() / block, done = 0;
#if defined(__x86_64__)
  if (has_instruction()) {
    for (; done + 4 <= blocks; done += 4) {
      four_by_instruction(bytes.data() + done * block, block, each + done);
    }
  }
#endif
  for (; done < blocks; ++done) each[done] = crc32c(bytes.subspan(done * block, block));
}

}  // namespace slice
