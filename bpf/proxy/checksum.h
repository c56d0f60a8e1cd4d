// The UDP checksum of what is sent on. It moves by the difference (RFC 1624), and nothing is summed anew, but
// for what comes unfilled over IPv6.
//
// Unfilled: the sender left the sum to hardware that a veth does not have (CHECKSUM_PARTIAL), and the field
// holds the pseudo-header's sum. Over IPv4 the field becomes "none"; over IPv6 there is no such thing (RFC
// 8200). There a generic program leaves it unfilled, since the kernel still knows what has to be done with
// that packet; a native one's frame has lost that, and is summed.
#ifndef SLICE_BPF_PROXY_CHECKSUM_H
#define SLICE_BPF_PROXY_CHECKSUM_H

#include "bpf/proxy/packet.h"

#define SLICE_CHECK_KEPT 0x10000u
#define SLICE_SUM_PIECE 512u  // bytes that are summed at a time: the most that Linux 6.1 does
SLICE_STATIC_ASSERT(SLICE_SUM_PIECE <= sizeof(((struct slice_name_words*)0)->words), "they have room");

// The sum of both addresses.
SLICE_INLINE uint64_t slice_address_sum(const struct slice_packet* packet) {
  if (!packet->is_ipv6) return (uint64_t)packet->source + packet->destination;
  uint64_t sum = 0;
  for (uint32_t at = SLICE_IP6_SOURCE; at < SLICE_IP6_BYTES; at += 4) sum += slice_load32(packet->ip + at);
  return sum;
}

// Whether the checksum field holds only the pseudo-header's sum. `packet`'s addresses are still the sender's.
// One full checksum of 65,535 looks so too.
SLICE_INLINE int slice_checksum_is_unfilled(const struct slice_packet* packet, uint16_t check) {
  uint64_t pseudo = slice_address_sum(packet) + slice_load16(packet->udp + SLICE_UDP_LENGTH) +
                    SLICE_BE16(SLICE_PROTOCOL_UDP);
  return slice_is_whole(packet) && slice_csum_is_zero(pseudo + 0xffff - check);
}

// The sum of `length` bytes at `offset` of the frame, folded, with bit 16 set; 0 where the frame is shorter,
// or that is more than SLICE_MAX_SUMMED. Piece by piece, copied, since a verifier follows that better than a
// pointer into the packet.
SLICE_VERIFIED_ONCE uint32_t slice_sum_frame(struct xdp_md* ctx, uint32_t offset, uint32_t length) {
  uint32_t zero = 0, sum = 0;
  struct slice_name_words* memory = bpf_map_lookup_elem(&scratch, &zero);
  if (!memory || length > SLICE_MAX_SUMMED) return 0;
  uint32_t* piece = memory->words;
  for (uint32_t i = 0; i < SLICE_MAX_SUMMED / SLICE_SUM_PIECE; i++) {
    if (length == 0) break;
    uint32_t bytes = SLICE_SUM_PIECE;
    if (length < SLICE_SUM_PIECE) bytes = slice_masked(length - 1, SLICE_SUM_PIECE - 1) + 1;
    piece[slice_masked(bytes / 4, SLICE_NAME_WORDS - 1)] = 0;  // behind an odd end
    if (bpf_xdp_load_bytes(ctx, offset, piece, bytes)) return 0;
    sum = (uint32_t)bpf_csum_diff(0, 0, piece, slice_masked(bytes + 3, ~3u), sum);
    offset += bytes;
    length -= bytes;
  }
  return 0x10000 | slice_csum_fold(sum);
}

// What the checksum of a packet of IPv6 is moved from, and how. Before anything in it is changed. Result: 0
// or an outcome.
SLICE_INLINE uint32_t slice_examine_checksum(struct slice_packet* packet) {
  if (!packet->is_ipv6) return 0;
  uint16_t check = slice_load16(packet->udp + SLICE_UDP_CHECK);
  packet->check = check;
  if (SLICE_UNLIKELY(check == 0)) return SLICE_OUTCOME_NO_CHECKSUM;
  if ((packet->config->flags & SLICE_CONFIG_CARDS) || !slice_checksum_is_unfilled(packet, check)) return 0;
  uint32_t sum = slice_sum_frame(packet->ctx, (uint32_t)(packet->udp - packet->data),
                                 slice_be16(packet->udp + SLICE_UDP_LENGTH));
  if (SLICE_UNLIKELY(sum == 0)) return SLICE_OUTCOME_NOT_SUMMED;
  // What was summed has the field in it, and with it the pseudo-header's sum. A full checksum that looks like
  // that makes the whole 0.
  if (slice_csum_is_zero((sum & 0xffff) + (uint64_t)check)) return 0;
  uint32_t ingress = packet->ingress;
  if (bpf_map_lookup_elem(&generic, &ingress)) {
    packet->check = check | SLICE_CHECK_KEPT;
    return 0;
  }
  uint16_t filled = (uint16_t)~sum;
  packet->check = filled ? filled : 0xffff;
  slice_count(SLICE_OUTCOME_CHECKSUM_SUMMED);
  return 0;
}

// Over IPv4: none (0) stays none, and an unfilled one becomes none.
SLICE_INLINE void slice_finish_ipv4_checksum(struct slice_packet* packet) {
  uint16_t check = slice_load16(packet->udp + SLICE_UDP_CHECK);
  if (SLICE_UNLIKELY(check == 0)) return;
  if (!(packet->config->flags & SLICE_CONFIG_CARDS) && slice_checksum_is_unfilled(packet, check)) {
    slice_count(SLICE_OUTCOME_CHECKSUM_CLEARED);
    check = 0;
  } else {
    check = slice_csum_apply_udp(check, packet->udp_sum);
  }
  slice_store16(packet->udp + SLICE_UDP_CHECK, check);
}

// Over IPv6, as slice_examine_checksum() has found.
SLICE_INLINE void slice_finish_ipv6_checksum(struct slice_packet* packet) {
  uint16_t check = (uint16_t)packet->check;
  if (SLICE_UNLIKELY(packet->check & SLICE_CHECK_KEPT)) {
    slice_count(SLICE_OUTCOME_CHECKSUM_KEPT);
    check = slice_csum_fold(check + packet->address_sum);
  } else {
    check = slice_csum_apply_udp(check, packet->udp_sum);
  }
  slice_store16(packet->udp + SLICE_UDP_CHECK, check);
}

// Moves the UDP checksum by all that changed.
SLICE_INLINE void slice_finish_udp_checksum(struct slice_packet* packet) {
  if (packet->is_ipv6) {
    slice_finish_ipv6_checksum(packet);
  } else {
    slice_finish_ipv4_checksum(packet);
  }
}

#endif  // SLICE_BPF_PROXY_CHECKSUM_H
