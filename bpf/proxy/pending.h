// Requests remembered until their reply: which server may answer, where the
// client's frames go, and which file and bytes the reply is about. Direct-mapped
// by (client, xid); a newer request takes the entry, a reply leaves it, so that
// a repeated reply passes too. `sequence` is odd while an entry is written, and a
// reader who saw it change takes nothing.
#ifndef SLICE_BPF_PROXY_PENDING_H_
#define SLICE_BPF_PROXY_PENDING_H_

#include "bpf/proxy/packet.h"
#include "bpf/shared/routing.h"

// Remembers a request. 0 when another processor was writing the entry.
SLICE_INLINE int slice_remember(const struct slice_packet* packet, const struct slice_request* request,
                                const struct slice_route* route, const struct slice_server* server) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_SOURCE);
  uint32_t xid = slice_load32(packet->payload);
  uint32_t key = slice_pending_key(packet->source, port, xid);
  struct slice_pending* entry = bpf_map_lookup_elem(&pending, &key);
  if (!entry) return 0;
  uint32_t sequence = slice_load_relaxed32(&entry->sequence);
  if ((sequence & 1) || !slice_compare_swap32(&entry->sequence, sequence, sequence + 1)) return 0;
  entry->xid = xid;
  slice_store32(entry->client_ipv4, packet->source);
  entry->client_port = port;
  entry->procedure = (uint8_t)request->procedure;
  entry->site_class = (uint8_t)route->site_class;
  slice_store32(entry->server_ipv4, slice_load32(server->ipv4));
  entry->server_port = SLICE_BE16(server->port);
  entry->ifindex = packet->ctx->ingress_ifindex;
  slice_store32(entry->client_mac, slice_load32(packet->data + SLICE_ETH_SOURCE));
  slice_store16(entry->client_mac + 4, slice_load16(packet->data + SLICE_ETH_SOURCE + 4));
  slice_store32(entry->proxy_mac, slice_load32(packet->data + SLICE_ETH_DESTINATION));
  slice_store16(entry->proxy_mac + 4, slice_load16(packet->data + SLICE_ETH_DESTINATION + 4));
  entry->directory_site = request->directory_site;
  entry->fileid = request->fileid;
  entry->offset = request->offset;
  slice_order(&entry->sequence);
  *(volatile uint32_t*)&entry->sequence = sequence + 2;
  return 1;
}

// Copies the request that this reply answers. *key gets the entry's key. 0 when
// none is remembered, or its entry changed while it was read.
SLICE_INLINE int slice_recall(const struct slice_packet* packet, uint32_t* key, struct slice_pending* copy) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_DESTINATION);
  uint32_t xid = slice_load32(packet->payload);
  *key = slice_pending_key(packet->destination, port, xid);
  struct slice_pending* entry = bpf_map_lookup_elem(&pending, key);
  if (!entry) return 0;
  uint32_t sequence = slice_load_relaxed32(&entry->sequence);
  slice_order(&entry->sequence);
  *copy = *entry;
  slice_order(&entry->sequence);
  if ((sequence & 1) || slice_load_relaxed32(&entry->sequence) != sequence) return 0;
  return copy->xid == xid && slice_load32(copy->client_ipv4) == packet->destination &&
         copy->client_port == port && slice_load32(copy->server_ipv4) == packet->source &&
         copy->server_port == slice_load16(packet->udp + SLICE_UDP_SOURCE);
}

#endif  // SLICE_BPF_PROXY_PENDING_H_
