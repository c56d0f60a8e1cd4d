// Every bound that XDP program, proxy daemon and servers must agree on, each
// with its unit.
#ifndef SLICE_BPF_SHARED_LIMITS_H
#define SLICE_BPF_SHARED_LIMITS_H

#include "bpf/shared/base.h"

#define SLICE_NFS_PORT 2049u     // virtual address, UDP and TCP
#define SLICE_MOUNT_PORT 20048u  // virtual address, UDP and TCP
#define SLICE_PORTMAP_PORT 111u  // virtual address, UDP and TCP

#define SLICE_HANDLE_SIZE 56u  // bytes of every file handle of ours
#define SLICE_MAX_NAME 255u    // bytes of one name
#define SLICE_MAX_AUTH 400u    // bytes of a credential or verifier body (RFC 5531 section 8.2)
// Bytes of a frame up to the last argument a route depends on: Ethernet, IP and UDP
// headers, RPC call with the longest credential and verifier, two handles, two names.
#define SLICE_MAX_HEADERS 2047u
#define SLICE_MAX_DATAGRAM 61440u      // bytes of RPC message over UDP the proxy accepts
#define SLICE_MAX_UDP_TRANSFER 32768u  // bytes of one READ or WRITE over UDP (FSINFO's rtmax/wtmax there)

#define SLICE_DEFAULT_THRESHOLD 65536u  // bytes
#define SLICE_DEFAULT_STRIPE_SHIFT 16u  // log2 of the bytes of a stripe unit
#define SLICE_MIN_STRIPE_SHIFT 12u
#define SLICE_MAX_STRIPE_SHIFT 32u

#define SLICE_MAX_SITES 4096u  // sites of one class, a power of two
#define SLICE_DEFAULT_DIRECTORY_SITES 64u
#define SLICE_DEFAULT_SMALL_FILE_SITES 64u
#define SLICE_DEFAULT_STORAGE_SITES 1024u
#define SLICE_DEFAULT_COORDINATOR_SITES 64u
#define SLICE_MAX_SERVERS 1024u  // entries of the servers table; entry 0 means "none"

#define SLICE_PENDING_ENTRIES 65536u   // requests remembered until their reply, a power of two
#define SLICE_FRAGMENT_ENTRIES 65536u  // open fragmented datagrams, a power of two
#define SLICE_SOURCE_ENTRIES 16384u    // clients' addresses looked up lately, a power of two
#define SLICE_CLIENT_SLOTS 4096u       // parts of the clients that proxies have among them, a power of two
#define SLICE_MAX_GENERIC 256u         // interfaces where the program runs generically
#define SLICE_MAX_SUMMED 9216u         // bytes of a UDP datagram whose checksum the program makes anew
#define SLICE_MAX_SPREAD 64u           // entries of the ways to other proxies; entry 0 means "stays here"
#define SLICE_ATTR_BUCKETS 16384u      // buckets of the attribute cache, a power of two
#define SLICE_ATTR_WAYS 4u             // files in one bucket
#define SLICE_EVICTION_RING_BYTES 262144u
#define SLICE_ORPHAN_RING_BYTES 1048576u
#define SLICE_ORPHAN_MAX_BYTES 2048u  // longest frame kept while its first fragment is missing
#define SLICE_FRAGMENT_LIFE_MS 1000u  // a fragment's route is forgotten after this

// READDIR cookies under name hashing: site in the upper bits, position below.
#define SLICE_COOKIE_SITE_SHIFT 48u
// fileIDs: issuing directory site in the upper bits, sequence below.
#define SLICE_FILEID_SITE_SHIFT 48u
#define SLICE_ROOT_FILEID 1ull

#endif  // SLICE_BPF_SHARED_LIMITS_H
