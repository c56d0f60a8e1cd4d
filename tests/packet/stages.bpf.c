// The XDP program's path, cut off after each of its stages, for `./slice bench table3`: what a stage costs is
// the difference to the stage before. The steps are those of bpf/proxy, called in their order; the last cut
// is the whole path, whose time has to be that of the real program, else this file lags behind it.
#include "bpf/proxy/packet.h"
#include "bpf/proxy/reply.h"
#include "bpf/proxy/request.h"

enum slice_cut {
  SLICE_CUT_INTERCEPTED,  // Ethernet, IP and UDP headers looked at: it is for us
  SLICE_CUT_DECODED,      // RPC header, credential skipped, arguments or results, handle
  SLICE_CUT_ATTRIBUTES,   // what the attribute cache knows of the file (reply: patched, learned)
  SLICE_CUT_ROUTED,       // site and server
  SLICE_CUT_PENDING,      // remembered for the reply (reply: found again)
  SLICE_CUT_REWRITTEN,    // hint, addresses, checksums, MAC addresses, sent
};

// The compiler must not drop what nobody but a later stage uses.
#define SLICE_USED(value) asm volatile("" ::"r"(value) : "memory")
// `last` is a constant: of each program only its own stages are left.
#define SLICE_CUT(stage) \
  if (last == (stage)) return XDP_TX

SLICE_INLINE void slice_use_request(const struct slice_request* request) {
  SLICE_USED(request->procedure);
  SLICE_USED(request->fileid);
  SLICE_USED(request->offset);
  SLICE_USED(request->count);
  SLICE_USED(request->directory_site);
  SLICE_USED(request->handle);
  SLICE_USED(request->name_length);
}

// As slice_any_packet() and slice_udp(). 0: a whole UDP datagram over IPv4.
SLICE_INLINE int slice_intercept(struct slice_packet* packet) {
  packet->ip = packet->data + SLICE_ETH_BYTES;
  packet->udp = packet->ip + SLICE_IP_BYTES;
  packet->payload = packet->udp + SLICE_UDP_BYTES;
  if (packet->ip + SLICE_IP_BYTES > packet->end || packet->payload > packet->end) return -1;
  if (slice_load16(packet->data + SLICE_ETH_TYPE) != SLICE_BE16(SLICE_ETH_IPV4)) return -1;
  packet->source = slice_load32(packet->ip + SLICE_IP_SOURCE);
  packet->destination = slice_load32(packet->ip + SLICE_IP_DESTINATION);
  packet->fragment = slice_load16(packet->ip + SLICE_IP_FRAGMENT);
  if (packet->ip[SLICE_IP_PROTOCOL] != SLICE_PROTOCOL_UDP || packet->ip[0] != SLICE_IP_PLAIN) return -1;
  return slice_is_later_fragment(packet) ? -1 : 0;
}

// As slice_request_parsed().
SLICE_INLINE int slice_cut_parsed(struct slice_packet* packet, const struct slice_request* request,
                                  uint64_t hash, const enum slice_cut last) {
  struct slice_route route;
  if (SLICE_UNLIKELY(!slice_source_fits(packet))) return XDP_DROP;
  uint64_t hint = slice_find_hint(packet, request);
  SLICE_USED(hint);
  SLICE_CUT(SLICE_CUT_ATTRIBUTES);
  slice_route_hashed(packet->config, request, hint != 0, hint & SLICE_HINT_SIZE_MASK, hash, &route);
  if (SLICE_UNLIKELY(route.outcome >= SLICE_OUTCOME_NOT_OURS)) return XDP_DROP;
  uint32_t key = slice_site_key(route.site_class, route.site);
  const struct slice_site* site = bpf_map_lookup_elem(&sites, &key);
  if (SLICE_UNLIKELY(!site)) return XDP_DROP;
  uint32_t index = *(volatile const uint32_t*)&site->server;
  struct slice_server* server = bpf_map_lookup_elem(&servers, &index);
  if (SLICE_UNLIKELY(!server || server->port == 0)) return XDP_DROP;
  SLICE_USED(route.count);
  SLICE_CUT(SLICE_CUT_ROUTED);
  uint32_t doubt = slice_doubt_server(packet, server);
  if (SLICE_UNLIKELY(slice_remember(packet, request, &route, server, index | doubt))) hint = 0;
  slice_note_fragment(packet, SLICE_FRAGMENT_TO_SERVER, index);
  SLICE_CUT(SLICE_CUT_PENDING);
  slice_edit_call(packet, request, &route, hint);
  slice_set_destination(packet, server);
  slice_rewrite_port(packet, SLICE_UDP_DESTINATION, SLICE_BE16(server->port));
  slice_finish_udp_checksum(packet);
  return slice_send_to_server(packet, server, route.outcome);
}

// As slice_request().
SLICE_INLINE int slice_cut_request(struct slice_packet* packet, const enum slice_cut last) {
  struct slice_request request = {};
  if (packet->destination != slice_load32(packet->config->virtual_ipv4)) return XDP_DROP;
  if (slice_load16(packet->udp + SLICE_UDP_DESTINATION) != SLICE_BE16(packet->config->nfs_port))
    return XDP_DROP;
  if (slice_check_lengths(packet)) return XDP_DROP;
  SLICE_CUT(SLICE_CUT_INTERCEPTED);
  if (slice_parse_call_header(packet->payload, packet->end, &request)) return XDP_DROP;
  if (request.procedure == SLICE_NFS_NULL) return XDP_DROP;
  if (slice_parse_arguments(packet->config, packet->end, &request)) return XDP_DROP;
  slice_use_request(&request);
  SLICE_CUT(SLICE_CUT_DECODED);
  return slice_cut_parsed(packet, &request, slice_request_name_hash(packet, &request), last);
}

// READ, which the program has a shorter parser for (slice_plain_read()).
SLICE_INLINE int slice_cut_read(struct slice_packet* packet, const enum slice_cut last) {
  struct slice_request request = {};
  if (packet->destination != slice_load32(packet->config->virtual_ipv4)) return XDP_DROP;
  if (slice_load16(packet->udp + SLICE_UDP_DESTINATION) != SLICE_BE16(packet->config->nfs_port))
    return XDP_DROP;
  uint32_t total = slice_be16(packet->ip + SLICE_IP_TOTAL_LENGTH);
  if (total != slice_be16(packet->udp + SLICE_UDP_LENGTH) + SLICE_IP_BYTES) return XDP_DROP;
  if (total != slice_ip_bytes(packet)) return XDP_DROP;
  SLICE_CUT(SLICE_CUT_INTERCEPTED);
  if (!slice_parse_plain_read(packet->config, packet->payload, packet->end, &request)) return XDP_DROP;
  slice_use_request(&request);
  SLICE_CUT(SLICE_CUT_DECODED);
  return slice_cut_parsed(packet, &request, 0, last);
}

// As slice_reply() and slice_absorb_reply(). Here the pending request comes before what it is needed for.
SLICE_INLINE int slice_cut_reply(struct slice_packet* packet, const enum slice_cut last) {
  struct slice_pending call;
  struct slice_reply reply = {};
  struct slice_attr_event event;
  uint32_t key, side = 0;
  uint8_t* p = packet->payload;
  if (p + 12 > packet->end || slice_load32(p + 4) != SLICE_BE32(SLICE_RPC_REPLY)) return XDP_DROP;
  SLICE_CUT(SLICE_CUT_INTERCEPTED);
  if (!slice_recall(packet, &key, &call)) return XDP_DROP;
  if (slice_check_lengths(packet) || slice_check_way(packet, &call)) return XDP_DROP;
  SLICE_USED(call.fileid);
  SLICE_CUT(SLICE_CUT_PENDING);
  if (slice_parse_reply(call.procedure, packet->payload, packet->end, &reply)) return XDP_DROP;
  uint32_t size = slice_be16(packet->udp + SLICE_UDP_LENGTH) - SLICE_UDP_BYTES;
  if (!reply.fattr || !slice_reply_is_whole(call.procedure, &reply, packet->payload, packet->end, size)) {
    return XDP_DROP;
  }
  SLICE_CUT(SLICE_CUT_DECODED);
  uint32_t outcome = SLICE_OUTCOME_REPLY;
  event.fileid = slice_reply_fileid(&reply, call.fileid);
  event.procedure = call.procedure;
  event.asked_ms = call.asked_ms;
  event.teaches = !(call.server & SLICE_PENDING_MUTE);
  uint32_t bucket_key = slice_attr_bucket_key(event.fileid);
  struct slice_attr_bucket* bucket = bpf_map_lookup_elem(&attributes, &bucket_key);
  if (bucket) {
    outcome = slice_attr_absorb(bucket, (uint8_t*)reply.fattr, &event, packet->config, slice_send_eviction, 0,
                                &packet->udp_sum, &side);
  }
  SLICE_USED(outcome);
  SLICE_CUT(SLICE_CUT_ATTRIBUTES);
  slice_note_fragment(packet, SLICE_FRAGMENT_TO_CLIENT, key);
  slice_set_source(packet);
  slice_rewrite_port(packet, SLICE_UDP_SOURCE, SLICE_BE16(packet->config->nfs_port));
  slice_finish_udp_checksum(packet);
  return slice_send_to_client(packet, &call, outcome);
}

#define SLICE_PROGRAM(path, stage, cut)                                          \
  SEC("xdp.frags")                                                               \
  int path##_##stage(struct xdp_md* ctx) {                                       \
    uint32_t zero = 0;                                                           \
    const struct slice_config* volume = bpf_map_lookup_elem(&config, &zero);     \
    if (!volume || volume->abi != SLICE_MAP_ABI) return XDP_DROP;                \
    struct slice_packet packet = {.ctx = ctx, .config = volume};                 \
    packet.data = (uint8_t*)(long)ctx->data;                                     \
    packet.end = (uint8_t*)(long)ctx->data_end;                                  \
    packet.ingress = ctx->ingress_ifindex;                                       \
    return slice_intercept(&packet) ? XDP_DROP : slice_cut_##path(&packet, cut); \
  }
#define SLICE_PROGRAMS(path)                              \
  SLICE_PROGRAM(path, intercepted, SLICE_CUT_INTERCEPTED) \
  SLICE_PROGRAM(path, decoded, SLICE_CUT_DECODED)         \
  SLICE_PROGRAM(path, attributes, SLICE_CUT_ATTRIBUTES)   \
  SLICE_PROGRAM(path, pending, SLICE_CUT_PENDING)         \
  SLICE_PROGRAM(path, whole, SLICE_CUT_REWRITTEN)

SLICE_PROGRAMS(request)
SLICE_PROGRAM(request, routed, SLICE_CUT_ROUTED)
SLICE_PROGRAMS(read)
SLICE_PROGRAM(read, routed, SLICE_CUT_ROUTED)
SLICE_PROGRAMS(reply)

char slice_stages_license[] SEC("license") = "Dual BSD/GPL";
