// Addresses and checksums: what changes in every packet that is sent on.
// All checksums move by the difference (RFC 1624); nothing is summed anew.
#ifndef SLICE_BPF_PROXY_REWRITE_H
#define SLICE_BPF_PROXY_REWRITE_H

#include "bpf/proxy/packet.h"

// Puts `address` (memory order) at the IP header's `at` (source or destination).
SLICE_INLINE void slice_rewrite_ip(struct slice_packet* packet, uint32_t at, uint32_t address) {
  uint64_t sum = 0;
  slice_replace32(packet->ip + at, address, &sum);
  packet->udp_sum += sum;  // the pseudo-header has the address too
  slice_store16(packet->ip + SLICE_IP_CHECK,
                slice_csum_apply(slice_load16(packet->ip + SLICE_IP_CHECK), sum));
}

// Puts `port` (memory order) at the UDP header's `at`.
SLICE_INLINE void slice_rewrite_port(struct slice_packet* packet, uint32_t at, uint16_t port) {
  packet->udp_sum += (uint16_t)~slice_load16(packet->udp + at);
  packet->udp_sum += port;
  slice_store16(packet->udp + at, port);
}

// Whether the checksum field holds only the pseudo-header's sum: the sender left
// the rest to hardware that a veth does not have (CHECKSUM_PARTIAL). `packet`'s
// addresses are still the sender's.
SLICE_INLINE int slice_checksum_is_unfilled(const struct slice_packet* packet, uint16_t check) {
  uint64_t pseudo = (uint64_t)packet->source + packet->destination +
                    slice_load16(packet->udp + SLICE_UDP_LENGTH) + SLICE_BE16(SLICE_PROTOCOL_UDP);
  return slice_is_whole(packet) && slice_csum_is_zero(pseudo + 0xffff - check);
}

// Moves the UDP checksum by all that changed. None (0) stays none; an unfilled
// one becomes none, which IPv4 allows.
SLICE_INLINE void slice_finish_udp_checksum(struct slice_packet* packet) {
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

// Sends the frame to a neighbour. `macs` and `more_macs` are the 12 bytes of
// destination and source address. By redirect even where it came from, unless
// that is a network card: XDP_TX needs a program on a veth's peer, else frames
// stick in its ring.
SLICE_INLINE int slice_send(struct slice_packet* packet, uint32_t ifindex, uint64_t macs, uint32_t more_macs,
                            uint32_t outcome) {
  slice_store64(packet->data, macs);
  slice_store32(packet->data + 8, more_macs);
  int back = (packet->config->flags & SLICE_CONFIG_CARDS) && ifindex == packet->ingress;
  slice_count(outcome);  // last, when nothing but this and the interface has to be kept over the call
  return back ? XDP_TX : (int)bpf_redirect(ifindex, 0);
}

// Sends a re-addressed request to its server.
SLICE_INLINE int slice_send_to_server(struct slice_packet* packet, const struct slice_server* server,
                                      uint32_t outcome) {
  if (SLICE_UNLIKELY(server->ifindex == 0)) return slice_stay(SLICE_OUTCOME_NO_NEXT_HOP);
  return slice_send(packet, server->ifindex, slice_load64(server->next_hop_mac),
                    slice_load32(server->next_hop_mac + 8), outcome);
}

// Sends a re-addressed reply where its request came from; the two MAC addresses
// change places.
SLICE_INLINE int slice_send_to_client(struct slice_packet* packet, const struct slice_pending* call,
                                      uint32_t outcome) {
  uint64_t client = slice_load32(call->client_mac) | (uint64_t)slice_load16(call->client_mac + 4) << 32;
  uint64_t macs = client | (uint64_t)slice_load16(call->proxy_mac) << 48;
  return slice_send(packet, call->ifindex, macs, slice_load32(call->proxy_mac + 2), outcome);
}

#endif  // SLICE_BPF_PROXY_REWRITE_H
