// The hash of a name in a packet, for name hashing and for MKDIR.
#ifndef SLICE_BPF_PROXY_NAME_HASH_H
#define SLICE_BPF_PROXY_NAME_HASH_H

#include "bpf/proxy/packet.h"
#include "bpf/shared/routing.h"

// Hash of (fileid, the `length` bytes at `offset` of the frame). A function that
// the verifier checks once, since a name has 255 possible lengths; that is why
// it finds packet and tables again by itself.
SLICE_VERIFIED_ONCE uint64_t slice_hash_packet_name(struct xdp_md* ctx, uint64_t fileid, uint32_t offset,
                                                    uint32_t length) {
  uint32_t zero = 0;
  const struct slice_config* volume = bpf_map_lookup_elem(&config, &zero);
  struct slice_name_words* memory = bpf_map_lookup_elem(&scratch, &zero);
  if (!volume || !memory || offset > SLICE_MAX_HEADERS || length > SLICE_MAX_NAME) return 0;
  const uint8_t* name = (const uint8_t*)(long)ctx->data + offset;
  const uint8_t* end = (const uint8_t*)(long)ctx->data_end;
  return slice_name_hash(volume, memory, fileid, name, length, end);
}

// The hash that decides the request's route; 0 where none does.
SLICE_INLINE uint64_t slice_request_name_hash(const struct slice_packet* packet,
                                              const struct slice_request* request) {
  if (SLICE_LIKELY(!slice_needs_name_hash(packet->config, request))) return 0;
  int is_link = request->procedure == SLICE_NFS_LINK;
  const uint8_t* name = is_link ? request->second_name : request->name;
  uint32_t offset = (uint32_t)(name - packet->data);
  return slice_hash_packet_name(packet->ctx, is_link ? request->second_fileid : request->fileid, offset,
                                is_link ? request->second_name_length : request->name_length);
}

#endif  // SLICE_BPF_PROXY_NAME_HASH_H
