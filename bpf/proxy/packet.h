// Ethernet, IPv4 and UDP headers by offset, and what the program carries about
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
#define SLICE_PROTOCOL_ICMP 1
#define SLICE_PROTOCOL_TCP 6
#define SLICE_PROTOCOL_UDP 17

#define SLICE_TCP_SOURCE 0
#define SLICE_TCP_DESTINATION 2
#define SLICE_TCP_PORTS_BYTES 4

#define SLICE_ICMP_TYPE 0
#define SLICE_ICMP_BYTES 8
#define SLICE_ICMP_UNREACHABLE 3  // RFC 792; "fragmentation needed" among them

#define SLICE_UDP_SOURCE 0
#define SLICE_UDP_DESTINATION 2
#define SLICE_UDP_LENGTH 4
#define SLICE_UDP_CHECK 6
#define SLICE_UDP_BYTES 8

// One packet on its way: an IPv4 header without options, checked to be readable.
struct slice_packet {
  struct xdp_md* ctx;
  const struct slice_config* config;
  uint8_t* data;  // Ethernet header
  uint8_t* end;
  uint8_t* ip;
  uint8_t* udp;          // readable for later fragments only as far as checked
  uint8_t* payload;      // RPC message
  uint32_t source;       // memory order
  uint32_t destination;  // memory order
  uint16_t fragment;     // IP fragment field in memory order; 0 or "don't fragment": whole
  uint32_t ingress;      // interface it came from
  uint64_t udp_sum;      // change of what the UDP checksum covers
};

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
  uint32_t total = slice_be16(packet->ip + SLICE_IP_TOTAL_LENGTH);
  uint32_t length = slice_be16(packet->udp + SLICE_UDP_LENGTH);
  if (SLICE_LIKELY(slice_is_whole(packet))) {
    if (SLICE_UNLIKELY(total != length + SLICE_IP_BYTES)) return SLICE_OUTCOME_MALFORMED;
  } else if (length < total - SLICE_IP_BYTES) {
    return SLICE_OUTCOME_MALFORMED;
  }
  if (SLICE_UNLIKELY(total < slice_ip_bytes(packet))) return SLICE_OUTCOME_TRAILER;
  return 0;
}

// TRUNCATED when the datagram is short of its arguments, NOT_LINEAR when only
// the directly readable part of the frame is.
SLICE_INLINE uint32_t slice_why_short(const struct slice_packet* packet, uint32_t outcome) {
  if (outcome != SLICE_OUTCOME_TRUNCATED && outcome != SLICE_OUTCOME_REPLY_MALFORMED) return outcome;
  uint32_t total = slice_be16(packet->ip + SLICE_IP_TOTAL_LENGTH);
  return total > slice_ip_bytes(packet) ? SLICE_OUTCOME_NOT_LINEAR : outcome;
}

#endif  // SLICE_BPF_PROXY_PACKET_H
