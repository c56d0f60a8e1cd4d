// The tables of the XDP program; keys and values are in bpf/shared/map_abi.h.
// Arrays on the hot path: their look-ups are inlined, and no entry is ever
// evicted behind our back.
#ifndef SLICE_BPF_PROXY_MAPS_H
#define SLICE_BPF_PROXY_MAPS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/shared/map_abi.h"
#include "bpf/shared/name_words.h"
#include "bpf/shared/outcomes.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_config);
} config SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_config6);
} config6 SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_CLASSES* SLICE_MAX_SITES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_site);
} sites SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_MAX_SITES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, uint64_t);
} copies SEC(".maps");

// Of operators, for slice-proxyd (bpf/shared/wanted.h): the program does not look at it.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_CLASSES* SLICE_MAX_SITES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, uint32_t);
} wanted SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_MAX_SERVERS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_server);
} servers SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_MAX_SERVERS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_server6);
} servers6 SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_PENDING_ENTRIES);
  __type(key, uint32_t);
  __type(value, struct slice_pending);
} pending SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_PENDING_ENTRIES);
  __type(key, uint32_t);
  __type(value, struct slice_pending6);
} pending6 SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_ATTR_BUCKETS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_attr_bucket);
} attributes SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_FRAGMENT_ENTRIES);
  __type(key, uint32_t);
  __type(value, uint64_t);
} fragments SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_SOURCE_ENTRIES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, uint64_t);
} sources SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_SOURCE_ENTRIES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_source6);
} sources6 SEC(".maps");

// Asked for unfilled checksums over IPv6 alone.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, SLICE_MAX_GENERIC);
  __type(key, uint32_t);
  __type(value, uint32_t);
} generic SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_CLIENT_SLOTS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, uint64_t);
} spread SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SLICE_MAX_SPREAD);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, uint32_t);
  __type(value, struct slice_way);
} ways SEC(".maps");

// The programs that slice_proxy hands packets to, which the loader puts there: a stack and a verifier's run
// of their own, and IPv4 does not get longer by them.
struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, 1);
  __type(key, uint32_t);
  __type(value, uint32_t);
} tail_calls SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, SLICE_OUTCOME_COUNT);
  __type(key, uint32_t);
  __type(value, uint64_t);
} outcomes SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, SLICE_EVICTION_RING_BYTES);
} evictions SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, SLICE_ORPHAN_RING_BYTES);
} orphans SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, uint32_t);
  __type(value, struct slice_name_words);
} scratch SEC(".maps");

// Counts one packet under an outcome.
SLICE_INLINE void slice_count(uint32_t outcome) {
  uint64_t* counter = bpf_map_lookup_elem(&outcomes, &outcome);
  if (SLICE_LIKELY(counter != 0)) *counter += 1;
}

// Counts the outcome of a packet that is not sent on, and answers its verdict. A
// function of its own, so that the many ways out take little room among the code
// that packets run through.
SLICE_VERIFIED_ONCE int slice_stay(uint32_t outcome) {
  slice_count(outcome);
  return slice_outcome_action(outcome) == SLICE_ACTION_DROP ? XDP_DROP : XDP_PASS;
}

#endif  // SLICE_BPF_PROXY_MAPS_H
