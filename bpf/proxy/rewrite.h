// Addresses: what changes in every packet that is sent on. IPv4's checksum moves with them (RFC 1624), UDP's
// in the end.
#ifndef SLICE_BPF_PROXY_REWRITE_H
#define SLICE_BPF_PROXY_REWRITE_H

#include "bpf/proxy/checksum.h"
#include "bpf/proxy/packet.h"

// Puts an address at the IPv4 header's `at`. UDP's pseudo-header has it too.
SLICE_INLINE void slice_rewrite_ipv4(struct slice_packet* packet, uint32_t at, const uint8_t* address) {
  uint64_t sum = 0;
  slice_replace32(packet->ip + at, slice_load32(address), &sum);
  packet->udp_sum += sum;
  slice_store16(packet->ip + SLICE_IP_CHECK,
                slice_csum_apply(slice_load16(packet->ip + SLICE_IP_CHECK), sum));
}

// The same of IPv6, whose header has no checksum.
SLICE_INLINE void slice_rewrite_ipv6(struct slice_packet* packet, uint32_t at, const uint8_t* address) {
  slice_replace64(packet->ip + at, slice_load64(address), &packet->address_sum);
  slice_replace64(packet->ip + at + 8, slice_load64(address + 8), &packet->address_sum);
  packet->udp_sum += packet->address_sum;
}

// Re-addresses a request. `server` is an entry of the packet's family.
SLICE_INLINE void slice_set_destination(struct slice_packet* packet, const struct slice_server* server) {
  if (packet->is_ipv6) {
    slice_rewrite_ipv6(packet, SLICE_IP6_DESTINATION, ((const struct slice_server6*)server)->ipv6);
  } else {
    slice_rewrite_ipv4(packet, SLICE_IP_DESTINATION, server->ipv4);
  }
}

// Makes a reply one of the virtual address.
SLICE_INLINE void slice_set_source(struct slice_packet* packet) {
  if (packet->is_ipv6) {
    uint32_t zero = 0;
    const struct slice_config6* volume = bpf_map_lookup_elem(&config6, &zero);
    if (volume) slice_rewrite_ipv6(packet, SLICE_IP6_SOURCE, volume->virtual_ipv6);
  } else {
    slice_rewrite_ipv4(packet, SLICE_IP_SOURCE, packet->config->virtual_ipv4);
  }
}

// Puts `port` (memory order) at the UDP header's `at`.
SLICE_INLINE void slice_rewrite_port(struct slice_packet* packet, uint32_t at, uint16_t port) {
  packet->udp_sum += (uint16_t)~slice_load16(packet->udp + at);
  packet->udp_sum += port;
  slice_store16(packet->udp + at, port);
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
  if (packet->is_ipv6) slice_count(SLICE_OUTCOME_OVER_IPV6);
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
