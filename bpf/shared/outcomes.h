// Every way a packet or record can go, numbered once for XDP and user space.
// SLICE_OUTCOMES(X) expands X(NAME, number, action, text) for each. Numbers are
// never reused. Actions: FORWARD (sent on to a server or a client), PASS (to the
// stack, hence to slice-proxyd), DROP (the client's RPC retransmits).
#ifndef SLICE_BPF_SHARED_OUTCOMES_H
#define SLICE_BPF_SHARED_OUTCOMES_H

#include "bpf/shared/base.h"

enum slice_action { SLICE_ACTION_FORWARD = 0, SLICE_ACTION_PASS = 1, SLICE_ACTION_DROP = 2 };

#define SLICE_OUTCOMES(X)                                                                              \
  /* requests routed: 0 + procedure (RFC 1813) */                                                      \
  X(ROUTED_NULL, 0, PASS, "NULL call, answered by the proxy itself")                                   \
  X(ROUTED_GETATTR, 1, FORWARD, "GETATTR sent to a server")                                            \
  X(ROUTED_SETATTR, 2, FORWARD, "SETATTR sent to a server")                                            \
  X(ROUTED_LOOKUP, 3, FORWARD, "LOOKUP sent to a server")                                              \
  X(ROUTED_ACCESS, 4, FORWARD, "ACCESS sent to a server")                                              \
  X(ROUTED_READLINK, 5, FORWARD, "READLINK sent to a server")                                          \
  X(ROUTED_READ, 6, FORWARD, "READ sent to a server")                                                  \
  X(ROUTED_WRITE, 7, FORWARD, "WRITE sent to a server")                                                \
  X(ROUTED_CREATE, 8, FORWARD, "CREATE sent to a server")                                              \
  X(ROUTED_MKDIR, 9, FORWARD, "MKDIR sent to a server")                                                \
  X(ROUTED_SYMLINK, 10, FORWARD, "SYMLINK sent to a server")                                           \
  X(ROUTED_MKNOD, 11, FORWARD, "MKNOD sent to a server")                                               \
  X(ROUTED_REMOVE, 12, FORWARD, "REMOVE sent to a server")                                             \
  X(ROUTED_RMDIR, 13, FORWARD, "RMDIR sent to a server")                                               \
  X(ROUTED_RENAME, 14, FORWARD, "RENAME sent to a server")                                             \
  X(ROUTED_LINK, 15, FORWARD, "LINK sent to a server")                                                 \
  X(ROUTED_READDIR, 16, FORWARD, "READDIR sent to a server")                                           \
  X(ROUTED_READDIRPLUS, 17, FORWARD, "READDIRPLUS sent to a server")                                   \
  X(ROUTED_FSSTAT, 18, FORWARD, "FSSTAT sent to a server")                                             \
  X(ROUTED_FSINFO, 19, FORWARD, "FSINFO sent to a server")                                             \
  X(ROUTED_PATHCONF, 20, FORWARD, "PATHCONF sent to a server")                                         \
  X(ROUTED_COMMIT, 21, FORWARD, "COMMIT sent to a server")                                             \
  X(ROUTED_GETACL, 22, FORWARD, "GETACL sent to a server")                                             \
  X(ROUTED_SETACL, 23, FORWARD, "SETACL sent to a server")                                             \
  /* other packets sent on */                                                                          \
  X(READ_CLAMPED, 24, FORWARD, "READ cut at the threshold or a stripe unit, then sent to a server")    \
  X(FRAGMENT_REQUEST, 25, FORWARD, "later fragment of a request, sent after its first")                \
  X(FRAGMENT_REPLY, 26, FORWARD, "later fragment of a reply, sent after its first")                    \
  X(REPLY, 27, FORWARD, "reply sent to its client, no attributes of a regular file in it")             \
  X(REPLY_LEARNED, 28, FORWARD, "reply sent to its client, attributes remembered")                     \
  X(REPLY_PATCHED, 29, FORWARD, "reply sent to its client, attributes patched")                        \
  X(TCP_SPREAD, 30, FORWARD, "NFS over TCP sent to the proxy that has its client")                     \
  X(ICMP_SPREAD, 31, FORWARD, "ICMP error about such a connection, sent after it")                     \
  /* passed to the stack */                                                                            \
  X(NOT_OURS, 32, PASS, "neither to the virtual address nor a reply to one of its requests")           \
  X(NOT_IPV4, 33, PASS, "not IPv4 (ARP, VLAN), nor IPv6 where the volume has an address of it")        \
  X(NOT_UDP, 34, PASS, "to the virtual address, but not UDP (TCP, ICMP)")                              \
  X(OTHER_PORT, 35, PASS, "UDP to another port of the virtual address (PORTMAP, MOUNT)")               \
  X(IP_OPTIONS, 36, PASS, "IPv4 header with options")                                                  \
  X(FRAGMENT_PASSED, 37, PASS, "later fragment whose first was passed up")                             \
  X(OTHER_PROGRAM, 38, PASS, "RPC program other than NFS, and NFSACL to XDP")                          \
  X(OTHER_VERSION, 39, PASS, "NFS version other than 3")                                               \
  X(RPC_VERSION, 40, PASS, "RPC version other than 2")                                                 \
  X(BAD_PROCEDURE, 41, PASS, "NFSv3 procedure number above 21")                                        \
  X(BAD_HANDLE, 42, PASS, "file handle that is none of this volume's")                                 \
  X(NAME_TOO_LONG, 43, PASS, "name longer than 255 bytes")                                             \
  X(NAME_EMPTY, 44, PASS, "empty name")                                                                \
  X(BLOCK_MAPPED, 45, PASS, "file with a block map, placed by user space")                             \
  X(SITE_UNBOUND, 46, PASS, "site bound to no server")                                                 \
  X(NOT_LINEAR, 47, PASS, "headers beyond the directly readable part of the packet")                   \
  X(NO_CONFIG, 48, PASS, "tables not loaded yet")                                                      \
  X(TO_USER_SPACE, 49, PASS, "READDIRPLUS, whose many attributes user space patches")                  \
  X(REPLY_UNMATCHED, 50, PASS, "RPC reply to no request remembered here")                              \
  X(NO_NEXT_HOP, 51, PASS, "request re-addressed, and forwarded by the stack for want of a next hop")  \
  X(TRAILER, 52, PASS, "frame longer than the IP datagram in it")                                      \
  X(MIRRORED, 53, PASS, "WRITE of a mirrored file, or READ that user space chooses a copy for")        \
  X(SOURCE_ASTRAY, 54, PASS, "request from an address that the routes have at another interface")      \
  X(SPREAD_LOOP, 55, PASS, "NFS over TCP for another proxy, but at the end of its time to live")       \
  X(OTHER_FAMILY, 56, PASS, "request whose server has no address of its client's family")              \
  X(IP_EXTENSIONS, 57, PASS, "IPv6 header with extensions, fragments of several pieces excepted")      \
  X(NO_CHECKSUM, 58, PASS, "UDP over IPv6 without a checksum, which the stack refuses")                \
  X(NOT_SUMMED, 59, PASS, "unfilled UDP checksum (veth) over IPv6 of what is too long to be summed")   \
  /* dropped */                                                                                        \
  X(MALFORMED, 64, DROP, "lengths in IP, UDP or RPC headers that contradict one another")              \
  X(TRUNCATED, 65, DROP, "RPC call that ends before its arguments do")                                 \
  X(BAD_AUTH_LENGTH, 66, DROP, "credential or verifier longer than 400 bytes")                         \
  X(NOT_A_CALL, 67, DROP, "message to the virtual address that is no RPC call")                        \
  X(PATCH_LOST, 68, DROP, "reply with room for attributes that are no longer known")                   \
  X(PATCH_BUSY, 69, DROP, "reply whose attribute entry another processor held for too long")           \
  X(FRAGMENT_ORPHAN, 70, DROP, "later fragment before its first, handed to user space")                \
  X(FRAGMENT_LOST, 71, DROP, "later fragment before its first, and the ring to user space is full")    \
  X(REPLY_ROOM_UNMATCHED, 72, DROP, "reply with room for attributes and no request remembered")        \
  X(REPLY_MALFORMED, 73, DROP, "reply of a server that ends before its attributes do")                 \
  X(PATCH_FULL, 74, DROP, "reply with room for attributes, of a file that cannot be remembered")       \
  X(REPLY_ASTRAY, 75, DROP, "reply by another interface than the one towards its server")              \
  X(PATCH_REFUSED, 76, DROP, "reply with room for attributes that must not teach anything")            \
  /* counted beside another outcome */                                                                 \
  X(ATTR_MISS, 80, FORWARD, "READ, WRITE or COMMIT of a file whose attributes are not known")          \
  X(ATTR_BUSY, 81, FORWARD, "attribute or pending entry held by another processor")                    \
  X(ATTR_EVICTED, 82, FORWARD, "attribute entry dropped whose unsaved atime user space is to save")    \
  X(ATTR_NOT_EVICTED, 83, FORWARD, "attributes not remembered: all ways of their bucket are unsaved")  \
  X(CHECKSUM_CLEARED, 84, FORWARD, "unfilled UDP checksum (veth) set to zero")                         \
  X(ATTR_FOREIGN, 85, FORWARD, "attributes of another file than the request's, not believed")          \
  X(ATTR_MUTE, 86, FORWARD, "reply that teaches nothing: its request was replaced, or its way shared") \
  X(OVER_IPV6, 87, FORWARD, "packet of IPv6 that was sent on")                                         \
  X(CHECKSUM_SUMMED, 88, FORWARD, "unfilled UDP checksum (veth) over IPv6 filled in")                  \
  X(CHECKSUM_KEPT, 89, FORWARD, "unfilled UDP checksum (veth) over IPv6 left to who fills it in")

enum slice_outcome {
#define SLICE_OUTCOME_ENUM(name, number, action, text) SLICE_OUTCOME_##name = number,
  SLICE_OUTCOMES(SLICE_OUTCOME_ENUM)
#undef SLICE_OUTCOME_ENUM
};

#define SLICE_OUTCOME_COUNT 96u  // entries of the outcomes table

// What is done with a packet of that outcome, told by its number: below 32 it is
// forwarded (but for a NULL call), from 64 to 79 dropped, else passed.
SLICE_INLINE enum slice_action slice_outcome_action(uint32_t outcome) {
  if (outcome - 64 < 16) return SLICE_ACTION_DROP;
  if (outcome - 1 < 31 || outcome >= 80) return SLICE_ACTION_FORWARD;
  return SLICE_ACTION_PASS;
}
#define SLICE_OUTCOME_RANGE(name, number, action, text)                                              \
  SLICE_STATIC_ASSERT(SLICE_ACTION_##action == ((number) >= 64 && (number) < 80 ? SLICE_ACTION_DROP  \
                                                : (number) == 0 || ((number) >= 32 && (number) < 64) \
                                                    ? SLICE_ACTION_PASS                              \
                                                    : SLICE_ACTION_FORWARD),                         \
                      "number and action of an outcome disagree");
SLICE_OUTCOMES(SLICE_OUTCOME_RANGE)
#undef SLICE_OUTCOME_RANGE

#ifndef __bpf__
// Names as in the list ("ROUTED_READ"), and texts; null for a number that is none.
SLICE_INLINE const char* slice_outcome_name(uint32_t outcome) {
  switch (outcome) {
#define SLICE_OUTCOME_NAME(name, number, action, text) \
  case number:                                         \
    return #name;
    SLICE_OUTCOMES(SLICE_OUTCOME_NAME)
#undef SLICE_OUTCOME_NAME
    default:
      return 0;  // NOLINT(modernize-use-nullptr): C as well
  }
}

SLICE_INLINE const char* slice_outcome_text(uint32_t outcome) {
  switch (outcome) {
#define SLICE_OUTCOME_TEXT(name, number, action, text) \
  case number:                                         \
    return text;
    SLICE_OUTCOMES(SLICE_OUTCOME_TEXT)
#undef SLICE_OUTCOME_TEXT
    default:
      return 0;  // NOLINT(modernize-use-nullptr): C as well
  }
}
#endif

#endif  // SLICE_BPF_SHARED_OUTCOMES_H
