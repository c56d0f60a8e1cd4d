// The routing core: reads an ONC RPC call with NFSv3 arguments, and decides
// which site it goes to. The XDP program and every server compile this very
// code (user space by routing::place_of); nothing else decides a site.
//
//   slice_parse_call   bytes -> struct slice_request, bounded and table-free
//   slice_route_call   request + config + what is known of the size -> struct slice_route
//   slice_name_hash    (parent fileID, name) -> 64 bits
//   slice_*_site       the site of a file in each class
//
// No state and no allocation: any thread may call any function. Pointers in a
// request point into the caller's bytes and live as long as those.
#ifndef SLICE_BPF_SHARED_ROUTING_H
#define SLICE_BPF_SHARED_ROUTING_H

#include "bpf/shared/base.h"
#include "bpf/shared/file_handle.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/map_abi.h"
#include "bpf/shared/md5.h"
#include "bpf/shared/name_words.h"
#include "bpf/shared/nfs_offsets.h"
#include "bpf/shared/outcomes.h"
#include "bpf/shared/siphash.h"

// One parsed call. Numbers in host order unless said otherwise. Fields beyond
// `procedure` are set for the procedures whose arguments have them, else zero.
struct slice_request {
  uint32_t xid;  // host order
  uint32_t program;
  uint32_t version;
  uint32_t procedure;
  uint32_t credential_flavor;
  uint32_t credential_length;  // bytes of body
  uint32_t stripe_shift;
  uint32_t directory_site;  // of `handle`
  uint64_t fileid;          // of `handle`
  uint64_t offset;          // READ, WRITE, COMMIT
  uint64_t cookie;          // READDIR, READDIRPLUS
  uint32_t count;           // READ, WRITE, COMMIT, READDIR (count), READDIRPLUS (maxcount)
  uint32_t stable;          // WRITE: stable_how
  uint32_t handle_flags;    // of `handle`
  uint32_t name_length;
  uint32_t second_name_length;     // RENAME: the new name; LINK: the link's name
  uint32_t second_directory_site;  // RENAME: of the new directory; LINK: of the link's directory
  uint64_t second_fileid;
  const uint8_t* credential;     // body of the credential
  const uint8_t* arguments;      // first byte after the verifier
  const uint8_t* handle;         // 56 bytes: the object or directory
  const uint8_t* second_handle;  // RENAME: new directory; LINK: the link's directory
  const uint8_t* name;
  const uint8_t* second_name;
  const uint8_t* count_word;  // READ, WRITE: the argument `count`, for clamping in place
};

// Where a request goes.
struct slice_route {
  uint32_t site_class;  // enum slice_site_class
  uint32_t site;
  uint32_t count;    // READ, WRITE: bytes up to the first boundary, at most the request's count
  uint32_t outcome;  // enum slice_outcome: ROUTED_*, READ_CLAMPED, or why it is not routed
};

// --- Sites ---------------------------------------------------------------------

SLICE_INLINE uint32_t slice_small_file_site(uint64_t fileid, uint32_t mask) {
  return slice_spread32(fileid) & mask;
}

SLICE_INLINE uint32_t slice_coordinator_site(uint64_t fileid, uint32_t mask) {
  return (uint32_t)slice_mix64(fileid ^ 0x636f6f7264ULL) & mask;
}

// `stripe` is offset >> stripe_shift.
SLICE_INLINE uint32_t slice_storage_site(uint64_t fileid, uint64_t stripe, uint32_t mask) {
  return (uint32_t)slice_mix64(fileid + slice_mix64(stripe + 1)) & mask;
}

// Name hash of the volume's kind, of (parent fileID, name): MD5's first 8 bytes
// read big-endian, or SipHash-1-3. `end` bounds the readable memory. `length` is
// at most SLICE_MAX_NAME. `memory` is scratch, filled here.
SLICE_INLINE uint64_t slice_name_hash(const struct slice_config* config, struct slice_name_words* memory,
                                      uint64_t parent_fileid, const uint8_t* name, uint32_t length,
                                      const uint8_t* end) {
  slice_name_lay_out(memory, parent_fileid, name, length, end);
  if (config->name_hash == SLICE_NAME_HASH_SIPHASH13) {
    slice_store64(memory->key, slice_load64(config->name_key));
    slice_store64(memory->key + 8, slice_load64(config->name_key + 8));
    return slice_siphash13_name(memory);
  }
  return slice_md5_name(memory);
}

// --- Parsing -------------------------------------------------------------------
// Helpers of one shape: read at *cursor, advance it, answer 0 or an outcome.
// Zero is "go on": ROUTED_NULL is never an error.

// A file handle (length word and 56 bytes). `which` gets its first byte.
SLICE_INLINE uint32_t slice_parse_handle(const uint8_t** cursor, const uint8_t* end, const uint8_t** which) {
  const uint8_t* p = *cursor;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 4 > end)) return SLICE_OUTCOME_TRUNCATED;
  if (SLICE_UNLIKELY(slice_load32(p) != SLICE_BE32(SLICE_HANDLE_SIZE))) return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(p + 4 + SLICE_HANDLE_SIZE > end)) return SLICE_OUTCOME_TRUNCATED;
  *which = p + 4;
  *cursor = p + 4 + SLICE_HANDLE_SIZE;
  return 0;
}

// A name (RFC 1813 filename3) of 1 to 255 bytes, within `end` with its padding.
SLICE_INLINE uint32_t slice_parse_name(const uint8_t** cursor, const uint8_t* end, const uint8_t** name,
                                       uint32_t* length) {
  const uint8_t* p = *cursor;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 4 > end)) return SLICE_OUTCOME_TRUNCATED;
  uint32_t bytes = slice_be32(p);
  if (SLICE_UNLIKELY(bytes == 0)) return SLICE_OUTCOME_NAME_EMPTY;
  if (SLICE_UNLIKELY(bytes > SLICE_MAX_NAME)) return SLICE_OUTCOME_NAME_TOO_LONG;
  p += 4;
  *name = p;
  *length = bytes;
  p += (bytes + 3) & 0x1fc;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p > end)) return SLICE_OUTCOME_TRUNCATED;
  *cursor = p;
  return 0;
}

// A credential or verifier: flavor, length of at most 400, body.
SLICE_INLINE uint32_t slice_parse_auth(const uint8_t** cursor, const uint8_t* end, uint32_t* length) {
  const uint8_t* p = *cursor;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + SLICE_AUTH_HEADER > end)) return SLICE_OUTCOME_TRUNCATED;
  uint32_t bytes = slice_be32(p + 4);
  if (SLICE_UNLIKELY(bytes > SLICE_MAX_AUTH)) return SLICE_OUTCOME_BAD_AUTH_LENGTH;
  *length = bytes;
  p += SLICE_AUTH_HEADER + ((bytes + 3) & 0x1fc);
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p > end)) return SLICE_OUTCOME_TRUNCATED;
  *cursor = p;
  return 0;
}

// What is wrong with a header whose first words are not those of an NFSv3 call.
SLICE_INLINE uint32_t slice_why_no_nfs_call(const uint8_t* data) {
  if (SLICE_UNLIKELY(slice_load32(data + SLICE_CALL_TYPE) != SLICE_BE32(SLICE_RPC_CALL)))
    return SLICE_OUTCOME_NOT_A_CALL;
  if (SLICE_UNLIKELY(slice_load32(data + SLICE_CALL_RPC_VERSION) != SLICE_BE32(SLICE_RPC_VERSION))) {
    return SLICE_OUTCOME_RPC_VERSION;
  }
  if (SLICE_UNLIKELY(slice_load32(data + SLICE_CALL_PROGRAM) != SLICE_BE32(SLICE_PROGRAM_NFS))) {
    return SLICE_OUTCOME_OTHER_PROGRAM;
  }
  return SLICE_OUTCOME_OTHER_VERSION;
}

// XDP passes calls of NFSACL up: over UDP they are few.
#ifdef __bpf__
#define SLICE_TAKES_ACL_CALLS 0
#else
#define SLICE_TAKES_ACL_CALLS 1
#endif

// What is no call of NFS, or one of NFSACL version 3: that is one of NFS from here on, by its number.
SLICE_INLINE uint32_t slice_take_acl_call(const uint8_t* data, struct slice_request* request) {
  if (SLICE_TAKES_ACL_CALLS &&
      slice_load64(data + SLICE_CALL_TYPE) == SLICE_WIRE64(SLICE_RPC_CALL, SLICE_RPC_VERSION) &&
      request->program == SLICE_PROGRAM_NFSACL) {
    if (request->version != SLICE_NFS_VERSION) return SLICE_OUTCOME_OTHER_VERSION;
    if (request->procedure >= SLICE_NFSACL_PROCEDURES) return SLICE_OUTCOME_BAD_PROCEDURE;
    if (request->procedure != SLICE_NFS_NULL) request->procedure += SLICE_NFSACL_NUMBERED;
    return 0;
  }
  return slice_why_no_nfs_call(data);
}

// The RPC call header (RFC 5531 section 9) of the message at `data`: fills xid
// to credential_length, `credential` and `arguments`. Words that are fixed in an
// NFSv3 call are compared two at a time.
SLICE_INLINE uint32_t slice_parse_call_header(const uint8_t* data, const uint8_t* end,
                                              struct slice_request* request) {
  if (SLICE_UNLIKELY(data + SLICE_CALL_CREDENTIAL + SLICE_AUTH_HEADER > end)) return SLICE_OUTCOME_TRUNCATED;
  request->xid = slice_be32(data + SLICE_CALL_XID);
  request->program = slice_be32(data + SLICE_CALL_PROGRAM);
  request->version = slice_be32(data + SLICE_CALL_VERSION);
  request->procedure = slice_be32(data + SLICE_CALL_PROCEDURE);
  request->credential_flavor = slice_be32(data + SLICE_CALL_CREDENTIAL);
  request->credential = data + SLICE_CALL_CREDENTIAL + SLICE_AUTH_HEADER;
  if (slice_load64(data + SLICE_CALL_TYPE) != SLICE_WIRE64(SLICE_RPC_CALL, SLICE_RPC_VERSION) ||
      slice_load64(data + SLICE_CALL_PROGRAM) != SLICE_WIRE64(SLICE_PROGRAM_NFS, SLICE_NFS_VERSION)) {
    uint32_t why = slice_take_acl_call(data, request);
    if (why) return why;
  } else if (SLICE_UNLIKELY(request->procedure >= SLICE_NFS_PROCEDURES)) {
    return SLICE_OUTCOME_BAD_PROCEDURE;
  }
  const uint8_t* p = data + SLICE_CALL_CREDENTIAL;
  uint32_t outcome = slice_parse_auth(&p, end, &request->credential_length);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  uint32_t verifier_length = 0;
  outcome = slice_parse_auth(&p, end, &verifier_length);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  request->arguments = p;
  return 0;
}

// What the first handle says, after checking that this volume could have minted it.
SLICE_INLINE uint32_t slice_read_handle(const struct slice_config* config, struct slice_request* request) {
  const uint8_t* h = request->handle;
  // version, type, flags and stripe shift are one word
  uint32_t head = slice_be32(h);
  request->handle_flags = (head >> 8) & 0xff;
  request->stripe_shift = head & 0xff;
  request->fileid = slice_be64(h + SLICE_HANDLE_AT_FILEID);
  request->directory_site = slice_be16(h + SLICE_HANDLE_AT_SITE);
  if (SLICE_UNLIKELY(head >> 24 != SLICE_HANDLE_VERSION)) return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(slice_be32(h + SLICE_HANDLE_AT_VOLUME) != config->volume))
    return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(request->directory_site > config->site_mask[SLICE_CLASS_DIRECTORY]))
    return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(request->fileid == 0)) return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(request->stripe_shift < SLICE_MIN_STRIPE_SHIFT ||
                     request->stripe_shift > SLICE_MAX_STRIPE_SHIFT)) {
    return SLICE_OUTCOME_BAD_HANDLE;
  }
  return 0;
}

SLICE_INLINE uint32_t slice_read_second_handle(const struct slice_config* config,
                                               struct slice_request* request) {
  const uint8_t* h = request->second_handle;
  request->second_fileid = slice_be64(h + SLICE_HANDLE_AT_FILEID);
  request->second_directory_site = slice_be16(h + SLICE_HANDLE_AT_SITE);
  if (SLICE_UNLIKELY(h[SLICE_HANDLE_AT_VERSION] != SLICE_HANDLE_VERSION)) return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(slice_be32(h + SLICE_HANDLE_AT_VOLUME) != config->volume))
    return SLICE_OUTCOME_BAD_HANDLE;
  if (SLICE_UNLIKELY(request->second_directory_site > config->site_mask[SLICE_CLASS_DIRECTORY])) {
    return SLICE_OUTCOME_BAD_HANDLE;
  }
  return 0;
}

// offset, count [, stable] of READ3args, WRITE3args, COMMIT3args (RFC 1813
// sections 3.3.6, 3.3.7, 3.3.21), at p, the first byte after the handle.
SLICE_INLINE uint32_t slice_parse_range(const uint8_t* p, const uint8_t* end, uint32_t is_write,
                                        struct slice_request* request) {
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 12 > end)) return SLICE_OUTCOME_TRUNCATED;
  request->offset = slice_be64(p);
  request->count_word = p + 8;
  request->count = slice_be32(p + 8);
  if (is_write) {
    if (SLICE_UNLIKELY(p + 20 > end)) return SLICE_OUTCOME_TRUNCATED;  // stable and the data's length too
    request->stable = slice_be32(p + 12);
  }
  return 0;
}

// cookie, cookieverf, [dircount,] count of READDIR(PLUS) (sections 3.3.16, 3.3.17).
SLICE_INLINE uint32_t slice_parse_readdir(const uint8_t* p, const uint8_t* end, uint32_t is_plus,
                                          struct slice_request* request) {
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 20 > end)) return SLICE_OUTCOME_TRUNCATED;
  request->cookie = slice_be64(p);
  request->count = slice_be32(p + 16);
  if (is_plus) {
    if (SLICE_UNLIKELY(p + 24 > end)) return SLICE_OUTCOME_TRUNCATED;
    request->count = slice_be32(p + 20);
  }
  return 0;
}

// The arguments that lie beyond the first handle, by procedure.
SLICE_INLINE uint32_t slice_parse_beyond_handle(const struct slice_config* config, const uint8_t* p,
                                                const uint8_t* end, struct slice_request* request) {
  uint32_t outcome;
  if (SLICE_LIKELY(request->procedure == SLICE_NFS_READ)) return slice_parse_range(p, end, 0, request);
  switch (request->procedure) {
    case SLICE_NFS_COMMIT:
      return slice_parse_range(p, end, 0, request);
    case SLICE_NFS_WRITE:
      return slice_parse_range(p, end, 1, request);
    case SLICE_NFS_READDIR:
      return slice_parse_readdir(p, end, 0, request);
    case SLICE_NFS_READDIRPLUS:
      return slice_parse_readdir(p, end, 1, request);
    case SLICE_NFS_LOOKUP:
    case SLICE_NFS_CREATE:
    case SLICE_NFS_MKDIR:
    case SLICE_NFS_SYMLINK:
    case SLICE_NFS_MKNOD:
    case SLICE_NFS_REMOVE:
    case SLICE_NFS_RMDIR:
      return slice_parse_name(&p, end, &request->name, &request->name_length);
    case SLICE_NFS_RENAME:
      outcome = slice_parse_name(&p, end, &request->name, &request->name_length);
      if (SLICE_UNLIKELY(outcome)) return outcome;
      break;
    case SLICE_NFS_LINK:
      break;
    default:
      return 0;
  }
  outcome = slice_parse_handle(&p, end, &request->second_handle);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  outcome = slice_read_second_handle(config, request);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  return slice_parse_name(&p, end, &request->second_name, &request->second_name_length);
}

// The arguments of a call whose header slice_parse_call_header has read.
SLICE_INLINE uint32_t slice_parse_arguments(const struct slice_config* config, const uint8_t* end,
                                            struct slice_request* request) {
  if (request->procedure == SLICE_NFS_NULL) return 0;
  const uint8_t* p = request->arguments;
  uint32_t outcome = slice_parse_handle(&p, end, &request->handle);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  outcome = slice_read_handle(config, request);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  return slice_parse_beyond_handle(config, p, end, request);
}

// The common form of a READ: verifier AUTH_NONE, nothing missing, nothing to
// object to. 1: `request` is as slice_parse_call would fill it, but for program,
// version and the credential's flavor and length. 0: ask slice_parse_call, which
// has the say. Constant words are compared two at a time, bounds checked twice.
SLICE_INLINE int slice_parse_plain_read(const struct slice_config* config, const uint8_t* data,
                                        const uint8_t* end, struct slice_request* request) {
  if (SLICE_UNLIKELY(data + SLICE_CALL_CREDENTIAL + SLICE_AUTH_HEADER > end)) return 0;
  if (SLICE_UNLIKELY(slice_load64(data + SLICE_CALL_TYPE) != SLICE_WIRE64(SLICE_RPC_CALL, SLICE_RPC_VERSION)))
    return 0;
  if (SLICE_UNLIKELY(slice_load64(data + SLICE_CALL_PROGRAM) !=
                     SLICE_WIRE64(SLICE_PROGRAM_NFS, SLICE_NFS_VERSION))) {
    return 0;
  }
  if (SLICE_UNLIKELY(slice_load32(data + SLICE_CALL_PROCEDURE) != SLICE_BE32(SLICE_NFS_READ))) return 0;
  uint32_t length = slice_be32(data + SLICE_CALL_CREDENTIAL + 4);
  if (SLICE_UNLIKELY(length > SLICE_MAX_AUTH)) return 0;
  const uint8_t* p = data + SLICE_CALL_CREDENTIAL + SLICE_AUTH_HEADER + ((length + 3) & 0x1fc);
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + SLICE_AUTH_HEADER + 4 + SLICE_HANDLE_SIZE + 12 > end)) return 0;
  if (SLICE_UNLIKELY(slice_load64(p) != 0)) return 0;
  if (SLICE_UNLIKELY(slice_load32(p + SLICE_AUTH_HEADER) != SLICE_BE32(SLICE_HANDLE_SIZE))) return 0;
  request->procedure = SLICE_NFS_READ;
  request->handle = p + SLICE_AUTH_HEADER + 4;
  if (SLICE_UNLIKELY(slice_read_handle(config, request))) return 0;
  request->offset = slice_be64(request->handle + SLICE_HANDLE_SIZE);
  request->count_word = request->handle + SLICE_HANDLE_SIZE + 8;
  request->count = slice_be32(request->count_word);
  return 1;
}

// Reads the RPC message between data and end (a UDP payload, or at least the
// head of a TCP record; WRITE data need not be there). `request` must be all
// zero. Result: 0 when the call can be routed, else the outcome (ROUTED_NULL
// is 0 too: look at request->procedure). On an outcome other than 0, fields up
// to where parsing stopped are set.
SLICE_INLINE uint32_t slice_parse_call(const struct slice_config* config, const uint8_t* data,
                                       const uint8_t* end, struct slice_request* request) {
  uint32_t outcome = slice_parse_call_header(data, end, request);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  return slice_parse_arguments(config, end, request);
}

// --- Routing -------------------------------------------------------------------

// READ and WRITE: the server of the first byte, and the bytes up to the
// threshold or the end of the stripe unit. No overflow for any offset or count.
// All bytes of a mirrored file are on storage servers; the site is that of its
// first copy, and slice_choose_copy() or user space says which one. The site of a block-mapped file's
// stripe is the one it has where its map says nothing; user space knows the map.
SLICE_INLINE void slice_route_bytes(const struct slice_config* config, const struct slice_request* request,
                                    struct slice_route* route) {
  uint64_t room;
  int mirrored = (request->handle_flags & SLICE_HANDLE_MIRRORED) != 0;
  if (request->offset < config->threshold && !mirrored) {
    route->site_class = SLICE_CLASS_SMALL_FILE;
    route->site = slice_small_file_site(request->fileid, config->site_mask[SLICE_CLASS_SMALL_FILE]);
    room = config->threshold - request->offset;
  } else {
    uint32_t shift = request->stripe_shift & 63;
    uint64_t unit = 1ULL << shift;
    route->site_class = SLICE_CLASS_STORAGE;
    route->site =
        slice_storage_site(request->fileid, request->offset >> shift, config->site_mask[SLICE_CLASS_STORAGE]);
    room = unit - (request->offset & (unit - 1));
  }
  if (request->count > room) {
    route->count = (uint32_t)room;
    if (request->procedure == SLICE_NFS_READ) route->outcome = SLICE_OUTCOME_READ_CLAMPED;
  }
  if (SLICE_UNLIKELY(mirrored)) route->outcome = SLICE_OUTCOME_MIRRORED;
  if (SLICE_UNLIKELY(request->handle_flags & SLICE_HANDLE_BLOCK_MAPPED) &&
      route->site_class == SLICE_CLASS_STORAGE) {
    route->outcome = SLICE_OUTCOME_BLOCK_MAPPED;
  }
}

// Which of a stripe's copies a READ is for, by the site's entry in `copies`: they take turns, stripe by
// stripe. `asked`: the server that was asked already and has not answered, 0 for none; then it is the next
// one. 0: there is none.
SLICE_INLINE uint32_t slice_choose_copy(uint64_t entry, uint32_t copies, uint32_t stripe, uint32_t asked) {
  uint32_t first = stripe % copies;
  for (uint32_t i = 0; i < SLICE_MAX_COPIES; i++) {
    uint32_t server = (entry >> (i * SLICE_COPY_BITS)) & ((1u << SLICE_COPY_BITS) - 1);
    if (i < copies && asked != 0 && server == asked) first = i + 1;
  }
  for (uint32_t i = 0; i < SLICE_MAX_COPIES; i++) {
    uint32_t at = first + i < copies ? first + i : first + i - copies;
    uint32_t server = (entry >> ((at & 3) * SLICE_COPY_BITS)) & ((1u << SLICE_COPY_BITS) - 1);
    if (i < copies && server != 0) return server;
  }
  return 0;
}

// Whether the request's route depends on the hash of its (directory, name).
SLICE_INLINE int slice_needs_name_hash(const struct slice_config* config,
                                       const struct slice_request* request) {
  if (config->policy == SLICE_POLICY_MKDIR_SWITCHING) {
    return request->procedure == SLICE_NFS_MKDIR && config->mkdir_limit != 0;
  }
  return (request->name_length | request->second_name_length) != 0;
}

// The directory site of an operation on (directory, name); docs/name-space.md.
// MKDIR under mkdir switching moves to a hashed site with probability p.
SLICE_INLINE uint32_t slice_route_name(const struct slice_config* config, uint32_t procedure,
                                       uint32_t directory_site, uint64_t hash) {
  uint32_t mask = config->site_mask[SLICE_CLASS_DIRECTORY];
  if (config->policy == SLICE_POLICY_NAME_HASHING) return (uint32_t)hash & mask;
  if (procedure == SLICE_NFS_MKDIR && hash >> 32 < config->mkdir_limit) return (uint32_t)hash & mask;
  return directory_site;
}

// Decides where a parsed request goes. `size_known` and `size` (bytes) say what
// the caller knows of the file's size: a COMMIT goes to the small-file site only
// when the file is known to end at or below the threshold. `name_hash` counts
// only if slice_needs_name_hash. For procedure NULL the outcome is ROUTED_NULL:
// the proxy answers. The caller looks up slice_site_key(class, site) in its table.
SLICE_INLINE void slice_route_hashed(const struct slice_config* config, const struct slice_request* request,
                                     int size_known, uint64_t size, uint64_t name_hash,
                                     struct slice_route* route) {
  route->outcome = request->procedure;
  route->count = request->count;
  route->site_class = SLICE_CLASS_DIRECTORY;
  route->site = request->directory_site;
  switch (request->procedure) {
    case SLICE_NFS_READ:
    case SLICE_NFS_WRITE:
      slice_route_bytes(config, request, route);
      return;
    case SLICE_NFS_COMMIT:
      if (size_known && size <= config->threshold && !(request->handle_flags & SLICE_HANDLE_MIRRORED)) {
        route->site_class = SLICE_CLASS_SMALL_FILE;
        route->site = slice_small_file_site(request->fileid, config->site_mask[SLICE_CLASS_SMALL_FILE]);
      } else {
        route->site_class = SLICE_CLASS_COORDINATOR;
        route->site = slice_coordinator_site(request->fileid, config->site_mask[SLICE_CLASS_COORDINATOR]);
      }
      return;
    case SLICE_NFS_LOOKUP:
    case SLICE_NFS_CREATE:
    case SLICE_NFS_MKDIR:
    case SLICE_NFS_SYMLINK:
    case SLICE_NFS_MKNOD:
    case SLICE_NFS_REMOVE:
    case SLICE_NFS_RMDIR:
    case SLICE_NFS_RENAME:
      route->site = slice_route_name(config, request->procedure, request->directory_site, name_hash);
      return;
    case SLICE_NFS_LINK:
      route->site = slice_route_name(config, request->procedure, request->second_directory_site, name_hash);
      return;
    case SLICE_NFS_READDIR:
    case SLICE_NFS_READDIRPLUS:
      if (config->policy == SLICE_POLICY_NAME_HASHING) {
        route->site =
            (uint32_t)(request->cookie >> SLICE_COOKIE_SITE_SHIFT) & config->site_mask[SLICE_CLASS_DIRECTORY];
      }
      return;
    default:
      return;
  }
}

// Outcomes of slice_parse_call by which a name has no hash; the rest of the call is sound.
SLICE_INLINE int slice_is_name_trouble(uint32_t outcome) {
  return outcome == SLICE_OUTCOME_NAME_EMPTY || outcome == SLICE_OUTCOME_NAME_TOO_LONG;
}

// Whether slice_parse_call has found every name that the procedure's arguments have.
SLICE_INLINE int slice_has_names(const struct slice_request* request) {
  switch (request->procedure) {
    case SLICE_NFS_LOOKUP:
    case SLICE_NFS_CREATE:
    case SLICE_NFS_MKDIR:
    case SLICE_NFS_SYMLINK:
    case SLICE_NFS_MKNOD:
    case SLICE_NFS_REMOVE:
    case SLICE_NFS_RMDIR:
      return request->name_length != 0;
    case SLICE_NFS_RENAME:
      return request->name_length != 0 && request->second_name_length != 0;
    case SLICE_NFS_LINK:
      return request->second_name_length != 0;
    default:
      return 1;
  }
}

// slice_route_hashed, with the name's hash where it is needed. `end` is as in
// slice_parse_call, whose outcome is 0, NAME_EMPTY or NAME_TOO_LONG: of a name that no
// hash is taken of, the server of the first handle says what is wrong. This is what user
// space calls.
SLICE_INLINE void slice_route_call(const struct slice_config* config, const struct slice_request* request,
                                   const uint8_t* end, int size_known, uint64_t size,
                                   struct slice_route* route) {
  uint64_t hash = 0;
  if (!slice_has_names(request)) {
    route->outcome = request->procedure;
    route->count = request->count;
    route->site_class = SLICE_CLASS_DIRECTORY;
    route->site = request->directory_site;
    return;
  }
  if (slice_needs_name_hash(config, request)) {
    struct slice_name_words memory;
    int is_link = request->procedure == SLICE_NFS_LINK;
    hash = slice_name_hash(config, &memory, is_link ? request->second_fileid : request->fileid,
                           is_link ? request->second_name : request->name,
                           is_link ? request->second_name_length : request->name_length, end);
  }
  slice_route_hashed(config, request, size_known, size, hash, route);
}

#endif  // SLICE_BPF_SHARED_ROUTING_H
