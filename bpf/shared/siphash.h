// SipHash (Aumasson, Bernstein 2012), keyed with 16 bytes:
//   slice_siphash_128   SipHash-2-4 with 16 bytes of output, over memory: the MAC of file handles
//   slice_siphash_64    SipHash-c-d with 8 bytes of output, over memory
//   slice_siphash13_name  SipHash-1-3 of (fileID, name) laid out by name_words.h, for name hashing
// Keys and outputs are little-endian byte strings, as in the reference.
#ifndef SLICE_BPF_SHARED_SIPHASH_H
#define SLICE_BPF_SHARED_SIPHASH_H

#include "bpf/shared/base.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/name_words.h"

#define SLICE_ROTL64(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

#define SLICE_SIP_ROUND(v0, v1, v2, v3) \
  do {                                  \
    v0 += v1;                           \
    v1 = SLICE_ROTL64(v1, 13);          \
    v1 ^= v0;                           \
    v0 = SLICE_ROTL64(v0, 32);          \
    v2 += v3;                           \
    v3 = SLICE_ROTL64(v3, 16);          \
    v3 ^= v2;                           \
    v0 += v3;                           \
    v3 = SLICE_ROTL64(v3, 21);          \
    v3 ^= v0;                           \
    v2 += v1;                           \
    v1 = SLICE_ROTL64(v1, 17);          \
    v1 ^= v2;                           \
    v2 = SLICE_ROTL64(v2, 32);          \
  } while (0)

#ifndef __bpf__

struct slice_sip_state {
  uint64_t v0, v1, v2, v3;
};

SLICE_INLINE void slice_sip_rounds(struct slice_sip_state* s, int rounds) {
  for (int i = 0; i < rounds; i++) SLICE_SIP_ROUND(s->v0, s->v1, s->v2, s->v3);
}

SLICE_INLINE struct slice_sip_state slice_sip_absorb(const uint8_t key[16], const uint8_t* data,
                                                     size_t length, int rounds, uint64_t tweak) {
  uint64_t k0 = SLICE_LE64(slice_load64(key));
  uint64_t k1 = SLICE_LE64(slice_load64(key + 8));
  struct slice_sip_state s;
  s.v0 = k0 ^ 0x736f6d6570736575ULL;
  s.v1 = k1 ^ 0x646f72616e646f6dULL ^ tweak;
  s.v2 = k0 ^ 0x6c7967656e657261ULL;
  s.v3 = k1 ^ 0x7465646279746573ULL;
  size_t whole = length & ~(size_t)7;
  for (size_t i = 0; i < whole; i += 8) {
    uint64_t m = SLICE_LE64(slice_load64(data + i));
    s.v3 ^= m;
    slice_sip_rounds(&s, rounds);
    s.v0 ^= m;
  }
  uint64_t last = (uint64_t)length << 56;
  for (size_t i = whole; i < length; i++) last |= (uint64_t)data[i] << (8 * (i - whole));
  s.v3 ^= last;
  slice_sip_rounds(&s, rounds);
  s.v0 ^= last;
  return s;
}

// SipHash-c-d of `length` bytes, 8 bytes of output as a number.
SLICE_INLINE uint64_t slice_siphash_64(const uint8_t key[16], const void* data, size_t length,
                                       int compression, int finalization) {
  struct slice_sip_state s = slice_sip_absorb(key, (const uint8_t*)data, length, compression, 0);
  s.v2 ^= 0xff;
  slice_sip_rounds(&s, finalization);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// SipHash-2-4 of `length` bytes, 16 bytes of output into `out`.
SLICE_INLINE void slice_siphash_128(const uint8_t key[16], const void* data, size_t length, uint8_t out[16]) {
  struct slice_sip_state s = slice_sip_absorb(key, (const uint8_t*)data, length, 2, 0xee);
  s.v2 ^= 0xee;
  slice_sip_rounds(&s, 4);
  slice_store64(out, SLICE_LE64(s.v0 ^ s.v1 ^ s.v2 ^ s.v3));
  s.v1 ^= 0xdd;
  slice_sip_rounds(&s, 4);
  slice_store64(out + 8, SLICE_LE64(s.v0 ^ s.v1 ^ s.v2 ^ s.v3));
}

#endif  // __bpf__

// SipHash-1-3, 64 bits, of a name laid out, under its key. Equal to
// slice_siphash_64(key, fileID || name, 8 + length, 1, 3).
SLICE_VERIFIED_ONCE uint64_t slice_siphash13_name(struct slice_name_words* name) {
  if (!name) return 0;
  const uint8_t* key = name->key;
  const uint32_t* words = name->words;
  uint32_t length = name->length;
  uint64_t k0 = SLICE_LE64(slice_load64(key));
  uint64_t k1 = SLICE_LE64(slice_load64(key + 8));
  uint64_t v0 = k0 ^ 0x736f6d6570736575ULL;
  uint64_t v1 = k1 ^ 0x646f72616e646f6dULL;
  uint64_t v2 = k0 ^ 0x6c7967656e657261ULL;
  uint64_t v3 = k1 ^ 0x7465646279746573ULL;
  uint64_t m;
  for (uint32_t i = 0; i < SLICE_NAME_WORDS / 2; i++) {
    if (8 * i + 8 > length) break;
    m = SLICE_LE64(slice_load64(words + 2 * i));
    v3 ^= m;
    SLICE_SIP_ROUND(v0, v1, v2, v3);
    v0 ^= m;
  }
  m = SLICE_LE64(slice_load64(words + (length / 8 * 2 & (SLICE_NAME_WORDS - 2))));
  m |= (uint64_t)(uint8_t)length << 56;
  v3 ^= m;
  SLICE_SIP_ROUND(v0, v1, v2, v3);
  v0 ^= m;
  v2 ^= 0xff;
  SLICE_SIP_ROUND(v0, v1, v2, v3);
  SLICE_SIP_ROUND(v0, v1, v2, v3);
  SLICE_SIP_ROUND(v0, v1, v2, v3);
  return v0 ^ v1 ^ v2 ^ v3;
}

#endif  // SLICE_BPF_SHARED_SIPHASH_H
