// Requests to the virtual address: parse, check the source, route, stamp the hint, clamp
// a READ, re-address, remember, send.
#ifndef SLICE_BPF_PROXY_REQUEST_H
#define SLICE_BPF_PROXY_REQUEST_H

#include "bpf/proxy/fragments.h"
#include "bpf/proxy/name_hash.h"
#include "bpf/proxy/packet.h"
#include "bpf/proxy/pending.h"
#include "bpf/proxy/rewrite.h"
#include "bpf/proxy/source.h"
#include "bpf/shared/attributes.h"
#include "bpf/shared/routing.h"

// The hint to stamp: what the attribute cache says of the file that is read,
// written or committed; 0 when its reply could not be patched.
SLICE_INLINE uint64_t slice_find_hint(const struct slice_packet* packet,
                                      const struct slice_request* request) {
  if (SLICE_UNLIKELY(!(packet->config->flags & SLICE_CONFIG_PATCH))) return 0;
  if (request->procedure != SLICE_NFS_READ && request->procedure != SLICE_NFS_WRITE &&
      request->procedure != SLICE_NFS_COMMIT) {
    return 0;
  }
  uint32_t key = slice_attr_bucket_key(request->fileid);
  struct slice_attr_bucket* bucket = bpf_map_lookup_elem(&attributes, &key);
  if (SLICE_UNLIKELY(!bucket)) return 0;
  uint64_t hint = slice_attr_peek(bucket, request->fileid, packet->config);
  if (SLICE_UNLIKELY(!hint)) slice_count(SLICE_OUTCOME_ATTR_MISS);
  return hint;
}

// Changes the RPC call in place: the client's hint goes in any case, the count
// of a READ that crosses a boundary shrinks.
SLICE_INLINE void slice_edit_call(struct slice_packet* packet, const struct slice_request* request,
                                  const struct slice_route* route, uint64_t hint) {
  slice_replace64((uint8_t*)request->handle + SLICE_HANDLE_AT_HINT, SLICE_BE64(hint), &packet->udp_sum);
  // Only a READ is clamped, and has that word; a verifier before Linux 6.8 does not see it.
  if (route->outcome == SLICE_OUTCOME_READ_CLAMPED && request->count_word) {
    slice_replace32((uint8_t*)request->count_word, SLICE_BE32(route->count), &packet->udp_sum);
  }
}

// Why a site's server is not one for this packet: it has no port in the table of its family.
SLICE_INLINE uint32_t slice_why_unbound(const struct slice_packet* packet, uint32_t index) {
  const struct slice_server* server = 0;
  if (packet->is_ipv6) {
    server = bpf_map_lookup_elem(&servers, &index);
  } else {
    const struct slice_server6* other = bpf_map_lookup_elem(&servers6, &index);
    if (other) server = &other->server;
  }
  return server && server->port != 0 ? SLICE_OUTCOME_OTHER_FAMILY : SLICE_OUTCOME_SITE_UNBOUND;
}

// The server of a mirrored stripe that a READ is for; a function of its own, as most files are not mirrored.
SLICE_VERIFIED_ONCE uint32_t slice_find_copy(uint32_t site, uint32_t count, uint32_t stripe, uint32_t asked) {
  const volatile uint64_t* entry = bpf_map_lookup_elem(&copies, &site);
  return entry ? slice_choose_copy(*entry, count > 2 ? 3 : 2, stripe, asked) : 0;
}

// Where a READ of a mirrored file goes, which is a READ like others then; 0: user space sees to it.
SLICE_INLINE uint32_t slice_copy_to_read(const struct slice_packet* packet,
                                         const struct slice_request* request, struct slice_route* route) {
  if (route->outcome != SLICE_OUTCOME_MIRRORED || request->procedure != SLICE_NFS_READ) return 0;
  uint32_t stripe = (uint32_t)(request->offset >> (request->stripe_shift & 63));
  uint32_t server = slice_find_copy(route->site, slice_handle_copies(request->handle_flags), stripe,
                                    slice_server_asked(packet, request));
  if (server) {
    route->outcome = route->count < request->count ? SLICE_OUTCOME_READ_CLAMPED : SLICE_OUTCOME_ROUTED_READ;
  }
  return server;
}

// A parsed call, from its route to the verdict.
SLICE_INLINE int slice_request_parsed(struct slice_packet* packet, const struct slice_request* request,
                                      uint64_t hash) {
  struct slice_route route;
  if (SLICE_UNLIKELY(!slice_source_fits(packet))) return slice_refuse(packet, SLICE_OUTCOME_SOURCE_ASTRAY);
  uint64_t hint = slice_find_hint(packet, request);
  slice_route_hashed(packet->config, request, hint != 0, hint & SLICE_HINT_SIZE_MASK, hash, &route);
  uint32_t index;
  if (SLICE_UNLIKELY(route.outcome >= SLICE_OUTCOME_NOT_OURS)) {
    // A file with a block map, or a mirrored one.
    index = slice_copy_to_read(packet, request, &route);
    if (!index) return slice_refuse(packet, route.outcome);
  } else {
    uint32_t key = slice_site_key(route.site_class, route.site);
    const struct slice_site* site = bpf_map_lookup_elem(&sites, &key);
    if (SLICE_UNLIKELY(!site)) return slice_refuse(packet, SLICE_OUTCOME_SITE_UNBOUND);
    index = *(volatile const uint32_t*)&site->server;
  }
  struct slice_server* server = slice_server_at(packet, index);
  // Neither the entry that is "none" nor one that no server has has a port.
  if (SLICE_UNLIKELY(!server || server->port == 0)) {
    return slice_refuse(packet, slice_why_unbound(packet, index));
  }
  uint32_t outcome = slice_examine_checksum(packet);
  if (SLICE_UNLIKELY(outcome)) return slice_refuse(packet, outcome);
  uint32_t doubt = slice_doubt_server(packet, server);
  if (SLICE_UNLIKELY(slice_remember(packet, request, &route, server, index | doubt))) hint = 0;
  slice_note_fragment(packet, SLICE_FRAGMENT_TO_SERVER, index);
  slice_edit_call(packet, request, &route, hint);
  slice_set_destination(packet, server);
  slice_rewrite_port(packet, SLICE_UDP_DESTINATION, SLICE_BE16(server->port));
  slice_finish_udp_checksum(packet);
  return slice_send_to_server(packet, server, route.outcome);
}

// A UDP datagram, or its first fragment, to the virtual address and NFS port.
SLICE_INLINE int slice_request(struct slice_packet* packet) {
  struct slice_request request = {};
  uint32_t outcome = slice_check_lengths(packet);
  if (SLICE_UNLIKELY(outcome)) return slice_refuse(packet, outcome);
  outcome = slice_parse_call_header(packet->payload, packet->end, &request);
  if (SLICE_UNLIKELY(outcome)) return slice_refuse(packet, slice_why_short(packet, outcome));
  if (SLICE_UNLIKELY(request.procedure == SLICE_NFS_NULL))
    return slice_refuse(packet, SLICE_OUTCOME_ROUTED_NULL);
  outcome = slice_parse_arguments(packet->config, packet->end, &request);
  if (SLICE_UNLIKELY(outcome)) return slice_refuse(packet, slice_why_short(packet, outcome));
  if (SLICE_UNLIKELY(request.procedure == SLICE_NFS_READDIRPLUS)) {
    return slice_refuse(packet, SLICE_OUTCOME_TO_USER_SPACE);
  }
  return slice_request_parsed(packet, &request, slice_request_name_hash(packet, &request));
}

// READ, the most frequent call, has a copy of the code to itself: without the
// other procedures' branches and spilled registers it is half as long. A whole
// datagram in a frame of just its length; header words are compared several at a
// time. Result: the verdict, or -1 for anything unusual, which nothing has touched.
SLICE_INLINE int slice_plain_read(struct slice_packet* packet) {
  struct slice_request request = {};
  uint8_t* data = packet->data;
  packet->payload = data + SLICE_ETH_BYTES + SLICE_IP_BYTES + SLICE_UDP_BYTES;
  if (SLICE_UNLIKELY(packet->payload + SLICE_CALL_CREDENTIAL + SLICE_AUTH_HEADER > packet->end)) return -1;
  // Ethernet type and the IP header's first byte; fragment field and protocol
  if (SLICE_UNLIKELY((slice_load32(data + SLICE_ETH_TYPE) & SLICE_BE32(0xffffff00)) !=
                     SLICE_BE32((uint32_t)SLICE_ETH_IPV4 << 16 | SLICE_IP_PLAIN << 8))) {
    return -1;
  }
  packet->ip = data + SLICE_ETH_BYTES;
  packet->udp = packet->ip + SLICE_IP_BYTES;
  uint32_t fragment_and_protocol = slice_load32(packet->ip + SLICE_IP_FRAGMENT);
  if (SLICE_UNLIKELY((fragment_and_protocol &
                      SLICE_BE32((uint32_t)(SLICE_IP_MORE_FRAGMENTS | SLICE_IP_OFFSET_MASK) << 16 | 0xff)) !=
                     SLICE_BE32(SLICE_PROTOCOL_UDP))) {
    return -1;
  }
  packet->destination = slice_load32(packet->ip + SLICE_IP_DESTINATION);
  packet->fragment = 0;
  if (packet->destination != slice_load32(packet->config->virtual_ipv4)) return -1;
  if (SLICE_UNLIKELY(slice_load16(packet->udp + SLICE_UDP_DESTINATION) !=
                     SLICE_BE16(packet->config->nfs_port))) {
    return -1;
  }
  uint32_t total = slice_be16(packet->ip + SLICE_IP_TOTAL_LENGTH);
  if (SLICE_UNLIKELY(total != slice_be16(packet->udp + SLICE_UDP_LENGTH) + SLICE_IP_BYTES)) return -1;
  if (SLICE_UNLIKELY(total != slice_ip_bytes(packet))) return -1;
  if (!slice_parse_plain_read(packet->config, packet->payload, packet->end, &request)) return -1;
  packet->source = slice_load32(packet->ip + SLICE_IP_SOURCE);
  return slice_request_parsed(packet, &request, 0);
}

#endif  // SLICE_BPF_PROXY_REQUEST_H
