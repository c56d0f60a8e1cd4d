// Keys and values of the tables pinned under /sys/fs/bpf/slice/, as the XDP
// program, slice-proxyd and bpftool see them (docs/formats/maps.md). Host byte
// order, but for addresses, which are bytes in network order. Padding explicit.
// A change of layout changes SLICE_MAP_ABI.
#ifndef SLICE_BPF_SHARED_MAP_ABI_H
#define SLICE_BPF_SHARED_MAP_ABI_H

#include "bpf/shared/base.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/nfs_offsets.h"

#define SLICE_MAP_ABI 2u

enum slice_site_class {
  SLICE_CLASS_DIRECTORY = 0,
  SLICE_CLASS_SMALL_FILE = 1,
  SLICE_CLASS_STORAGE = 2,
  SLICE_CLASS_COORDINATOR = 3,
};
#define SLICE_CLASSES 4u

enum slice_policy { SLICE_POLICY_MKDIR_SWITCHING = 0, SLICE_POLICY_NAME_HASHING = 1 };
enum slice_name_hash_kind { SLICE_NAME_HASH_MD5 = 0, SLICE_NAME_HASH_SIPHASH13 = 1 };

// slice_config.flags
#define SLICE_CONFIG_PATCH 0x1u  // stamp "can patch" hints, learn and patch attributes
#define SLICE_CONFIG_CARDS \
  0x2u  // every interface the program is on is a network card's, natively: what
        // leaves where it came from leaves by XDP_TX, and checksums come filled
#define SLICE_CONFIG_MAPS \
  0x4u  // mirrored files that are placed by hash may lie elsewhere, as their
        // coordinators' maps say: of no account to the XDP program

// `config`: ARRAY of one entry.
struct slice_config {
  uint32_t abi;    // SLICE_MAP_ABI once loaded; anything else: all packets pass
  uint32_t flags;  // SLICE_CONFIG_*
  uint8_t virtual_ipv4[4];
  uint16_t nfs_port;  // of the virtual address
  uint16_t reserved0;
  uint32_t volume;
  uint32_t generation;                // of the routing tables
  uint32_t policy;                    // enum slice_policy
  uint32_t name_hash;                 // enum slice_name_hash_kind
  uint64_t threshold;                 // bytes
  uint64_t mkdir_limit;               // mkdir switching: redirect when hash >> 32 is below; p * 2^32
  uint8_t name_key[16];               // key of siphash13
  uint32_t site_mask[SLICE_CLASSES];  // sites of the class - 1
  uint32_t now_ms;                    // clock, advanced by slice-proxyd at least 10 times a second
  uint32_t attribute_life_ms;         // learned attributes as old as this are not patched from
  uint16_t own_port_first;            // UDP ports of slice-proxyd's own requests to servers:
  uint16_t own_port_last;             // replies to them are passed up; 0 to 0 for none
  uint32_t reserved1;
};
SLICE_STATIC_ASSERT(sizeof(struct slice_config) == 96, "config layout");

// `config6`: ARRAY of one entry, beside `config`.
struct slice_config6 {
  uint8_t virtual_ipv6[16];  // all zero: none, and all of IPv6 passes
};

// `sites`: ARRAY, key = class * SLICE_MAX_SITES + site (slice_site_key).
struct slice_site {
  uint32_t server;      // key in `servers`; 0: bound to none
  uint32_t generation;  // of the table that bound it
};

// `servers`: ARRAY of SLICE_MAX_SERVERS; entry 0 is never used.
struct slice_server {
  uint8_t ipv4[4];
  uint16_t port;
  uint16_t reserved;        // zero
  uint8_t next_hop_mac[6];  // the two as an Ethernet header begins
  uint8_t source_mac[6];    // of the interface
  uint32_t ifindex;         // interface towards it; 0: unknown, the stack forwards
  uint32_t doubts;          // SLICE_SERVER_*: why its replies teach nothing; 0: they do
  uint32_t reserved1;
};
SLICE_STATIC_ASSERT(sizeof(struct slice_server) == 32, "server layout");

// `servers6`: ARRAY of SLICE_MAX_SERVERS, keys as those of `servers`. A server is in one of the
// two, and has no port in the other.
struct slice_server6 {
  struct slice_server server;  // whose ipv4 is zero
  uint8_t ipv6[16];
};
SLICE_STATIC_ASSERT(sizeof(struct slice_server6) == 48, "server layout");
// `copies`: ARRAY of SLICE_MAX_SITES u64, by storage site: whom READs of a mirrored file's stripe there may
// go to, in the order of its copies, as keys of `servers` in 16 bits each, the first in the lowest. 0: that
// copy cannot be reached, or there is none. All of it 0: user space knows where copies are.
#define SLICE_COPY_BITS 16u
#define SLICE_MAX_COPIES 3u

// Set by the program as well, each for good until slice-proxyd starts, or knows another way:
#define SLICE_SERVER_SHARED 0x1u  // requests of clients came by the interface towards it
#define SLICE_SERVER_ASTRAY 0x2u  // a reply came from another hardware address than next_hop_mac

// `pending`: ARRAY of SLICE_PENDING_ENTRIES, direct-mapped by (client, xid). An
// entry vouches for itself: `check` is slice_pending_check of the six words
// before it, so that an entry two processors wrote at once, or one read while it
// was written, is none. No lock, and no order of stores, is needed.
struct slice_pending {
  uint32_t xid;  // memory order
  uint8_t client_ipv4[4];
  uint16_t client_port;  // memory (network) order
  uint8_t procedure;
  uint8_t site_class;
  uint32_t ifindex;        // where the request came from
  uint8_t server_ipv4[4];  // these eight bytes as in slice_server
  uint16_t server_port;
  uint16_t server;       // key in `servers`, and SLICE_PENDING_MUTE
  uint64_t fileid;       // of the handle, which nobody has verified
  uint8_t proxy_mac[6];  // these twelve bytes as the request's Ethernet header began
  uint8_t client_mac[6];
  uint32_t asked_ms;  // config.now_ms when the request passed first
  uint64_t check;
  uint64_t reserved1;
};
SLICE_STATIC_ASSERT(sizeof(struct slice_pending) == 64, "pending layout");

// `pending6`: ARRAY of SLICE_PENDING_ENTRIES, the same for clients with IPv6. An entry has its words
// where those of `pending` are, so that one code takes either: but for the client's address, in three
// parts, and the server's, which is known by its number. `check` is slice_pending_check6.
struct slice_pending6 {
  uint32_t xid;            // memory order
  uint8_t client_last[4];  // of the client's address
  uint16_t client_port;    // memory (network) order
  uint8_t procedure;
  uint8_t site_class;
  uint32_t ifindex;          // where the request came from
  uint8_t client_middle[4];  // bytes 8 to 11 of the client's address
  uint16_t server_port;
  uint16_t server;       // key in `servers6`, and SLICE_PENDING_MUTE
  uint64_t fileid;       // of the handle, which nobody has verified
  uint8_t proxy_mac[6];  // these twelve bytes as the request's Ethernet header began
  uint8_t client_mac[6];
  uint32_t asked_ms;  // config.now_ms when the request passed first
  uint64_t check;
  uint8_t client_network[8];  // the client's address begins with
};
SLICE_STATIC_ASSERT(
    sizeof(struct slice_pending6) == sizeof(struct slice_pending) &&
        offsetof(struct slice_pending6, client_last) == offsetof(struct slice_pending, client_ipv4) &&
        offsetof(struct slice_pending6, client_middle) == offsetof(struct slice_pending, server_ipv4) &&
        offsetof(struct slice_pending6, server) == offsetof(struct slice_pending, server) &&
        offsetof(struct slice_pending6, check) == offsetof(struct slice_pending, check) &&
        offsetof(struct slice_pending6, client_network) == offsetof(struct slice_pending, reserved1),
    "one code takes either");

// The reply teaches nothing, and nothing in its request invited room: it replaced another
// request of its client's xid, or whoever answers cannot be told by the way of the answer.
#define SLICE_PENDING_MUTE 0x8000u
SLICE_STATIC_ASSERT(SLICE_MAX_SERVERS <= SLICE_PENDING_MUTE, "a server's number fits");

// `fragments`: ARRAY of SLICE_FRAGMENT_ENTRIES u64, direct-mapped by (source,
// destination, IP id): tag 32 | time 14 (units of 8 ms) | kind 2 | index 16.
#define SLICE_FRAGMENT_TAG_SHIFT 32u
#define SLICE_FRAGMENT_TIME_SHIFT 18u
#define SLICE_FRAGMENT_TIME_MASK 0x3fffu
#define SLICE_FRAGMENT_TIME_UNIT_SHIFT 23u  // nanoseconds to units: 2^23 ns = 8.4 ms
#define SLICE_FRAGMENT_KIND_SHIFT 16u
#define SLICE_FRAGMENT_KIND_MASK 0x3u
#define SLICE_FRAGMENT_INDEX_MASK 0xffffu
enum slice_fragment_kind {
  SLICE_FRAGMENT_NONE = 0,
  SLICE_FRAGMENT_TO_SERVER = 1,  // index: key in `servers`
  SLICE_FRAGMENT_TO_CLIENT = 2,  // index: key in `pending`
  SLICE_FRAGMENT_TO_STACK = 3,
};

// `attributes`: ARRAY of SLICE_ATTR_BUCKETS, mmapable, by fileID
// (bpf/shared/attributes.h). Times are seconds << 32 | nanoseconds.
#define SLICE_ATTR_VALID 0x1u       // base holds attributes from the authority
#define SLICE_ATTR_DIRTY_SIZE 0x2u  // unsaved: the authority has not been told
#define SLICE_ATTR_DIRTY_MTIME 0x4u
#define SLICE_ATTR_DIRTY_ATIME 0x8u
#define SLICE_ATTR_DIRTY (SLICE_ATTR_DIRTY_SIZE | SLICE_ATTR_DIRTY_MTIME | SLICE_ATTR_DIRTY_ATIME)
#define SLICE_ATTR_SAVING 0x10u  // the authority is being told, and may not know yet
#define SLICE_ATTR_UNSAVED (SLICE_ATTR_DIRTY | SLICE_ATTR_SAVING)

struct slice_attr_entry {
  uint64_t size;                     // overlay: bytes, at least what WRITEs that passed made it
  uint64_t mtime;                    // overlay; 0: none
  uint64_t atime;                    // overlay; 0: none
  uint32_t epoch;                    // truncation epoch the overlay belongs to
  uint32_t directory_site;           // of the file's attribute cell, as a server said it
  uint32_t base[SLICE_FATTR_WORDS];  // fattr3 as on the wire
  uint32_t reserved0;
  uint64_t reserved1;
};
SLICE_STATIC_ASSERT(sizeof(struct slice_attr_entry) == 128, "attribute entry layout");

struct slice_attr_bucket {
  uint32_t lock;                         // odd while held; every release adds one
  uint32_t next_way;                     // where the next search for a victim begins
  uint64_t fileid[SLICE_ATTR_WAYS];      // 0: way is empty
  uint32_t learned_ms[SLICE_ATTR_WAYS];  // config.now_ms when base was learned
  uint32_t unremembered_ms;              // config.now_ms at the last WRITE that left no trace here; 0: none
  uint32_t reserved0;
  uint64_t hint[SLICE_ATTR_WAYS];   // what READ, WRITE and COMMIT are stamped with; 0: cannot patch
  uint32_t flags[SLICE_ATTR_WAYS];  // SLICE_ATTR_*
  uint64_t reserved1[2];
  struct slice_attr_entry entry[SLICE_ATTR_WAYS];
};
SLICE_STATIC_ASSERT(sizeof(struct slice_attr_bucket) == 640, "attribute bucket layout");

// `evictions`: RINGBUF of unsaved changes that user space is to merge at once, to make room.
struct slice_eviction {
  uint64_t fileid;
  uint64_t size;
  uint64_t mtime;
  uint64_t atime;
  uint32_t epoch;
  uint32_t directory_site;
  uint32_t flags;  // SLICE_ATTR_DIRTY_* that are unsaved
  uint32_t reserved;
};
SLICE_STATIC_ASSERT(sizeof(struct slice_eviction) == 48, "eviction layout");

// `orphans`: RINGBUF of frames that came before their first fragment. User
// space holds each up to 500 ms and runs the program on it again.
struct slice_orphan {
  uint32_t ifindex;  // where it came from
  uint32_t length;   // bytes of frame
  uint8_t frame[SLICE_ORPHAN_MAX_BYTES];
};

// `outcomes`: PERCPU_ARRAY of SLICE_OUTCOME_COUNT u64 counters, key = enum slice_outcome.

// Key in `sites`.
SLICE_INLINE uint32_t slice_site_key(uint32_t site_class, uint32_t site) {
  return site_class * SLICE_MAX_SITES + (site & (SLICE_MAX_SITES - 1));
}

// Key in `pending`; arguments in memory order. Clients count xids up, some in
// network order and some (Linux) in their own: the sum of both readings counts
// up for either, so that one client's open requests never share an entry.
SLICE_INLINE uint32_t slice_pending_key(uint32_t client_ipv4, uint16_t client_port, uint32_t xid) {
  uint32_t client = (client_ipv4 >> 16) + client_port;
  return (xid + SLICE_BE32(xid) + client) & (SLICE_PENDING_ENTRIES - 1);
}

// The same of a client with IPv6: the halves of its address are joined, which differ in either where
// clients do.
SLICE_INLINE uint32_t slice_pending_key6(uint64_t network, uint64_t host, uint16_t client_port,
                                         uint32_t xid) {
  return slice_pending_key((uint32_t)slice_mix64(network + host), client_port, xid);
}

// Check word of six words: differs for all entries that are not one whole.
// Each word that the reply itself vouches for (client and xid, port, server) is
// joined with one that it does not, so that no two of the latter can cancel out.
SLICE_INLINE uint64_t slice_pending_check(uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3, uint64_t w4,
                                          uint64_t w5) {
  return (((w0 ^ w4) * 0x61c88647 + (w1 ^ w3)) * 0x61c88647 + (w2 ^ w5)) * 0x61c88647 + 1;
}

// The same of an entry of `pending6`: the client's network too is to be the one of the other words.
SLICE_INLINE uint64_t slice_pending_check6(uint64_t check, uint64_t network) {
  return check + network * 0x9e3779b97f4a7c15ULL;
}

// `sources`: ARRAY of SLICE_SOURCE_ENTRIES u64, direct-mapped by address: source 32 (memory
// order) | interface 32. That packets from there may come in by it the routes said since
// slice-proxyd last made the table empty, which it does every 2 s.
SLICE_INLINE uint32_t slice_source_key(uint32_t ipv4) {
  return slice_spread32(SLICE_BE32(ipv4)) & (SLICE_SOURCE_ENTRIES - 1);
}
SLICE_INLINE uint64_t slice_source_word(uint32_t ipv4, uint32_t ifindex) {
  return (uint64_t)ipv4 << 32 | ifindex;
}

// `sources6`: ARRAY of SLICE_SOURCE_ENTRIES, the same of IPv6, by slice_source_key6(). `check` is a function
// of the words before it, so that an entry that two processors wrote at once is none.
struct slice_source6 {
  uint64_t network;  // the address's two halves, memory order
  uint64_t host;
  uint64_t ifindex;
  uint64_t check;
};
SLICE_INLINE uint32_t slice_source_key6(uint64_t network, uint64_t host) {
  return (uint32_t)slice_mix64(network + host) & (SLICE_SOURCE_ENTRIES - 1);
}
SLICE_INLINE uint64_t slice_source_check6(uint64_t network, uint64_t host, uint64_t ifindex) {
  return slice_mix64(slice_mix64(network ^ ifindex) + host) | 1;
}

// `tail_calls`: PROG_ARRAY, the programs that slice_proxy hands packets to.
#define SLICE_PROGRAM_IPV6 0u  // slice_proxy6

// `generic`: HASH of SLICE_MAX_GENERIC, keys are interfaces where the program runs generically, on
// packets that still have what the kernel knows of them. Values are 1.

// `spread`: ARRAY of SLICE_CLIENT_SLOTS u64, by slice_client_slot6(): the key in `ways` of the
// proxy that has these clients over TCP; 0: this one.
SLICE_INLINE uint32_t slice_client_slot(uint32_t ipv4) {  // memory order
  return (uint32_t)slice_mix64(SLICE_BE32(ipv4)) & (SLICE_CLIENT_SLOTS - 1);
}

// The same of an address of 16 bytes, the two halves in memory order; one of IPv4 is mapped (::ffff:a.b.c.d).
SLICE_INLINE uint32_t slice_client_slot6(uint64_t network, uint64_t host) {
  uint64_t last = SLICE_BE64(host);
  if (network == 0 && last >> 32 == 0xffff) return slice_client_slot(SLICE_BE32((uint32_t)last));
  return (uint32_t)slice_mix64(slice_mix64(SLICE_BE64(network)) ^ last) & (SLICE_CLIENT_SLOTS - 1);
}

// `ways`: ARRAY of SLICE_MAX_SPREAD; entry 0 is never used.
struct slice_way {
  uint8_t next_hop_mac[6];  // the two as an Ethernet header begins
  uint8_t source_mac[6];    // of the interface
  uint32_t ifindex;         // interface towards it; 0: nothing is sent there
};
SLICE_STATIC_ASSERT(sizeof(struct slice_way) == 16, "way layout");

#endif  // SLICE_BPF_SHARED_MAP_ABI_H
