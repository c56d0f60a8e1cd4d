// (fileID, name) laid out as words for hashing: 8 big-endian bytes of fileID,
// then the name's, then zeros. Copied out of the packet first, because the
// verifier then checks the hash itself once and not once for every length.
#ifndef SLICE_BPF_SHARED_NAME_WORDS_H
#define SLICE_BPF_SHARED_NAME_WORDS_H

#include "bpf/shared/base.h"
#include "bpf/shared/limits.h"

// Words of the scratch memory: the longest name with fileID and hash padding
// takes 5 blocks of 16; a power of two, for masks.
#define SLICE_NAME_WORDS 128u

// One name laid out, with all that its hash depends on.
struct slice_name_words {
  uint32_t words[SLICE_NAME_WORDS];  // memory order
  uint8_t key[16];                   // of siphash13
  uint32_t length;                   // bytes of input: 8 + the name's
  uint32_t reserved;
};

// Lays out (fileid, name) in `out`, zero up to the end of the 64-byte block that
// 9 bytes of padding reach. `length` is at most SLICE_MAX_NAME; `end` is the end
// of readable memory, before which the name must lie.
SLICE_INLINE void slice_name_lay_out(struct slice_name_words* out, uint64_t fileid, const uint8_t* name,
                                     uint32_t length, const uint8_t* end) {
  uint32_t* words = out->words;
  words[0] = SLICE_BE32((uint32_t)(fileid >> 32));
  words[1] = SLICE_BE32((uint32_t)fileid);
  length = slice_masked(length, 0xff);
  uint32_t whole = length / 4;
  const uint8_t* p = name;
  for (uint32_t i = 0; i < SLICE_MAX_NAME / 4; i++) {
    SLICE_HIDE(p);
    if (i >= whole || p + 4 > end) break;
    words[2 + i] = slice_load32(p);
    p += 4;
  }
  uint32_t at = whole + 2;
  uint32_t stop = (length + 8 + 9 + 63) / 64 * 16;
  for (uint32_t i = 0; i < 18; i++) {
    if (at + i >= stop) break;
    words[slice_masked(at + i, SLICE_NAME_WORDS - 1)] = 0;
  }
  uint8_t* bytes = (uint8_t*)(words + slice_masked(at, SLICE_NAME_WORDS - 1));
  for (uint32_t i = 0; i < 3; i++) {
    SLICE_HIDE(p);
    if (i >= (length & 3) || p + 1 > end) break;
    bytes[i] = *p;
    p += 1;
  }
  out->length = length + 8;
}

#endif  // SLICE_BPF_SHARED_NAME_WORDS_H
