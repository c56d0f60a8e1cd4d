// Requests remembered until their reply: which server may answer, where the
// client's frames go, and which file the reply should be about. Direct-mapped
// by (client, xid); a newer request takes the entry, a reply leaves it, so that
// a repeated reply passes too. Entries vouch for themselves (slice_pending.check),
// which is cheaper than a lock: processors may race as they like.
//
// Nobody has verified the handle that an entry was made from, and a client may put a
// second request where its first one's answer will look. So an entry says which file may
// be learned of, and nothing about it.
#ifndef SLICE_BPF_PROXY_PENDING_H
#define SLICE_BPF_PROXY_PENDING_H

#include "bpf/proxy/packet.h"
#include "bpf/shared/routing.h"

// An entry of the packet's family; null beyond the table.
SLICE_INLINE uint64_t* slice_pending_at(const struct slice_packet* packet, uint32_t key) {
  if (packet->is_ipv6) return bpf_map_lookup_elem(&pending6, &key);
  return bpf_map_lookup_elem(&pending, &key);
}

// The key of a client, by its address in the packet.
SLICE_INLINE uint32_t slice_key_of(const struct slice_packet* packet, const uint8_t* client, uint16_t port,
                                   uint32_t xid) {
  if (!packet->is_ipv6) return slice_pending_key(slice_load32(client), port, xid);
  return slice_pending_key6(slice_load64(client), slice_load64(client + 8), port, xid);
}

// Whether an entry's words are those of that client, beyond the last 32 bits of its address. (IPv4 has none.)
SLICE_INLINE int slice_has_prefix(const struct slice_packet* packet, const uint64_t* entry,
                                  const uint8_t* client) {
  if (!packet->is_ipv6) return 1;
  return entry[7] == slice_load64(client) && (uint32_t)entry[2] == slice_load32(client + 8);
}

// The server under a number, by its address of the packet's family; null beyond the table.
SLICE_INLINE struct slice_server* slice_server_at(const struct slice_packet* packet, uint32_t index) {
  if (!packet->is_ipv6) return bpf_map_lookup_elem(&servers, &index);
  struct slice_server6* server = bpf_map_lookup_elem(&servers6, &index);
  return server ? &server->server : 0;
}

// SLICE_PENDING_MUTE, and why is noted with the server, where others could send what looks
// like its reply: clients at the interface towards it, or anybody while that is unknown.
SLICE_INLINE uint32_t slice_doubt_server(const struct slice_packet* packet, struct slice_server* server) {
  uint32_t ifindex = server->ifindex;
  uint32_t doubts = slice_load_relaxed32(&server->doubts);
  int shared = ifindex == packet->ingress;
  if (SLICE_LIKELY(!shared && ifindex != 0 && doubts == 0)) return 0;
  if (shared && !(doubts & SLICE_SERVER_SHARED)) {
    *(volatile uint32_t*)&server->doubts = doubts | SLICE_SERVER_SHARED;
  }
  return SLICE_PENDING_MUTE;
}

// Whether the entry holds another request of the same client under the same xid, or one
// that had replaced another. (A retransmission is the same request.)
SLICE_INLINE int slice_is_replaced(const struct slice_packet* packet, const uint64_t* entry, uint64_t w0,
                                   uint64_t w1, uint64_t fileid) {
  uint64_t other = entry[1] ^ w1;
  if (SLICE_LIKELY(entry[0] != w0 || (other & 0xffff))) return 0;
  if (!slice_has_prefix(packet, entry, slice_source_of(packet))) return 0;
  return (other & 0xff0000) || entry[3] != fileid || entry[2] >> 48 & SLICE_PENDING_MUTE;
}

// Remembers a request: whole words, of which the last vouches for the rest. `server` is
// the entry `index` of the servers; MUTE may be set in `index`. Result: MUTE or 0, as
// noted; where it is MUTE the request must not invite room.
SLICE_INLINE uint32_t slice_remember(const struct slice_packet* packet, const struct slice_request* request,
                                     const struct slice_route* route, const struct slice_server* server,
                                     uint32_t index) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_SOURCE);
  uint32_t xid = slice_load32(packet->payload);
  const uint8_t* client = slice_source_of(packet);
  uint32_t key = slice_key_of(packet, client, port, xid);
  uint64_t* entry = slice_pending_at(packet, key);
  if (!entry) return SLICE_PENDING_MUTE;
  uint64_t w0 = xid | (uint64_t)slice_source_last(packet) << 32;
  uint64_t w1 = port | request->procedure << 16 | route->site_class << 24 | (uint64_t)packet->ingress << 32;
  if (SLICE_UNLIKELY(slice_is_replaced(packet, entry, w0, w1, request->fileid))) index |= SLICE_PENDING_MUTE;
  uint64_t w2 = slice_load64(server->ipv4) | (uint64_t)index << 48;
  if (packet->is_ipv6) w2 |= slice_load32(client + 8);
  uint64_t w4 = slice_load64(packet->data);
  // A retransmission's reply may be the first one's: what counts is when that was asked.
  int again = entry[0] == w0 && !((entry[1] ^ w1) & 0xffffff) && entry[3] == request->fileid &&
              slice_has_prefix(packet, entry, client);
  uint64_t asked = again ? entry[5] >> 32 : slice_load_relaxed32(&packet->config->now_ms);
  uint64_t w5 = slice_load32(packet->data + 8) | asked << 32;
  entry[0] = w0;
  entry[1] = w1;
  entry[2] = w2;
  entry[3] = request->fileid;
  entry[4] = w4;
  entry[5] = w5;
  uint64_t check = slice_pending_check(w0, w1, w2, request->fileid, w4, w5);
  if (packet->is_ipv6) {
    entry[7] = slice_load64(client);
    check = slice_pending_check6(check, slice_load64(client));
  }
  entry[6] = check;
  return index & SLICE_PENDING_MUTE;
}

// The server that this very request went to, when it came before; 0: it did not, as far as is remembered.
SLICE_INLINE uint32_t slice_server_asked(const struct slice_packet* packet,
                                         const struct slice_request* request) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_SOURCE);
  uint32_t xid = slice_load32(packet->payload);
  const uint8_t* client = slice_source_of(packet);
  const volatile uint64_t* entry = slice_pending_at(packet, slice_key_of(packet, client, port, xid));
  if (!entry || entry[0] != (xid | (uint64_t)slice_source_last(packet) << 32)) return 0;
  if ((entry[1] & 0xffffff) != (port | (uint64_t)request->procedure << 16)) return 0;
  if (entry[3] != request->fileid || !slice_has_prefix(packet, (const uint64_t*)entry, client)) return 0;
  return (uint32_t)(entry[2] >> 48) & (SLICE_PENDING_MUTE - 1);
}

// Copies the entry of a request of the client that this packet goes to. 0 when it is another's, none, or
// not whole. (What is of no use to either family is not read from the copy.)
SLICE_INLINE int slice_copy_pending(const struct slice_packet* packet, uint32_t key,
                                    struct slice_pending* copy) {
  const volatile uint64_t* entry = slice_pending_at(packet, key);
  if (!entry) return 0;
  uint64_t* out = (uint64_t*)copy;
  for (uint32_t i = 0; i < 7; i++) out[i] = entry[i];
  uint64_t check = slice_pending_check(out[0], out[1], out[2], out[3], out[4], out[5]);
  const uint8_t* client = slice_destination_of(packet);
  if (packet->is_ipv6) {
    if (entry[7] != slice_load64(client) || (uint32_t)out[2] != slice_load32(client + 8)) return 0;
    check = slice_pending_check6(check, slice_load64(client));
  }
  return copy->check == check && slice_load32(copy->client_ipv4) == slice_destination_last(packet);
}

// Whether the reply's source is the address of the server that its request went to.
SLICE_INLINE int slice_is_from_server(const struct slice_packet* packet, const struct slice_pending* call) {
  if (!packet->is_ipv6) return slice_load32(call->server_ipv4) == packet->source;
  uint32_t index = call->server & (SLICE_PENDING_MUTE - 1);
  const struct slice_server6* server = bpf_map_lookup_elem(&servers6, &index);
  if (!server) return 0;
  const uint8_t* source = slice_source_of(packet);
  return slice_load64(server->ipv6) == slice_load64(source) &&
         slice_load64(server->ipv6 + 8) == slice_load64(source + 8);
}

// Copies the request that this reply answers; *key gets the entry's key. 0 when
// none is remembered.
SLICE_INLINE int slice_recall(const struct slice_packet* packet, uint32_t* key, struct slice_pending* copy) {
  uint16_t port = slice_load16(packet->udp + SLICE_UDP_DESTINATION);
  uint32_t xid = slice_load32(packet->payload);
  *key = slice_key_of(packet, slice_destination_of(packet), port, xid);
  return slice_copy_pending(packet, *key, copy) && copy->xid == xid && copy->client_port == port &&
         SLICE_BE16(copy->server_port) == slice_load16(packet->udp + SLICE_UDP_SOURCE) &&
         slice_is_from_server(packet, copy);
}

// Whether the reply came by the way to its server. By another interface anybody could
// have sent it: REPLY_ASTRAY. From another hardware address, or while the way is unknown,
// it may pass, but teaches nothing (MUTE in `call`), and its server's next requests do not
// invite room. Else 0.
SLICE_INLINE uint32_t slice_check_way(const struct slice_packet* packet, struct slice_pending* call) {
  uint32_t index = call->server & (SLICE_PENDING_MUTE - 1);
  struct slice_server* server = slice_server_at(packet, index);
  if (SLICE_UNLIKELY(!server)) return SLICE_OUTCOME_REPLY_ASTRAY;
  const uint8_t* from = packet->data + SLICE_ETH_SOURCE;
  if (SLICE_UNLIKELY(server->ifindex != packet->ingress)) {
    if (server->ifindex != 0) return SLICE_OUTCOME_REPLY_ASTRAY;
    call->server |= SLICE_PENDING_MUTE;
  } else if (SLICE_UNLIKELY(slice_load32(from) != slice_load32(server->next_hop_mac) ||
                            slice_load16(from + 4) != slice_load16(server->next_hop_mac + 4))) {
    *(volatile uint32_t*)&server->doubts |= SLICE_SERVER_ASTRAY;
    call->server |= SLICE_PENDING_MUTE;
  }
  return 0;
}

#endif  // SLICE_BPF_PROXY_PENDING_H
