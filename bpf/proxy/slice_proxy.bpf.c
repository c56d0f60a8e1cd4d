// The XDP program of the proxy: every frame of every interface it is attached to
// comes in here. Requests to the virtual address go to the server of their site,
// replies back to their clients, and anything else up the stack, where
// slice-proxyd handles what is for the virtual address. Nothing is terminated or
// buffered: dropping any packet is safe, since RPC retransmits.
//
// The other program, slice_spread, is at the ingress of the clients' interface,
// behind the first: it sends TCP on to other proxies (spread.h).
//
// Contract with the loader (control/): fill `servers`, `sites`, then `config`
// with abi = SLICE_MAP_ABI; attach to the interfaces towards clients and towards
// servers; advance config.now_ms; empty the rings `evictions` and `orphans`.
#include "bpf/proxy/fragments.h"
#include "bpf/proxy/maps.h"
#include "bpf/proxy/packet.h"
#include "bpf/proxy/reply.h"
#include "bpf/proxy/request.h"
#include "bpf/proxy/spread.h"

// UDP behind `header` bytes, addressed to the virtual address or not.
SLICE_INLINE int slice_udp(struct slice_packet* packet, uint32_t header, int to_virtual) {
  if (SLICE_UNLIKELY(slice_is_later_fragment(packet))) {
    return to_virtual ? slice_request_fragment(packet) : slice_reply_fragment(packet);
  }
  packet->udp = packet->ip + header;
  packet->payload = packet->udp + SLICE_UDP_BYTES;
  if (SLICE_UNLIKELY(packet->payload > packet->end)) {
    return slice_stay(to_virtual ? SLICE_OUTCOME_MALFORMED : SLICE_OUTCOME_NOT_OURS);
  }
  if (!to_virtual) return slice_reply(packet);
  if (SLICE_LIKELY(slice_load16(packet->udp + SLICE_UDP_DESTINATION) ==
                   SLICE_BE16(packet->config->nfs_port))) {
    return slice_request(packet);
  }
  return slice_refuse(packet, SLICE_OUTCOME_OTHER_PORT);
}

// The packet of the program's context, nothing of it read.
SLICE_INLINE struct slice_packet slice_packet_of(struct xdp_md* ctx, const struct slice_config* volume) {
  struct slice_packet packet = {.ctx = ctx, .config = volume};
  packet.data = (uint8_t*)(long)ctx->data;
  packet.end = (uint8_t*)(long)ctx->data_end;
  packet.ingress = ctx->ingress_ifindex;
  return packet;
}

// Whether a header behind IPv6's is one that another follows (RFC 8200, RFC 7045): whose packets are left to
// the stack, which reads them all.
SLICE_INLINE int slice_is_extension(uint8_t header) {
  return header == SLICE_PROTOCOL_HOP_BY_HOP || header == SLICE_PROTOCOL_ROUTING ||
         header == SLICE_PROTOCOL_FRAGMENT || header == SLICE_PROTOCOL_ESP || header == SLICE_PROTOCOL_AH ||
         header == SLICE_PROTOCOL_DESTINATION || header == SLICE_PROTOCOL_MOBILITY;
}

// What is behind the IPv6 header: the bytes of both headers, the number of the one that follows them, and
// packet->fragment as IPv4 has it, from the lowest bits on 8, 8 and 16 bits. The header of a fragment counts
// as a header of its own kind where it is not one of several, or not all there. A function that the verifier
// checks once: fragments and whole packets go the same way from there.
SLICE_VERIFIED_ONCE uint32_t slice_read_ipv6_headers(struct xdp_md* ctx) {
  const uint8_t* ip = (const uint8_t*)(long)ctx->data + SLICE_ETH_BYTES;
  const uint8_t* end = (const uint8_t*)(long)ctx->data_end;
  if (ip + SLICE_IP6_BYTES > end) return 0;
  uint32_t next = ip[SLICE_IP6_NEXT];
  if (next != SLICE_PROTOCOL_FRAGMENT) return next << 8 | SLICE_IP6_BYTES;
  const uint8_t* header = ip + SLICE_IP6_BYTES;
  if (header + SLICE_IP6_FRAGMENT_BYTES > end) return next << 8 | SLICE_IP6_BYTES;
  uint16_t field = slice_be16(header + SLICE_IP6_FRAGMENT_OFFSET);
  uint16_t fragment = field >> 3 | (field & SLICE_IP6_FRAGMENT_MORE ? SLICE_IP_MORE_FRAGMENTS : 0);
  if (fragment == 0) return next << 8 | SLICE_IP6_BYTES;
  next = header[SLICE_IP6_FRAGMENT_NEXT];
  return (uint32_t)SLICE_BE16(fragment) << 16 | next << 8 | (SLICE_IP6_BYTES + SLICE_IP6_FRAGMENT_BYTES);
}

// Any IPv6 packet.
SLICE_INLINE int slice_any_packet6(struct slice_packet* packet, const struct slice_config6* volume) {
  packet->is_ipv6 = 1;
  packet->ip = packet->data + SLICE_ETH_BYTES;
  if (packet->ip + SLICE_IP6_BYTES > packet->end || (packet->ip[0] & 0xf0) != 0x60 ||
      (slice_load64(volume->virtual_ipv6) | slice_load64(volume->virtual_ipv6 + 8)) == 0) {
    return slice_stay(SLICE_OUTCOME_NOT_IPV4);
  }
  int to_virtual = slice_is_virtual_ipv6(volume, packet->ip + SLICE_IP6_DESTINATION);
  uint32_t headers = slice_read_ipv6_headers(packet->ctx);
  packet->fragment = (uint16_t)(headers >> 16);
  uint8_t next = (uint8_t)(headers >> 8);
  if (SLICE_LIKELY(next == SLICE_PROTOCOL_UDP))
    return slice_udp(packet, slice_masked(headers, 0x3f), to_virtual);
  if (!to_virtual) return slice_stay(SLICE_OUTCOME_NOT_OURS);
  return slice_refuse(packet, slice_is_extension(next) ? SLICE_OUTCOME_IP_EXTENSIONS : SLICE_OUTCOME_NOT_UDP);
}

// Any IPv4 packet, or what only looks like one.
SLICE_INLINE int slice_any_packet(struct slice_packet* packet) {
  packet->ip = packet->data + SLICE_ETH_BYTES;
  if (SLICE_UNLIKELY(packet->ip + SLICE_IP_BYTES > packet->end)) return slice_stay(SLICE_OUTCOME_NOT_IPV4);
  uint16_t type = slice_load16(packet->data + SLICE_ETH_TYPE);
  if (SLICE_UNLIKELY(type != SLICE_BE16(SLICE_ETH_IPV4))) {
    if (type == SLICE_BE16(SLICE_ETH_IPV6)) bpf_tail_call(packet->ctx, &tail_calls, SLICE_PROGRAM_IPV6);
    return slice_stay(SLICE_OUTCOME_NOT_IPV4);
  }
  packet->source = slice_load32(packet->ip + SLICE_IP_SOURCE);
  packet->destination = slice_load32(packet->ip + SLICE_IP_DESTINATION);
  packet->fragment = slice_load16(packet->ip + SLICE_IP_FRAGMENT);
  int to_virtual = packet->destination == slice_load32(packet->config->virtual_ipv4);
  if (SLICE_UNLIKELY(packet->ip[SLICE_IP_PROTOCOL] != SLICE_PROTOCOL_UDP)) {
    return slice_stay(to_virtual ? SLICE_OUTCOME_NOT_UDP : SLICE_OUTCOME_NOT_OURS);
  }
  if (SLICE_UNLIKELY(packet->ip[0] != SLICE_IP_PLAIN)) return slice_stay(SLICE_OUTCOME_IP_OPTIONS);
  return slice_udp(packet, SLICE_IP_BYTES, to_virtual);
}

SEC("xdp.frags")
int slice_proxy(struct xdp_md* ctx) {
  uint32_t zero = 0;
  const struct slice_config* volume = bpf_map_lookup_elem(&config, &zero);
  if (!volume || volume->abi != SLICE_MAP_ABI) return slice_stay(SLICE_OUTCOME_NO_CONFIG);
  struct slice_packet packet = slice_packet_of(ctx, volume);
  int verdict = slice_plain_read(&packet);
  if (SLICE_LIKELY(verdict >= 0)) return verdict;
  // From the beginning, and unknown to the compiler: else it would keep what the
  // rest needs on the stack while a READ runs.
  SLICE_HIDE(ctx);
  packet = slice_packet_of(ctx, volume);
  return slice_any_packet(&packet);
}

// Where slice_proxy goes on with IPv6.
SEC("xdp.frags")
int slice_proxy6(struct xdp_md* ctx) {
  uint32_t zero = 0;
  const struct slice_config* volume = bpf_map_lookup_elem(&config, &zero);
  const struct slice_config6* volume6 = bpf_map_lookup_elem(&config6, &zero);
  if (!volume || !volume6 || volume->abi != SLICE_MAP_ABI) return slice_stay(SLICE_OUTCOME_NO_CONFIG);
  struct slice_packet packet = slice_packet_of(ctx, volume);
  return slice_any_packet6(&packet, volume6);
}

SEC("tc")
int slice_spread(struct __sk_buff* skb) {
  uint32_t zero = 0;
  const struct slice_config* volume = bpf_map_lookup_elem(&config, &zero);
  if (!volume || volume->abi != SLICE_MAP_ABI) return TC_ACT_UNSPEC;
  return slice_spread_packet(skb, volume);
}

char slice_license[] SEC("license") = "Dual BSD/GPL";
