// NFS over TCP for the virtual address, sent on to the proxy that has its client
// (docs/proxy.md, "Several proxies that serve"). Only the Ethernet addresses and the time
// to live change: that proxy has the virtual address too, and answers the client directly.
// Who has which client is in `spread` and `ways`; without an entry it stays here.
//
// At the ingress of traffic control and not in XDP, where a generic program sees what the
// kernel has joined to packets of up to 64 KiB (GRO), and cannot send those on: they are
// longer than the interface takes, and there nothing cuts them again.
#ifndef SLICE_BPF_PROXY_SPREAD_H
#define SLICE_BPF_PROXY_SPREAD_H

#include <linux/pkt_cls.h>

#include "bpf/proxy/packet.h"

#define SLICE_PACKET_HOST 0  // __sk_buff.pkt_type of what is for this host's hardware address

// Bytes from the IP header of the longest that is looked at: ICMP's error with the headers of the packet that
// it is about.
#define SLICE_SPREAD_BYTES (SLICE_IP_BYTES + SLICE_ICMP_BYTES + SLICE_IP_BYTES + SLICE_TCP_PORTS_BYTES)
#define SLICE_SPREAD_BYTES6 (SLICE_IP6_BYTES + SLICE_ICMP_BYTES + SLICE_IP6_BYTES + SLICE_TCP_PORTS_BYTES)

#define SLICE_NO_SLOT SLICE_CLIENT_SLOTS

// Whether what is readable from `ip` begins a whole TCP packet's header with `port` at `port_at`.
SLICE_INLINE int slice_is_nfs_over_tcp(const struct slice_config* volume, const uint8_t* ip,
                                       uint32_t port_at) {
  return ip[SLICE_IP_PROTOCOL] == SLICE_PROTOCOL_TCP &&
         !(slice_load16(ip + SLICE_IP_FRAGMENT) & SLICE_BE16(SLICE_IP_OFFSET_MASK)) &&
         slice_load16(ip + SLICE_IP_BYTES + port_at) == SLICE_BE16(volume->nfs_port);
}

// The same of IPv6, where another header than TCP's may be a fragment's or an extension: those stay.
SLICE_INLINE int slice_is_nfs_over_tcp6(const struct slice_config* volume, const uint8_t* ip,
                                        uint32_t port_at) {
  return ip[SLICE_IP6_NEXT] == SLICE_PROTOCOL_TCP &&
         slice_load16(ip + SLICE_IP6_BYTES + port_at) == SLICE_BE16(volume->nfs_port);
}

// The slot of the client that a packet to the virtual address is about; SLICE_NO_SLOT: none that could be
// elsewhere. Of an ICMP error it is the destination of what was sent from the virtual address, else a
// connection of another proxy would not hear that its packets are too long.
SLICE_INLINE uint32_t slice_slot_of(const struct slice_config* volume, const uint8_t* ip,
                                    const uint8_t* end) {
  if (slice_is_nfs_over_tcp(volume, ip, SLICE_TCP_DESTINATION)) {
    return slice_client_slot(slice_load32(ip + SLICE_IP_SOURCE));
  }
  const uint8_t* icmp = ip + SLICE_IP_BYTES;
  const uint8_t* inner = icmp + SLICE_ICMP_BYTES;
  if (ip[SLICE_IP_PROTOCOL] != SLICE_PROTOCOL_ICMP || inner + SLICE_IP_BYTES + SLICE_TCP_PORTS_BYTES > end ||
      icmp[SLICE_ICMP_TYPE] != SLICE_ICMP_UNREACHABLE || inner[0] != SLICE_IP_PLAIN ||
      slice_load32(inner + SLICE_IP_SOURCE) != slice_load32(volume->virtual_ipv4) ||
      !slice_is_nfs_over_tcp(volume, inner, SLICE_TCP_SOURCE)) {
    return SLICE_NO_SLOT;
  }
  return slice_client_slot(slice_load32(inner + SLICE_IP_DESTINATION));
}

SLICE_INLINE uint32_t slice_slot_at(const uint8_t* address) {
  return slice_client_slot6(slice_load64(address), slice_load64(address + 8));
}

// The same over IPv6.
SLICE_INLINE uint32_t slice_slot_of6(const struct slice_config* volume, const struct slice_config6* volume6,
                                     const uint8_t* ip, const uint8_t* end) {
  if (slice_is_nfs_over_tcp6(volume, ip, SLICE_TCP_DESTINATION)) {
    return slice_slot_at(ip + SLICE_IP6_SOURCE);
  }
  const uint8_t* icmp = ip + SLICE_IP6_BYTES;
  const uint8_t* inner = icmp + SLICE_ICMP_BYTES;
  if (ip[SLICE_IP6_NEXT] != SLICE_PROTOCOL_ICMP6 || inner + SLICE_IP6_BYTES + SLICE_TCP_PORTS_BYTES > end ||
      (icmp[SLICE_ICMP_TYPE] != SLICE_ICMP6_UNREACHABLE && icmp[SLICE_ICMP_TYPE] != SLICE_ICMP6_TOO_BIG) ||
      (inner[0] & 0xf0) != 0x60 || !slice_is_virtual_ipv6(volume6, inner + SLICE_IP6_SOURCE) ||
      !slice_is_nfs_over_tcp6(volume, inner, SLICE_TCP_SOURCE)) {
    return SLICE_NO_SLOT;
  }
  return slice_slot_at(inner + SLICE_IP6_DESTINATION);
}

// The way to the proxy that has the clients of a slot; null: this one has them.
SLICE_INLINE const struct slice_way* slice_way_of(uint32_t slot) {
  const uint64_t* entry = bpf_map_lookup_elem(&spread, &slot);
  uint32_t key = entry ? (uint32_t)*entry : 0;
  if (key == 0) return 0;
  const struct slice_way* way = bpf_map_lookup_elem(&ways, &key);
  return way && way->ifindex != 0 ? way : 0;
}

// Where the IP header begins in what the program sees: behind the Ethernet header, or at once. The latter is
// the kernel's mistake (Linux 6.18): it has lost that header's length where a generic XDP program made it
// copy the packet. -1: the packet is too short.
SLICE_INLINE int slice_ip_offset(struct __sk_buff* skb) {
  uint8_t link[SLICE_ETH_BYTES + 2] = {};
  if (bpf_skb_load_bytes_relative(skb, 0, link, SLICE_ETH_BYTES, BPF_HDR_START_MAC) != 0) return -1;
  const uint8_t* data = (const uint8_t*)(long)skb->data;
  if (data + SLICE_ETH_BYTES > (const uint8_t*)(long)skb->data_end) return -1;
  int begins_with_it = slice_load64(data) == slice_load64(link) &&
                       slice_load32(data + 8) == slice_load32(link + 8) &&
                       slice_load16(data + SLICE_ETH_TYPE) == slice_load16(link + SLICE_ETH_TYPE);
  return begins_with_it ? SLICE_ETH_BYTES : 0;
}

// Sends the packet on, its time to live lowered already: that bounds what two proxies that each take the
// other for the client's could do.
SLICE_INLINE int slice_send_on(struct __sk_buff* skb, const struct slice_way* way, uint16_t type,
                               uint32_t outcome) {
  bpf_skb_store_bytes(skb, SLICE_ETH_TYPE, &type, sizeof type, 0);
  bpf_skb_store_bytes(skb, SLICE_ETH_DESTINATION, way->next_hop_mac,
                      sizeof way->next_hop_mac + sizeof way->source_mac, 0);
  slice_count(outcome);
  return (int)bpf_redirect(way->ifindex, 0);
}

// Makes room for the link's header where the program does not see it. 0: there is none.
SLICE_INLINE int slice_have_link_header(struct __sk_buff* skb, int at) {
  return at || bpf_skb_change_head(skb, SLICE_ETH_BYTES, 0) == 0;
}

SLICE_INLINE int slice_spread_loops(void) {
  slice_count(SLICE_OUTCOME_SPREAD_LOOP);
  return TC_ACT_UNSPEC;
}

SLICE_INLINE int slice_spread_ipv4(struct __sk_buff* skb, const struct slice_config* volume) {
  uint32_t wanted = SLICE_ETH_BYTES + SLICE_SPREAD_BYTES;
  bpf_skb_pull_data(skb, skb->len < wanted ? skb->len : wanted);
  int at = slice_ip_offset(skb);
  if (at < 0) return TC_ACT_UNSPEC;
  const uint8_t* ip = (const uint8_t*)(long)skb->data + (at ? SLICE_ETH_BYTES : 0);
  const uint8_t* end = (const uint8_t*)(long)skb->data_end;
  if (ip + SLICE_IP_BYTES + SLICE_TCP_PORTS_BYTES > end) return TC_ACT_UNSPEC;
  if (ip[0] != SLICE_IP_PLAIN ||
      slice_load32(ip + SLICE_IP_DESTINATION) != slice_load32(volume->virtual_ipv4)) {
    return TC_ACT_UNSPEC;
  }
  uint32_t outcome =
      ip[SLICE_IP_PROTOCOL] == SLICE_PROTOCOL_TCP ? SLICE_OUTCOME_TCP_SPREAD : SLICE_OUTCOME_ICMP_SPREAD;
  const struct slice_way* way = slice_way_of(slice_slot_of(volume, ip, end));
  if (!way) return TC_ACT_UNSPEC;
  if (ip[SLICE_IP_TTL] <= 1) return slice_spread_loops();
  // Time to live and protocol share a word of the checksum; the first byte is the former.
  uint16_t life = slice_load16(ip + SLICE_IP_TTL), less = life - SLICE_BE16(0x0100);
  if (!slice_have_link_header(skb, at)) return TC_ACT_SHOT;
  bpf_l3_csum_replace(skb, SLICE_ETH_BYTES + SLICE_IP_CHECK, life, less, sizeof less);
  bpf_skb_store_bytes(skb, SLICE_ETH_BYTES + SLICE_IP_TTL, &less, sizeof less, 0);
  return slice_send_on(skb, way, SLICE_BE16(SLICE_ETH_IPV4), outcome);
}

SLICE_INLINE int slice_spread_ipv6(struct __sk_buff* skb, const struct slice_config* volume) {
  uint32_t zero = 0;
  const struct slice_config6* volume6 = bpf_map_lookup_elem(&config6, &zero);
  if (!volume6) return TC_ACT_UNSPEC;
  uint32_t wanted = SLICE_ETH_BYTES + SLICE_SPREAD_BYTES6;
  bpf_skb_pull_data(skb, skb->len < wanted ? skb->len : wanted);
  int at = slice_ip_offset(skb);
  if (at < 0) return TC_ACT_UNSPEC;
  const uint8_t* ip = (const uint8_t*)(long)skb->data + (at ? SLICE_ETH_BYTES : 0);
  const uint8_t* end = (const uint8_t*)(long)skb->data_end;
  if (ip + SLICE_IP6_BYTES + SLICE_TCP_PORTS_BYTES > end) return TC_ACT_UNSPEC;
  // Nothing is sent to ::, which stands for "no virtual address".
  if ((ip[0] & 0xf0) != 0x60 || !slice_is_virtual_ipv6(volume6, ip + SLICE_IP6_DESTINATION)) {
    return TC_ACT_UNSPEC;
  }
  uint32_t outcome =
      ip[SLICE_IP6_NEXT] == SLICE_PROTOCOL_TCP ? SLICE_OUTCOME_TCP_SPREAD : SLICE_OUTCOME_ICMP_SPREAD;
  const struct slice_way* way = slice_way_of(slice_slot_of6(volume, volume6, ip, end));
  if (!way) return TC_ACT_UNSPEC;
  if (ip[SLICE_IP6_HOP_LIMIT] <= 1) return slice_spread_loops();
  uint8_t less = ip[SLICE_IP6_HOP_LIMIT] - 1;
  if (!slice_have_link_header(skb, at)) return TC_ACT_SHOT;
  bpf_skb_store_bytes(skb, SLICE_ETH_BYTES + SLICE_IP6_HOP_LIMIT, &less, sizeof less, 0);
  return slice_send_on(skb, way, SLICE_BE16(SLICE_ETH_IPV6), outcome);
}

SLICE_INLINE int slice_spread_packet(struct __sk_buff* skb, const struct slice_config* volume) {
  if (skb->pkt_type != SLICE_PACKET_HOST) return TC_ACT_UNSPEC;
  if (skb->protocol == SLICE_BE16(SLICE_ETH_IPV4)) return slice_spread_ipv4(skb, volume);
  if (skb->protocol == SLICE_BE16(SLICE_ETH_IPV6)) return slice_spread_ipv6(skb, volume);
  return TC_ACT_UNSPEC;
}

#endif  // SLICE_BPF_PROXY_SPREAD_H
