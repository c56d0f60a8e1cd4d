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

// UDP over IPv4, addressed to the virtual address or not.
SLICE_INLINE int slice_udp(struct slice_packet* packet, int to_virtual) {
  if (SLICE_UNLIKELY(slice_is_later_fragment(packet))) {
    return to_virtual ? slice_request_fragment(packet) : slice_reply_fragment(packet);
  }
  packet->udp = packet->ip + SLICE_IP_BYTES;
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

// Any IPv4 packet, or what only looks like one.
SLICE_INLINE int slice_any_packet(struct slice_packet* packet) {
  packet->ip = packet->data + SLICE_ETH_BYTES;
  if (SLICE_UNLIKELY(packet->ip + SLICE_IP_BYTES > packet->end)) return slice_stay(SLICE_OUTCOME_NOT_IPV4);
  if (SLICE_UNLIKELY(slice_load16(packet->data + SLICE_ETH_TYPE) != SLICE_BE16(SLICE_ETH_IPV4))) {
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
  return slice_udp(packet, to_virtual);
}

// The packet of the program's context, nothing of it read.
SLICE_INLINE struct slice_packet slice_packet_of(struct xdp_md* ctx, const struct slice_config* volume) {
  struct slice_packet packet = {.ctx = ctx, .config = volume};
  packet.data = (uint8_t*)(long)ctx->data;
  packet.end = (uint8_t*)(long)ctx->data_end;
  packet.ingress = ctx->ingress_ifindex;
  return packet;
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

SEC("tc")
int slice_spread(struct __sk_buff* skb) {
  uint32_t zero = 0;
  const struct slice_config* volume = bpf_map_lookup_elem(&config, &zero);
  if (!volume || volume->abi != SLICE_MAP_ABI) return TC_ACT_UNSPEC;
  return slice_spread_packet(skb, volume);
}

char slice_license[] SEC("license") = "Dual BSD/GPL";
