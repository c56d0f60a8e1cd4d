// Ethernet, IP and UDP headers by offset, and what the program carries about
// one packet. Headers are no packed structs: those cost some 6 ns a packet.
#ifndef SLICE_BPF_PROXY_PACKET_H
#define SLICE_BPF_PROXY_PACKET_H

#include "bpf/proxy/maps.h"
#include "bpf/shared/base.h"

#define SLICE_ETH_DESTINATION 0
#define SLICE_ETH_SOURCE 6
#define SLICE_ETH_TYPE 12
#define SLICE_ETH_BYTES 14
#define SLICE_ETH_IPV4 0x0800
#define SLICE_ETH_IPV6 0x86dd

#define SLICE_IP_TOTAL_LENGTH 2
#define SLICE_IP_ID 4
#define SLICE_IP_FRAGMENT 6
#define SLICE_IP_TTL 8
#define SLICE_IP_PROTOCOL 9
#define SLICE_IP_CHECK 10
#define SLICE_IP_SOURCE 12
#define SLICE_IP_DESTINATION 16
#define SLICE_IP_PLAIN 0x45  // version 4, no options
#define SLICE_IP_BYTES 20
#define SLICE_IP_MORE_FRAGMENTS 0x2000
#define SLICE_IP_OFFSET_MASK 0x1fff

// RFC 8200
#define SLICE_IP6_LENGTH 4  // of what follows the header
#define SLICE_IP6_NEXT 6
#define SLICE_IP6_HOP_LIMIT 7
#define SLICE_IP6_SOURCE 8
#define SLICE_IP6_DESTINATION 24
#define SLICE_IP6_BYTES 40
#define SLICE_IP6_FRAGMENT_NEXT 0  // in the header of a fragment, behind IPv6's
#define SLICE_IP6_FRAGMENT_OFFSET 2
#define SLICE_IP6_FRAGMENT_MORE 0x1
#define SLICE_IP6_FRAGMENT_ID 4
#define SLICE_IP6_FRAGMENT_BYTES 8

#define SLICE_PROTOCOL_HOP_BY_HOP 0
#define SLICE_PROTOCOL_ICMP 1
#define SLICE_PROTOCOL_TCP 6
#define SLICE_PROTOCOL_UDP 17
#define SLICE_PROTOCOL_ROUTING 43
#define SLICE_PROTOCOL_FRAGMENT 44
#define SLICE_PROTOCOL_ESP 50
#define SLICE_PROTOCOL_AH 51
#define SLICE_PROTOCOL_ICMP6 58
#define SLICE_PROTOCOL_DESTINATION 60
#define SLICE_PROTOCOL_MOBILITY 135

#define SLICE_TCP_SOURCE 0
#define SLICE_TCP_DESTINATION 2
#define SLICE_TCP_PORTS_BYTES 4

#define SLICE_ICMP_TYPE 0
#define SLICE_ICMP_BYTES 8
#define SLICE_ICMP_UNREACHABLE 3   // RFC 792; "fragmentation needed" among them
#define SLICE_ICMP6_UNREACHABLE 1  // RFC 4443
#define SLICE_ICMP6_TOO_BIG 2

#define SLICE_UDP_SOURCE 0
#define SLICE_UDP_DESTINATION 2
#define SLICE_UDP_LENGTH 4
#define SLICE_UDP_CHECK 6
#define SLICE_UDP_BYTES 8

// One packet on its way: an IP header without options, checked to be readable. All of the code for IPv4 and
// IPv6 is one: `is_ipv6` is a constant wherever that code comes to stand, and of each copy only the branches
// of its family are left.
struct slice_packet {
  struct xdp_md* ctx;
  const struct slice_config* config;
  uint8_t* data;  // Ethernet header
  uint8_t* end;
  uint8_t* ip;
  uint8_t* udp;          // readable for later fragments only as far as checked
  uint8_t* payload;      // RPC message
  uint32_t source;       // memory order; of IPv4 alone
  uint32_t destination;  // the same
  uint16_t fragment;     // IPv4's fragment field in memory order; 0 or "don't fragment": whole
  uint32_t ingress;      // interface it came from
  uint64_t udp_sum;      // change of what the UDP checksum covers
  // Of IPv6 alone:
  int is_ipv6;
  uint32_t check;        // what the checksum is moved from, with SLICE_CHECK_KEPT where it stays unfilled
  uint64_t address_sum;  // change of the addresses, which is in udp_sum too
};

// Bytes of the IP header, with that of a fragment. packet->udp is set.
SLICE_INLINE uint32_t slice_ip_header(const struct slice_packet* packet) {
  return packet->is_ipv6 ? (uint32_t)(packet->udp - packet->ip) : SLICE_IP_BYTES;
}

// Bytes of the IP packet, as it says.
SLICE_INLINE uint32_t slice_ip_total(const struct slice_packet* packet) {
  if (packet->is_ipv6) return slice_be16(packet->ip + SLICE_IP6_LENGTH) + SLICE_IP6_BYTES;
  return slice_be16(packet->ip + SLICE_IP_TOTAL_LENGTH);
}

// The last four bytes of the addresses, memory order. Those of IPv6 are read again and not kept: stack is
// short.
SLICE_INLINE uint32_t slice_source_last(const struct slice_packet* packet) {
  return packet->is_ipv6 ? slice_load32(packet->ip + SLICE_IP6_SOURCE + 12) : packet->source;
}
SLICE_INLINE uint32_t slice_destination_last(const struct slice_packet* packet) {
  return packet->is_ipv6 ? slice_load32(packet->ip + SLICE_IP6_DESTINATION + 12) : packet->destination;
}

// The addresses in the header.
SLICE_INLINE const uint8_t* slice_source_of(const struct slice_packet* packet) {
  return packet->ip + (packet->is_ipv6 ? SLICE_IP6_SOURCE : SLICE_IP_SOURCE);
}
SLICE_INLINE const uint8_t* slice_destination_of(const struct slice_packet* packet) {
  return packet->ip + (packet->is_ipv6 ? SLICE_IP6_DESTINATION : SLICE_IP_DESTINATION);
}

SLICE_INLINE int slice_is_virtual_ipv6(const struct slice_config6* volume, const uint8_t* address) {
  return slice_load64(address) == slice_load64(volume->virtual_ipv6) &&
         slice_load64(address + 8) == slice_load64(volume->virtual_ipv6 + 8);
}

SLICE_INLINE int slice_is_whole(const struct slice_packet* packet) {
  return !(packet->fragment & SLICE_BE16(SLICE_IP_MORE_FRAGMENTS | SLICE_IP_OFFSET_MASK));
}

SLICE_INLINE int slice_is_later_fragment(const struct slice_packet* packet) {
  return (packet->fragment & SLICE_BE16(SLICE_IP_OFFSET_MASK)) != 0;
}

// Bytes of the frame from the IP header, which must be readable. Lengths are held against this and
// not added to a packet pointer: verifiers up to Linux 6.12 take a 16-bit number whose bytes were
// swapped for one without bounds.
SLICE_INLINE uint64_t slice_ip_bytes(const struct slice_packet* packet) {
  return (uint64_t)(packet->end - packet->ip);
}

// Checks lengths of the UDP header against IP's and the frame's. Needs the UDP
// header to be readable. Result: 0 or an outcome.
SLICE_INLINE uint32_t slice_check_lengths(const struct slice_packet* packet) {
  uint32_t total = slice_ip_total(packet);
  uint32_t length = slice_be16(packet->udp + SLICE_UDP_LENGTH);
  if (SLICE_LIKELY(slice_is_whole(packet))) {
    if (SLICE_UNLIKELY(total != length + slice_ip_header(packet))) return SLICE_OUTCOME_MALFORMED;
  } else if (length < total - slice_ip_header(packet)) {
    return SLICE_OUTCOME_MALFORMED;
  }
  if (SLICE_UNLIKELY(total < slice_ip_bytes(packet))) return SLICE_OUTCOME_TRAILER;
  return 0;
}

// TRUNCATED when the datagram is short of its arguments, NOT_LINEAR when only
// the directly readable part of the frame is.
SLICE_INLINE uint32_t slice_why_short(const struct slice_packet* packet, uint32_t outcome) {
  if (outcome != SLICE_OUTCOME_TRUNCATED && outcome != SLICE_OUTCOME_REPLY_MALFORMED) return outcome;
  return slice_ip_total(packet) > slice_ip_bytes(packet) ? SLICE_OUTCOME_NOT_LINEAR : outcome;
}

#endif  // SLICE_BPF_PROXY_PACKET_H
