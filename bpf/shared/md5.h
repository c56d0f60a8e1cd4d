// MD5 (RFC 1321) of (fileID, name), for name hashing; in BPF as in user space,
// unrolled and without tables. For placement only: MD5 resists
// no attacker who chooses names (siphash13 does).
#ifndef SLICE_BPF_SHARED_MD5_H
#define SLICE_BPF_SHARED_MD5_H

#include "bpf/shared/base.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/name_words.h"

#define SLICE_MD5_F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define SLICE_MD5_G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define SLICE_MD5_H(x, y, z) ((x) ^ (y) ^ (z))
#define SLICE_MD5_I(x, y, z) ((y) ^ ((x) | ~(z)))
#define SLICE_MD5_STEP(f, a, b, c, d, word, constant, shift) \
  do {                                                       \
    a += f(b, c, d) + SLICE_LE32(word) + constant##u;        \
    a = (a << (shift)) | (a >> (32 - (shift)));              \
    a += b;                                                  \
  } while (0)

// RFC 1321 section 3.4: mixes one block of 16 words (as in memory) into state.
SLICE_INLINE void slice_md5_block(uint32_t state[4], const uint32_t w[16]) {
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  SLICE_MD5_STEP(SLICE_MD5_F, a, b, c, d, w[0], 0xd76aa478, 7);
  SLICE_MD5_STEP(SLICE_MD5_F, d, a, b, c, w[1], 0xe8c7b756, 12);
  SLICE_MD5_STEP(SLICE_MD5_F, c, d, a, b, w[2], 0x242070db, 17);
  SLICE_MD5_STEP(SLICE_MD5_F, b, c, d, a, w[3], 0xc1bdceee, 22);
  SLICE_MD5_STEP(SLICE_MD5_F, a, b, c, d, w[4], 0xf57c0faf, 7);
  SLICE_MD5_STEP(SLICE_MD5_F, d, a, b, c, w[5], 0x4787c62a, 12);
  SLICE_MD5_STEP(SLICE_MD5_F, c, d, a, b, w[6], 0xa8304613, 17);
  SLICE_MD5_STEP(SLICE_MD5_F, b, c, d, a, w[7], 0xfd469501, 22);
  SLICE_MD5_STEP(SLICE_MD5_F, a, b, c, d, w[8], 0x698098d8, 7);
  SLICE_MD5_STEP(SLICE_MD5_F, d, a, b, c, w[9], 0x8b44f7af, 12);
  SLICE_MD5_STEP(SLICE_MD5_F, c, d, a, b, w[10], 0xffff5bb1, 17);
  SLICE_MD5_STEP(SLICE_MD5_F, b, c, d, a, w[11], 0x895cd7be, 22);
  SLICE_MD5_STEP(SLICE_MD5_F, a, b, c, d, w[12], 0x6b901122, 7);
  SLICE_MD5_STEP(SLICE_MD5_F, d, a, b, c, w[13], 0xfd987193, 12);
  SLICE_MD5_STEP(SLICE_MD5_F, c, d, a, b, w[14], 0xa679438e, 17);
  SLICE_MD5_STEP(SLICE_MD5_F, b, c, d, a, w[15], 0x49b40821, 22);
  SLICE_MD5_STEP(SLICE_MD5_G, a, b, c, d, w[1], 0xf61e2562, 5);
  SLICE_MD5_STEP(SLICE_MD5_G, d, a, b, c, w[6], 0xc040b340, 9);
  SLICE_MD5_STEP(SLICE_MD5_G, c, d, a, b, w[11], 0x265e5a51, 14);
  SLICE_MD5_STEP(SLICE_MD5_G, b, c, d, a, w[0], 0xe9b6c7aa, 20);
  SLICE_MD5_STEP(SLICE_MD5_G, a, b, c, d, w[5], 0xd62f105d, 5);
  SLICE_MD5_STEP(SLICE_MD5_G, d, a, b, c, w[10], 0x02441453, 9);
  SLICE_MD5_STEP(SLICE_MD5_G, c, d, a, b, w[15], 0xd8a1e681, 14);
  SLICE_MD5_STEP(SLICE_MD5_G, b, c, d, a, w[4], 0xe7d3fbc8, 20);
  SLICE_MD5_STEP(SLICE_MD5_G, a, b, c, d, w[9], 0x21e1cde6, 5);
  SLICE_MD5_STEP(SLICE_MD5_G, d, a, b, c, w[14], 0xc33707d6, 9);
  SLICE_MD5_STEP(SLICE_MD5_G, c, d, a, b, w[3], 0xf4d50d87, 14);
  SLICE_MD5_STEP(SLICE_MD5_G, b, c, d, a, w[8], 0x455a14ed, 20);
  SLICE_MD5_STEP(SLICE_MD5_G, a, b, c, d, w[13], 0xa9e3e905, 5);
  SLICE_MD5_STEP(SLICE_MD5_G, d, a, b, c, w[2], 0xfcefa3f8, 9);
  SLICE_MD5_STEP(SLICE_MD5_G, c, d, a, b, w[7], 0x676f02d9, 14);
  SLICE_MD5_STEP(SLICE_MD5_G, b, c, d, a, w[12], 0x8d2a4c8a, 20);
  SLICE_MD5_STEP(SLICE_MD5_H, a, b, c, d, w[5], 0xfffa3942, 4);
  SLICE_MD5_STEP(SLICE_MD5_H, d, a, b, c, w[8], 0x8771f681, 11);
  SLICE_MD5_STEP(SLICE_MD5_H, c, d, a, b, w[11], 0x6d9d6122, 16);
  SLICE_MD5_STEP(SLICE_MD5_H, b, c, d, a, w[14], 0xfde5380c, 23);
  SLICE_MD5_STEP(SLICE_MD5_H, a, b, c, d, w[1], 0xa4beea44, 4);
  SLICE_MD5_STEP(SLICE_MD5_H, d, a, b, c, w[4], 0x4bdecfa9, 11);
  SLICE_MD5_STEP(SLICE_MD5_H, c, d, a, b, w[7], 0xf6bb4b60, 16);
  SLICE_MD5_STEP(SLICE_MD5_H, b, c, d, a, w[10], 0xbebfbc70, 23);
  SLICE_MD5_STEP(SLICE_MD5_H, a, b, c, d, w[13], 0x289b7ec6, 4);
  SLICE_MD5_STEP(SLICE_MD5_H, d, a, b, c, w[0], 0xeaa127fa, 11);
  SLICE_MD5_STEP(SLICE_MD5_H, c, d, a, b, w[3], 0xd4ef3085, 16);
  SLICE_MD5_STEP(SLICE_MD5_H, b, c, d, a, w[6], 0x04881d05, 23);
  SLICE_MD5_STEP(SLICE_MD5_H, a, b, c, d, w[9], 0xd9d4d039, 4);
  SLICE_MD5_STEP(SLICE_MD5_H, d, a, b, c, w[12], 0xe6db99e5, 11);
  SLICE_MD5_STEP(SLICE_MD5_H, c, d, a, b, w[15], 0x1fa27cf8, 16);
  SLICE_MD5_STEP(SLICE_MD5_H, b, c, d, a, w[2], 0xc4ac5665, 23);
  SLICE_MD5_STEP(SLICE_MD5_I, a, b, c, d, w[0], 0xf4292244, 6);
  SLICE_MD5_STEP(SLICE_MD5_I, d, a, b, c, w[7], 0x432aff97, 10);
  SLICE_MD5_STEP(SLICE_MD5_I, c, d, a, b, w[14], 0xab9423a7, 15);
  SLICE_MD5_STEP(SLICE_MD5_I, b, c, d, a, w[5], 0xfc93a039, 21);
  SLICE_MD5_STEP(SLICE_MD5_I, a, b, c, d, w[12], 0x655b59c3, 6);
  SLICE_MD5_STEP(SLICE_MD5_I, d, a, b, c, w[3], 0x8f0ccc92, 10);
  SLICE_MD5_STEP(SLICE_MD5_I, c, d, a, b, w[10], 0xffeff47d, 15);
  SLICE_MD5_STEP(SLICE_MD5_I, b, c, d, a, w[1], 0x85845dd1, 21);
  SLICE_MD5_STEP(SLICE_MD5_I, a, b, c, d, w[8], 0x6fa87e4f, 6);
  SLICE_MD5_STEP(SLICE_MD5_I, d, a, b, c, w[15], 0xfe2ce6e0, 10);
  SLICE_MD5_STEP(SLICE_MD5_I, c, d, a, b, w[6], 0xa3014314, 15);
  SLICE_MD5_STEP(SLICE_MD5_I, b, c, d, a, w[13], 0x4e0811a1, 21);
  SLICE_MD5_STEP(SLICE_MD5_I, a, b, c, d, w[4], 0xf7537e82, 6);
  SLICE_MD5_STEP(SLICE_MD5_I, d, a, b, c, w[11], 0xbd3af235, 10);
  SLICE_MD5_STEP(SLICE_MD5_I, c, d, a, b, w[2], 0x2ad7d2bb, 15);
  SLICE_MD5_STEP(SLICE_MD5_I, b, c, d, a, w[9], 0xeb86d391, 21);
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

// Blocks that `length` bytes and their padding take.
SLICE_INLINE uint32_t slice_md5_blocks(uint32_t length) {
  return (length + 9 + 63) / 64;
}

SLICE_INLINE void slice_md5_start(uint32_t state[4]) {
  state[0] = 0x67452301u;
  state[1] = 0xefcdab89u;
  state[2] = 0x98badcfeu;
  state[3] = 0x10325476u;
}

// MD5 of a name laid out; writes into its padding. Result: the digest's first 8
// bytes, read big-endian.
SLICE_VERIFIED_ONCE uint64_t slice_md5_name(struct slice_name_words* name) {
  if (!name) return 0;
  uint32_t* words = name->words;
  uint32_t length = name->length;
  uint32_t state[4];
  slice_md5_start(state);
  uint32_t blocks = slice_md5_blocks(length);
  uint8_t* bytes = (uint8_t*)words;
  bytes[length & (SLICE_NAME_WORDS * 4 - 1)] = 0x80;
  words[(blocks * 16 - 2) & (SLICE_NAME_WORDS - 1)] = SLICE_LE32(length * 8);
  for (uint32_t block = 0; block < SLICE_NAME_WORDS / 16; block++) {
    if (block >= blocks) break;
    slice_md5_block(state, words + 16 * block);
  }
  uint32_t high = SLICE_BE32(SLICE_LE32(state[0]));
  uint32_t low = SLICE_BE32(SLICE_LE32(state[1]));
  return (uint64_t)high << 32 | low;
}

#endif  // SLICE_BPF_SHARED_MD5_H
