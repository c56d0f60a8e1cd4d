// Requests remembered until their reply: which server may answer, where the
// client's frames go, and which file and bytes the reply is about. Direct-mapped
// by (client, xid); a newer request takes the entry, a reply leaves it, so that
// a repeated reply passes too. Entries vouch for themselves (slice_pending.check),
// which is cheaper than a lock: processors may race as they like.
#ifndef SLICE_BPF_PROXY_PENDING_H_
#define SLICE_BPF_PROXY_PENDING_H_

#include "bpf/proxy/packet.h"
#include "bpf/shared/routing.h"

// Remembers a request: eight whole words, of which the last vouches for the rest.
SLICE_INLINE void slice_remember(const struct slice_packet* packet, const struct slice_request* request,
                                 const struct slice_route* route, const struct slice_server* server) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_SOURCE);
  uint32_t xid = slice_load32(packet->payload);
  uint32_t key = slice_pending_key(packet->source, port, xid);
  uint64_t* entry = bpf_map_lookup_elem(&pending, &key);
  if (!entry) return;
  uint64_t w0 = xid | (uint64_t)packet->source << 32;
  uint64_t w1 = port | request->procedure << 16 | route->site_class << 24 | (uint64_t)packet->ingress << 32;
  uint64_t w2 = slice_load64(server->ipv4);
  uint64_t w5 = slice_load64(packet->data);
  uint64_t w6 = slice_load32(packet->data + 8) | (uint64_t)request->directory_site << 32;
  entry[0] = w0;
  entry[1] = w1;
  entry[2] = w2;
  entry[3] = request->fileid;
  entry[4] = request->offset;
  entry[5] = w5;
  entry[6] = w6;
  entry[7] = slice_pending_check(w0, w1, w2, request->fileid, request->offset, w5, w6);
}

// Copies an entry of `pending`. 0 when it is none, or not whole.
SLICE_INLINE int slice_copy_pending(uint32_t key, struct slice_pending* copy) {
  const volatile uint64_t* entry = bpf_map_lookup_elem(&pending, &key);
  if (!entry) return 0;
  uint64_t* out = (uint64_t*)copy;
  for (uint32_t i = 0; i < sizeof *copy / 8; i++) out[i] = entry[i];
  return copy->check == slice_pending_check(out[0], out[1], out[2], out[3], out[4], out[5], out[6]);
}

// Copies the request that this reply answers; *key gets the entry's key. 0 when
// none is remembered.
SLICE_INLINE int slice_recall(const struct slice_packet* packet, uint32_t* key, struct slice_pending* copy) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_DESTINATION);
  uint32_t xid = slice_load32(packet->payload);
  *key = slice_pending_key(packet->destination, port, xid);
  return slice_copy_pending(*key, copy) && copy->xid == xid &&
         slice_load32(copy->client_ipv4) == packet->destination && copy->client_port == port &&
         slice_load32(copy->server_ipv4) == packet->source &&
         SLICE_BE16(copy->server_port) == slice_load16(packet->udp + SLICE_UDP_SOURCE);
}

#endif  // SLICE_BPF_PROXY_PENDING_H_
