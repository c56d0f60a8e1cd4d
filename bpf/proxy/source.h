// Whether a request may come from where it says it does, as a strict reverse-path filter
// sees it: the kernel's routes lead back to its source by the interface it came from.
// The program runs before the kernel's own filter, and what it sends on never gets there.
#ifndef SLICE_BPF_PROXY_SOURCE_H
#define SLICE_BPF_PROXY_SOURCE_H

#include "bpf/proxy/packet.h"

#define SLICE_FAMILY_IPV4 2   // AF_INET
#define SLICE_FAMILY_IPV6 10  // AF_INET6

// Asks the kernel's routes, and notes a yes. 0 for what no host may send from too: 0/8,
// multicast and reserved addresses. An interface that does not forward
// (net.ipv4.conf.*.forwarding) is refused by the helper: then user space has all requests.
SLICE_VERIFIED_ONCE int slice_look_up_source(struct xdp_md* ctx, uint32_t source, uint32_t destination,
                                             uint32_t ifindex) {
  uint32_t first = SLICE_BE32(source) >> 24;
  if (first == 0 || first >= 224) return 0;
  struct bpf_fib_lookup way = {};
  way.family = SLICE_FAMILY_IPV4;
  way.ipv4_src = destination;
  way.ipv4_dst = source;
  way.ifindex = ifindex;
  long result = bpf_fib_lookup(ctx, &way, sizeof way, 0);
  if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH) return 0;
  if (way.ifindex != ifindex) return 0;
  uint32_t key = slice_source_key(source);
  uint64_t* word = bpf_map_lookup_elem(&sources, &key);
  if (word) *(volatile uint64_t*)word = slice_source_word(source, ifindex);
  return 1;
}

// The same of IPv6. 0 too for what is none of a host's own at large: :: and what begins like it (loopback,
// IPv4's addresses mapped and embedded), the link-local, which mean another host at another link, and
// multicast.
SLICE_VERIFIED_ONCE int slice_look_up_source6(struct xdp_md* ctx) {
  const uint8_t* ip = (const uint8_t*)(long)ctx->data + SLICE_ETH_BYTES;
  if (ip + SLICE_IP6_BYTES > (const uint8_t*)(long)ctx->data_end) return 0;
  uint64_t network = slice_load64(ip + SLICE_IP6_SOURCE), host = slice_load64(ip + SLICE_IP6_SOURCE + 8);
  uint64_t first = SLICE_BE64(network) >> 54;
  if (network == 0 || first == 0xfe80 >> 6 || first >= 0xff00 >> 6) return 0;
  struct bpf_fib_lookup way = {};
  way.family = SLICE_FAMILY_IPV6;
  __builtin_memcpy(way.ipv6_src, ip + SLICE_IP6_DESTINATION, 16);
  __builtin_memcpy(way.ipv6_dst, ip + SLICE_IP6_SOURCE, 16);
  way.ifindex = ctx->ingress_ifindex;
  long result = bpf_fib_lookup(ctx, &way, sizeof way, 0);
  if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH) return 0;
  uint32_t ifindex = ctx->ingress_ifindex;
  if (way.ifindex != ifindex) return 0;
  uint32_t key = slice_source_key6(network, host);
  volatile struct slice_source6* entry = bpf_map_lookup_elem(&sources6, &key);
  if (!entry) return 1;
  entry->network = network;
  entry->host = host;
  entry->ifindex = ifindex;
  entry->check = slice_source_check6(network, host, ifindex);
  return 1;
}

SLICE_INLINE int slice_source6_fits(const struct slice_packet* packet) {
  uint64_t network = slice_load64(packet->ip + SLICE_IP6_SOURCE);
  uint64_t host = slice_load64(packet->ip + SLICE_IP6_SOURCE + 8);
  uint32_t key = slice_source_key6(network, host);
  const volatile struct slice_source6* entry = bpf_map_lookup_elem(&sources6, &key);
  if (SLICE_LIKELY(entry && entry->network == network && entry->host == host &&
                   entry->ifindex == packet->ingress &&
                   entry->check == slice_source_check6(network, host, packet->ingress))) {
    return 1;
  }
  return slice_look_up_source6(packet->ctx);
}

SLICE_INLINE int slice_source_fits(const struct slice_packet* packet) {
  if (packet->is_ipv6) return slice_source6_fits(packet);
  uint32_t key = slice_source_key(packet->source);
  const uint64_t* word = bpf_map_lookup_elem(&sources, &key);
  uint64_t wanted = slice_source_word(packet->source, packet->ingress);
  if (SLICE_LIKELY(word && *(volatile const uint64_t*)word == wanted)) return 1;
  return slice_look_up_source(packet->ctx, packet->source, packet->destination, packet->ingress);
}

#endif  // SLICE_BPF_PROXY_SOURCE_H
