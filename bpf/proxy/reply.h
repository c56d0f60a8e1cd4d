// Replies of servers to clients: matched with their request, their attributes
// learned and patched, sent on as from the virtual address.
#ifndef SLICE_BPF_PROXY_REPLY_H
#define SLICE_BPF_PROXY_REPLY_H

#include "bpf/proxy/fragments.h"
#include "bpf/proxy/packet.h"
#include "bpf/proxy/pending.h"
#include "bpf/proxy/rewrite.h"
#include "bpf/shared/attributes.h"
#include "bpf/shared/reply.h"

// slice_evict_fn: unsaved changes go to user space through the ring buffer.
SLICE_INLINE int slice_send_eviction(void* context, const struct slice_eviction* eviction) {
  (void)context;
  return bpf_ringbuf_output(&evictions, (void*)eviction, sizeof *eviction, 0) == 0;
}

// A reply to no request remembered here. With room for attributes it must not
// reach anyone, but for slice-proxyd's own requests.
SLICE_INLINE int slice_unmatched_reply(struct slice_packet* packet) {
  uint16_t port = slice_be16(packet->udp + SLICE_UDP_DESTINATION);
  if (port >= packet->config->own_port_first && port <= packet->config->own_port_last) {
    return slice_stay(SLICE_OUTCOME_REPLY_UNMATCHED);
  }
  if (slice_reply_has_room_unmatched(packet->payload, packet->end)) {
    return slice_stay(SLICE_OUTCOME_REPLY_ROOM_UNMATCHED);
  }
  return slice_stay(SLICE_OUTCOME_REPLY_UNMATCHED);
}

// A reply to a call of some procedure in which no attributes were found. That of a request
// which another replaced may have been to another procedure, and hold room.
SLICE_INLINE uint32_t slice_bare_reply(const struct slice_packet* packet, const struct slice_pending* call,
                                       uint32_t status) {
  if (call->server & SLICE_PENDING_MUTE) {
    int room = slice_reply_has_room_unmatched(packet->payload, packet->end);
    return room ? SLICE_OUTCOME_PATCH_REFUSED : SLICE_OUTCOME_REPLY;
  }
  if (call->procedure != SLICE_NFS_WRITE || status != 0) return SLICE_OUTCOME_REPLY;
  uint32_t key = slice_attr_bucket_key(call->fileid);
  struct slice_attr_bucket* bucket = bpf_map_lookup_elem(&attributes, &key);
  if (!bucket || slice_attr_unremembered(bucket, call->fileid, packet->config)) return SLICE_OUTCOME_REPLY;
  slice_count(SLICE_OUTCOME_ATTR_BUSY);
  return SLICE_OUTCOME_PATCH_BUSY;
}

// Brings the reply's attributes and the cache together. Result: the outcome.
SLICE_INLINE uint32_t slice_absorb_reply(struct slice_packet* packet, const struct slice_pending* call) {
  struct slice_reply reply = {};
  struct slice_attr_event event;
  int mute = (call->server & SLICE_PENDING_MUTE) != 0;
  uint32_t size = slice_be16(packet->udp + SLICE_UDP_LENGTH) - SLICE_UDP_BYTES;
  uint32_t outcome = slice_parse_reply(call->procedure, packet->payload, packet->end, &reply);
  if (outcome) return slice_why_short(packet, outcome);
  if (!reply.fattr) return slice_bare_reply(packet, call, reply.status);
  if (SLICE_UNLIKELY(!slice_reply_is_whole(call->procedure, &reply, packet->payload, packet->end, size))) {
    return SLICE_OUTCOME_REPLY_MALFORMED;
  }
  if (!(packet->config->flags & SLICE_CONFIG_PATCH)) return SLICE_OUTCOME_REPLY;
  event.fileid = slice_reply_fileid(&reply, call->fileid);
  event.procedure = call->procedure;
  event.asked_ms = call->asked_ms;
  event.teaches = !mute;
  if (SLICE_UNLIKELY(mute)) slice_count(SLICE_OUTCOME_ATTR_MUTE);
  uint32_t key = slice_attr_bucket_key(event.fileid);
  struct slice_attr_bucket* bucket = bpf_map_lookup_elem(&attributes, &key);
  if (!bucket) return SLICE_OUTCOME_REPLY;
  uint32_t side = 0;
  outcome = slice_attr_absorb(bucket, (uint8_t*)reply.fattr, &event, packet->config, slice_send_eviction, 0,
                              &packet->udp_sum, &side);
  if (side) slice_count(side);
  return outcome;
}

// A UDP datagram, or its first fragment, to some other address than the virtual
// one: a reply if it looks like one and its request is remembered.
SLICE_INLINE int slice_reply(struct slice_packet* packet) {
  uint8_t* p = packet->payload;
  if (p + 12 > packet->end) return slice_stay(SLICE_OUTCOME_NOT_OURS);
  if (slice_load32(p + 4) != SLICE_BE32(SLICE_RPC_REPLY)) return slice_stay(SLICE_OUTCOME_NOT_OURS);
  struct slice_pending call;
  uint32_t key;
  if (!slice_recall(packet, &key, &call)) return slice_unmatched_reply(packet);
  uint32_t outcome = slice_check_lengths(packet);
  if (SLICE_UNLIKELY(outcome)) return slice_stay(outcome);
  outcome = slice_check_way(packet, &call);
  if (SLICE_UNLIKELY(outcome)) return slice_stay(outcome);
  outcome = slice_examine_checksum(packet);
  if (SLICE_UNLIKELY(outcome)) return slice_stay(outcome);
  outcome = slice_absorb_reply(packet, &call);
  if (slice_outcome_action(outcome) != SLICE_ACTION_FORWARD) return slice_stay(outcome);
  slice_note_fragment(packet, SLICE_FRAGMENT_TO_CLIENT, key);
  slice_set_source(packet);
  slice_rewrite_port(packet, SLICE_UDP_SOURCE, SLICE_BE16(packet->config->nfs_port));
  slice_finish_udp_checksum(packet);
  return slice_send_to_client(packet, &call, outcome);
}

#endif  // SLICE_BPF_PROXY_REPLY_H
