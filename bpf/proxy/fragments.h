// Later IP fragments follow their first one, which alone has ports and RPC
// header. A table of single 64-bit words, so that racing processors see an old or
// a new entry, never half of one. Entries expire, since IP ids are used again.
#ifndef SLICE_BPF_PROXY_FRAGMENTS_H
#define SLICE_BPF_PROXY_FRAGMENTS_H

#include "bpf/proxy/packet.h"
#include "bpf/proxy/pending.h"
#include "bpf/proxy/rewrite.h"

// The id that fragments of one datagram share.
SLICE_INLINE uint32_t slice_ip_id(const struct slice_packet* packet) {
  if (!packet->is_ipv6) return slice_load16(packet->ip + SLICE_IP_ID);
  const uint8_t* id = packet->ip + SLICE_IP6_BYTES + SLICE_IP6_FRAGMENT_ID;
  return id + 4 <= packet->end ? slice_load32(id) : 0;  // which it is; the verifier does not know
}

SLICE_INLINE uint64_t slice_mix_addresses(const struct slice_packet* packet) {
  if (!packet->is_ipv6) return (uint64_t)packet->source << 32 | packet->destination;
  uint64_t mixed = 0;
  for (uint32_t at = SLICE_IP6_SOURCE; at < SLICE_IP6_BYTES; at += 8) {
    mixed = slice_mix64(mixed + slice_load64(packet->ip + at));
  }
  return mixed;
}

// 64 bits of (source, destination, IP id, interface, sender's hardware address): upper half
// the tag, lower 16 bits the key. A later fragment that comes by another way than its first,
// whose source was checked, does not follow it. (The eight bytes end with Ethernet's type.)
SLICE_INLINE uint64_t slice_fragment_hash(const struct slice_packet* packet) {
  uint64_t addresses = slice_mix_addresses(packet);
  uint64_t way = slice_mix64(slice_load64(packet->data + SLICE_ETH_SOURCE) ^ packet->ingress);
  return slice_mix64(addresses ^ way ^ ((uint64_t)slice_ip_id(packet) << 24));
}

SLICE_INLINE uint32_t slice_fragment_now(void) {
  return (uint32_t)(bpf_ktime_get_coarse_ns() >> SLICE_FRAGMENT_TIME_UNIT_SHIFT) & SLICE_FRAGMENT_TIME_MASK;
}

// Puts a word for the datagram of that hash. A function of its own, since few
// packets need it.
SLICE_VERIFIED_ONCE int slice_put_fragment(uint64_t hash, uint32_t kind, uint32_t index) {
  uint32_t key = (uint32_t)hash & (SLICE_FRAGMENT_ENTRIES - 1);
  uint64_t* entry = bpf_map_lookup_elem(&fragments, &key);
  if (!entry) return 0;
  uint64_t word = hash & ~0xffffffffULL;
  word |= (uint64_t)slice_fragment_now() << SLICE_FRAGMENT_TIME_SHIFT;
  word |= kind << SLICE_FRAGMENT_KIND_SHIFT | (index & SLICE_FRAGMENT_INDEX_MASK);
  *(volatile uint64_t*)entry = word;
  return 1;
}

// Notes where the fragments after this first one go, if there are any. Call it
// before addresses are rewritten.
SLICE_INLINE void slice_note_fragment(const struct slice_packet* packet, uint32_t kind, uint32_t index) {
  if (SLICE_UNLIKELY(!slice_is_whole(packet))) slice_put_fragment(slice_fragment_hash(packet), kind, index);
}

// A first fragment, or a whole datagram, that is not routed: what follows it
// shares its fate.
SLICE_INLINE int slice_refuse(const struct slice_packet* packet, uint32_t outcome) {
  if (SLICE_UNLIKELY(!slice_is_whole(packet)) && slice_outcome_action(outcome) == SLICE_ACTION_PASS) {
    slice_note_fragment(packet, SLICE_FRAGMENT_TO_STACK, 0);
  }
  return slice_stay(outcome);
}

// The table's word for this later fragment, or 0.
SLICE_INLINE uint64_t slice_find_fragment(const struct slice_packet* packet) {
  uint64_t hash = slice_fragment_hash(packet);
  uint32_t key = (uint32_t)hash & (SLICE_FRAGMENT_ENTRIES - 1);
  uint64_t* entry = bpf_map_lookup_elem(&fragments, &key);
  if (!entry) return 0;
  uint64_t word = *(volatile uint64_t*)entry;
  if ((word ^ hash) >> SLICE_FRAGMENT_TAG_SHIFT) return 0;
  uint32_t age =
      (slice_fragment_now() - (uint32_t)(word >> SLICE_FRAGMENT_TIME_SHIFT)) & SLICE_FRAGMENT_TIME_MASK;
  uint32_t life = (uint32_t)((SLICE_FRAGMENT_LIFE_MS * 1000000ULL) >> SLICE_FRAGMENT_TIME_UNIT_SHIFT);
  return age <= life ? word : 0;
}

// Hands a request's fragment that came before its first to user space.
SLICE_INLINE int slice_orphan_fragment(const struct slice_packet* packet) {
  struct slice_orphan* orphan = bpf_ringbuf_reserve(&orphans, sizeof(struct slice_orphan), 0);
  if (!orphan) return slice_stay(SLICE_OUTCOME_FRAGMENT_LOST);
  uint32_t length = slice_ip_total(packet) + SLICE_ETH_BYTES;
  if (length > SLICE_ORPHAN_MAX_BYTES || length < SLICE_ETH_BYTES + SLICE_IP_BYTES ||
      bpf_xdp_load_bytes(packet->ctx, 0, orphan->frame, length)) {
    bpf_ringbuf_discard(orphan, 0);
    return slice_stay(SLICE_OUTCOME_FRAGMENT_LOST);
  }
  orphan->ifindex = packet->ingress;
  orphan->length = length;
  bpf_ringbuf_submit(orphan, 0);
  return slice_stay(SLICE_OUTCOME_FRAGMENT_ORPHAN);
}

// A later fragment to the virtual address.
SLICE_INLINE int slice_request_fragment(struct slice_packet* packet) {
  uint64_t word = slice_find_fragment(packet);
  uint32_t kind = (uint32_t)(word >> SLICE_FRAGMENT_KIND_SHIFT) & SLICE_FRAGMENT_KIND_MASK;
  if (kind == SLICE_FRAGMENT_TO_STACK) return slice_stay(SLICE_OUTCOME_FRAGMENT_PASSED);
  if (kind != SLICE_FRAGMENT_TO_SERVER) return slice_orphan_fragment(packet);
  uint32_t index = (uint32_t)word & SLICE_FRAGMENT_INDEX_MASK;
  const struct slice_server* server = slice_server_at(packet, index);
  if (!server) return slice_stay(SLICE_OUTCOME_SITE_UNBOUND);
  slice_set_destination(packet, server);
  return slice_send_to_server(packet, server, SLICE_OUTCOME_FRAGMENT_REQUEST);
}

// A later fragment to some other address: of a reply, or none of ours.
SLICE_INLINE int slice_reply_fragment(struct slice_packet* packet) {
  uint64_t word = slice_find_fragment(packet);
  uint32_t kind = (uint32_t)(word >> SLICE_FRAGMENT_KIND_SHIFT) & SLICE_FRAGMENT_KIND_MASK;
  if (kind != SLICE_FRAGMENT_TO_CLIENT) return slice_stay(SLICE_OUTCOME_NOT_OURS);
  uint32_t key = (uint32_t)word & SLICE_FRAGMENT_INDEX_MASK;
  struct slice_pending call;
  // The entry may have gone to another request since: one of this client serves as well.
  if (!slice_copy_pending(packet, key, &call)) return slice_stay(SLICE_OUTCOME_REPLY_UNMATCHED);
  slice_set_source(packet);
  return slice_send_to_client(packet, &call, SLICE_OUTCOME_FRAGMENT_REPLY);
}

#endif  // SLICE_BPF_PROXY_FRAGMENTS_H
