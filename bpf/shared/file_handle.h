// The 56-byte file handle: layout, minting, checking and the proxy's hint.
// docs/formats/file-handle.md is the specification. Big-endian throughout.
#ifndef SLICE_BPF_SHARED_FILE_HANDLE_H
#define SLICE_BPF_SHARED_FILE_HANDLE_H

#include "bpf/shared/base.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/siphash.h"

#define SLICE_HANDLE_VERSION 1u  // of the layout and of the volume's MAC key

// Offsets in bytes.
#define SLICE_HANDLE_AT_VERSION 0u
#define SLICE_HANDLE_AT_TYPE 1u
#define SLICE_HANDLE_AT_FLAGS 2u
#define SLICE_HANDLE_AT_STRIPE_SHIFT 3u
#define SLICE_HANDLE_AT_VOLUME 4u
#define SLICE_HANDLE_AT_FILEID 8u
// Two bytes each: the site, which is below 2^15, had all four before there were trees.
#define SLICE_HANDLE_AT_TREE 16u
#define SLICE_HANDLE_AT_SITE 18u
#define SLICE_HANDLE_AT_GENERATION 20u
#define SLICE_HANDLE_AT_CELL_KEY 24u
#define SLICE_HANDLE_AT_HINT 32u
#define SLICE_HANDLE_AT_MAC 40u
#define SLICE_HANDLE_MAC_SIZE 16u
SLICE_STATIC_ASSERT(SLICE_HANDLE_AT_MAC + SLICE_HANDLE_MAC_SIZE == SLICE_HANDLE_SIZE, "handle layout");

// Flags.
#define SLICE_HANDLE_MIRRORED 0x01u
#define SLICE_HANDLE_BLOCK_MAPPED 0x02u  // its coordinator's block map says where its stripes are
#define SLICE_HANDLE_THREE_COPIES 0x04u  // of a mirrored file; else two
#define SLICE_HANDLE_OPENERS 0x08u  // good for one truncation epoch, which stands in place of the cell key

// The hint: soft state from the proxy, outside the MAC.
#define SLICE_HINT_CAN_PATCH (1ULL << 63)   // the proxy can patch the reply's attributes
#define SLICE_HINT_SIZE_VALID (1ULL << 62)  // the low 62 bits are the file's size
#define SLICE_HINT_SIZE_MASK (SLICE_HINT_SIZE_VALID - 1)

// A handle in host order.
struct slice_handle {
  uint8_t version;
  uint8_t type;          // ftype3
  uint8_t flags;         // SLICE_HANDLE_*
  uint8_t stripe_shift;  // log2 of the stripe unit's bytes
  uint32_t volume;
  uint64_t fileid;
  uint16_t tree;  // that the file is in; 0: the volume outside all of them
  uint16_t site;  // directory site of the attribute cell
  uint32_t generation;
  uint64_t
      cell_key;  // fingerprint of (parent fileID, name) at creation; 0 for the root. An opener's: the epoch
  uint64_t hint;
  uint8_t mac[SLICE_HANDLE_MAC_SIZE];
};
SLICE_STATIC_ASSERT(sizeof(struct slice_handle) == SLICE_HANDLE_SIZE, "no padding");

// On how many servers each byte of the file is.
SLICE_INLINE uint32_t slice_handle_copies(uint32_t flags) {
  if (!(flags & SLICE_HANDLE_MIRRORED)) return 1;
  return flags & SLICE_HANDLE_THREE_COPIES ? 3 : 2;
}

// Whether its coordinator says which servers have what; else the tables alone do.
SLICE_INLINE int slice_handle_has_layout(uint32_t flags) {
  return (flags & (SLICE_HANDLE_MIRRORED | SLICE_HANDLE_BLOCK_MAPPED)) != 0;
}

SLICE_INLINE uint8_t slice_handle_flags_of_copies(uint32_t copies) {
  if (copies < 2) return 0;
  return copies > 2 ? SLICE_HANDLE_MIRRORED | SLICE_HANDLE_THREE_COPIES : SLICE_HANDLE_MIRRORED;
}

// The hint that says "can patch", with the size when it fits in 62 bits.
SLICE_INLINE uint64_t slice_hint_encode(int can_patch, int size_valid, uint64_t size) {
  uint64_t hint = can_patch ? SLICE_HINT_CAN_PATCH : 0;
  if (size_valid && size <= SLICE_HINT_SIZE_MASK) hint |= SLICE_HINT_SIZE_VALID | size;
  return hint;
}

SLICE_INLINE int slice_hint_can_patch(uint64_t hint) {
  return (hint & SLICE_HINT_CAN_PATCH) != 0;
}

// Whether the hint holds a size; writes it to *size (bytes) if so.
SLICE_INLINE int slice_hint_size(uint64_t hint, uint64_t* size) {
  if (!(hint & SLICE_HINT_SIZE_VALID)) return 0;
  *size = hint & SLICE_HINT_SIZE_MASK;
  return 1;
}

// Reads the 56 bytes at `wire`; checks nothing (slice_handle_check_mac does).
SLICE_INLINE void slice_handle_decode(const uint8_t* wire, struct slice_handle* handle) {
  handle->version = wire[SLICE_HANDLE_AT_VERSION];
  handle->type = wire[SLICE_HANDLE_AT_TYPE];
  handle->flags = wire[SLICE_HANDLE_AT_FLAGS];
  handle->stripe_shift = wire[SLICE_HANDLE_AT_STRIPE_SHIFT];
  handle->volume = slice_be32(wire + SLICE_HANDLE_AT_VOLUME);
  handle->fileid = slice_be64(wire + SLICE_HANDLE_AT_FILEID);
  handle->tree = slice_be16(wire + SLICE_HANDLE_AT_TREE);
  handle->site = slice_be16(wire + SLICE_HANDLE_AT_SITE);
  handle->generation = slice_be32(wire + SLICE_HANDLE_AT_GENERATION);
  handle->cell_key = slice_be64(wire + SLICE_HANDLE_AT_CELL_KEY);
  handle->hint = slice_be64(wire + SLICE_HANDLE_AT_HINT);
  for (uint32_t i = 0; i < SLICE_HANDLE_MAC_SIZE; i++) handle->mac[i] = wire[SLICE_HANDLE_AT_MAC + i];
}

// Writes all 56 bytes, hint and mac as they stand in `handle`.
SLICE_INLINE void slice_handle_encode(const struct slice_handle* handle, uint8_t* wire) {
  wire[SLICE_HANDLE_AT_VERSION] = handle->version;
  wire[SLICE_HANDLE_AT_TYPE] = handle->type;
  wire[SLICE_HANDLE_AT_FLAGS] = handle->flags;
  wire[SLICE_HANDLE_AT_STRIPE_SHIFT] = handle->stripe_shift;
  slice_put_be32(wire + SLICE_HANDLE_AT_VOLUME, handle->volume);
  slice_put_be64(wire + SLICE_HANDLE_AT_FILEID, handle->fileid);
  slice_put_be32(wire + SLICE_HANDLE_AT_TREE, (uint32_t)handle->tree << 16 | handle->site);
  slice_put_be32(wire + SLICE_HANDLE_AT_GENERATION, handle->generation);
  slice_put_be64(wire + SLICE_HANDLE_AT_CELL_KEY, handle->cell_key);
  slice_put_be64(wire + SLICE_HANDLE_AT_HINT, handle->hint);
  for (uint32_t i = 0; i < SLICE_HANDLE_MAC_SIZE; i++) wire[SLICE_HANDLE_AT_MAC + i] = handle->mac[i];
}

#ifndef __bpf__

// MAC of the handle at `wire`: SipHash-2-4-128 of the bytes before the hint,
// under the volume's key of the handle's version.
SLICE_INLINE void slice_handle_mac(const uint8_t key[16], const uint8_t* wire, uint8_t mac[16]) {
  slice_siphash_128(key, wire, SLICE_HANDLE_AT_HINT, mac);
}

// Encodes `handle` with hint 0 and its MAC: what a directory server gives to clients.
SLICE_INLINE void slice_handle_mint(const struct slice_handle* handle, const uint8_t key[16], uint8_t* wire) {
  slice_handle_encode(handle, wire);
  slice_put_be64(wire + SLICE_HANDLE_AT_HINT, 0);
  slice_handle_mac(key, wire, wire + SLICE_HANDLE_AT_MAC);
}

// Whether the MAC is right; in time independent of where it differs.
SLICE_INLINE int slice_handle_check_mac(const uint8_t key[16], const uint8_t* wire) {
  uint8_t mac[16];
  slice_handle_mac(key, wire, mac);
  uint32_t difference = 0;
  for (uint32_t i = 0; i < SLICE_HANDLE_MAC_SIZE; i++) {
    difference |= (uint32_t)(mac[i] ^ wire[SLICE_HANDLE_AT_MAC + i]);
  }
  return difference == 0;
}

#endif  // __bpf__

#endif  // SLICE_BPF_SHARED_FILE_HANDLE_H
