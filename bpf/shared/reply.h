// Finds, in an NFSv3 reply, the attributes of the regular file it is about.
// Directory servers' and data servers' replies alike; bounded, table-free.
//
// Over UDP a client chooses which of its requests a reply is taken for: it sends two under
// one xid. Read as the reply to another procedure, bytes of a file or of a symbolic link
// could pass for attributes. So booleans are 0 or 1, and a datagram with attributes has
// the length that its procedure's results have (slice_reply_is_whole): no two procedures
// whose attributes lie at different places have lengths in common.
#ifndef SLICE_BPF_SHARED_REPLY_H
#define SLICE_BPF_SHARED_REPLY_H

#include "bpf/shared/attributes.h"
#include "bpf/shared/base.h"
#include "bpf/shared/file_handle.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/nfs_offsets.h"
#include "bpf/shared/outcomes.h"

// A parsed reply; pointers into the caller's bytes.
struct slice_reply {
  uint32_t status;        // nfsstat3
  const uint8_t* fattr;   // fattr3 of a regular file (84 bytes), or null
  const uint8_t* handle;  // LOOKUP, CREATE: the handle (56 bytes) that came with it, or null
};

// post_op_attr at *cursor; *fattr becomes its 84 bytes if they follow.
SLICE_INLINE uint32_t slice_reply_post_op(const uint8_t** cursor, const uint8_t* end, const uint8_t** fattr) {
  const uint8_t* p = *cursor;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 4 > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
  uint32_t follows = slice_load32(p);
  p += 4;
  if (follows) {
    if (SLICE_UNLIKELY(follows != SLICE_BE32(1))) return SLICE_OUTCOME_REPLY_MALFORMED;
    if (SLICE_UNLIKELY(p + SLICE_FATTR_BYTES > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
    *fattr = p;
    p += SLICE_FATTR_BYTES;
  }
  *cursor = p;
  return 0;
}

// wcc_data at *cursor: skips pre_op_attr, then as slice_reply_post_op.
SLICE_INLINE uint32_t slice_reply_wcc(const uint8_t** cursor, const uint8_t* end, const uint8_t** fattr) {
  const uint8_t* p = *cursor;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 4 > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
  uint32_t follows = slice_load32(p);
  if (SLICE_UNLIKELY(follows && follows != SLICE_BE32(1))) return SLICE_OUTCOME_REPLY_MALFORMED;
  p += follows ? 4 + SLICE_WCC_ATTR_BYTES : 4;
  *cursor = p;
  return slice_reply_post_op(cursor, end, fattr);
}

// A handle of ours at *cursor: length word and 56 bytes.
SLICE_INLINE uint32_t slice_reply_handle(const uint8_t** cursor, const uint8_t* end, const uint8_t** handle) {
  const uint8_t* p = *cursor;
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 4 + SLICE_HANDLE_SIZE > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
  if (SLICE_UNLIKELY(slice_load32(p) != SLICE_BE32(SLICE_HANDLE_SIZE))) return SLICE_OUTCOME_REPLY_MALFORMED;
  *handle = p + 4;
  *cursor = p + 4 + SLICE_HANDLE_SIZE;
  return 0;
}

// Results that begin with a handle: LOOKUP3resok (section 3.3.3), CREATE3resok (3.3.8).
SLICE_INLINE uint32_t slice_reply_named(const uint8_t* p, const uint8_t* end, uint32_t is_create,
                                        struct slice_reply* reply) {
  if (reply->status != 0) return 0;  // only the directory's attributes
  if (is_create) {
    SLICE_HIDE(p);
    if (SLICE_UNLIKELY(p + 4 > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
    uint32_t follows = slice_load32(p);
    p += 4;
    if (!follows) return 0;  // no handle: the attributes cannot be attributed to a file
    if (SLICE_UNLIKELY(follows != SLICE_BE32(1))) return SLICE_OUTCOME_REPLY_MALFORMED;
  }
  uint32_t outcome = slice_reply_handle(&p, end, &reply->handle);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  return slice_reply_post_op(&p, end, &reply->fattr);
}

// The results at p (just after the status), by procedure.
SLICE_INLINE uint32_t slice_reply_results(uint32_t procedure, const uint8_t* p, const uint8_t* end,
                                          struct slice_reply* reply) {
  switch (procedure) {
    case SLICE_NFS_GETATTR:
      if (reply->status != 0) return 0;
      SLICE_HIDE(p);
      if (SLICE_UNLIKELY(p + SLICE_FATTR_BYTES > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
      reply->fattr = p;
      return 0;
    case SLICE_NFS_LOOKUP:
      return slice_reply_named(p, end, 0, reply);
    case SLICE_NFS_CREATE:
      return slice_reply_named(p, end, 1, reply);
    case SLICE_NFS_WRITE:
    case SLICE_NFS_SETATTR:
    case SLICE_NFS_COMMIT:
      return slice_reply_wcc(&p, end, &reply->fattr);
    case SLICE_NFS_ACCESS:
    case SLICE_NFS_READ:
    case SLICE_NFS_LINK:
    case SLICE_NFS_FSSTAT:
    case SLICE_NFS_FSINFO:
    case SLICE_NFS_PATHCONF:
    case SLICE_NFS_GETACL:
    case SLICE_NFS_SETACL:
      return slice_reply_post_op(&p, end, &reply->fattr);
    default:
      return 0;  // attributes of directories and symbolic links only
  }
}

// Reads the reply message between data and end (a UDP payload, its first
// fragment, or a TCP record) to a call of `procedure`. `reply` must be all zero.
// Result: 0, or REPLY_MALFORMED. A denied or unsuccessful RPC reply is 0 with no
// attributes. Attributes of what is no regular file are left out.
SLICE_INLINE uint32_t slice_parse_reply(uint32_t procedure, const uint8_t* data, const uint8_t* end,
                                        struct slice_reply* reply) {
  const uint8_t* p = data;
  if (SLICE_UNLIKELY(p + SLICE_REPLY_VERIFIER + SLICE_AUTH_HEADER > end))
    return SLICE_OUTCOME_REPLY_MALFORMED;
  reply->status = ~0u;
  if (slice_load32(p + SLICE_REPLY_STATE) != SLICE_BE32(SLICE_RPC_ACCEPTED)) return 0;
  uint32_t verifier = slice_be32(p + SLICE_REPLY_VERIFIER + 4);
  if (SLICE_UNLIKELY(verifier > SLICE_MAX_AUTH)) return SLICE_OUTCOME_REPLY_MALFORMED;
  p += SLICE_REPLY_VERIFIER + SLICE_AUTH_HEADER + ((verifier + 3) & 0x1fc);
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 4 > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
  if (slice_load32(p) != SLICE_BE32(SLICE_RPC_SUCCESS)) return 0;
  if (procedure == SLICE_NFS_NULL) return 0;
  if (SLICE_UNLIKELY(p + 8 > end)) return SLICE_OUTCOME_REPLY_MALFORMED;
  reply->status = slice_be32(p + 4);
  p += 8;
  uint32_t outcome = slice_reply_results(procedure, p, end, reply);
  if (SLICE_UNLIKELY(outcome)) return outcome;
  const uint8_t* fattr = reply->fattr;
  if (fattr && slice_load32(fattr + SLICE_FATTR_TYPE) != SLICE_BE32(SLICE_NF3REG))
    reply->fattr = 0;  // NOLINT(modernize-use-nullptr): C
  return 0;
}

// Lengths of a wcc_data, with and without either half.
SLICE_INLINE int slice_is_wcc_length(uint32_t bytes) {
  uint32_t before = SLICE_WCC_ATTR_BYTES;
  return bytes == 8 || bytes == 8 + before || bytes == 8 + SLICE_FATTR_BYTES ||
         bytes == 8 + before + SLICE_FATTR_BYTES;
}

// What follows the attributes of READ3resok: count, eof, and the data that count says.
SLICE_INLINE int slice_is_read_rest(const uint8_t* p, const uint8_t* end, uint32_t bytes) {
  SLICE_HIDE(p);
  if (SLICE_UNLIKELY(p + 12 > end)) return 0;
  uint32_t count = slice_be32(p);
  return count == slice_be32(p + 8) && count <= bytes && bytes == 12 + ((count + 3) & ~3u);
}

// Whether a message of `size` bytes is as long as a reply to `procedure` whose attributes
// lie at reply->fattr (which must be there). `data` and `end` are as in slice_parse_reply;
// `end` may come before the message's.
SLICE_INLINE int slice_reply_is_whole(uint32_t procedure, const struct slice_reply* reply,
                                      const uint8_t* data, const uint8_t* end, uint32_t size) {
  const uint8_t* p = reply->fattr + SLICE_FATTR_BYTES;
  uint32_t rest = size - (uint32_t)(p - data);
  int done = reply->status == 0;
  switch (procedure) {
    case SLICE_NFS_READ:
      return done ? slice_is_read_rest(p, end, rest) : rest == 0;
    case SLICE_NFS_WRITE:
      return rest == (done ? 16 : 0);
    case SLICE_NFS_COMMIT:
      return rest == (done ? 8 : 0);
    case SLICE_NFS_LOOKUP:
      return rest == 4 || rest == 4 + SLICE_FATTR_BYTES;
    case SLICE_NFS_CREATE:
    case SLICE_NFS_LINK:
      return slice_is_wcc_length(rest);
    case SLICE_NFS_ACCESS:
      return rest == (done ? 4 : 0);
    case SLICE_NFS_FSSTAT:
      return rest == (done ? 52 : 0);
    case SLICE_NFS_FSINFO:
      return rest == (done ? 48 : 0);
    case SLICE_NFS_PATHCONF:
      return rest == (done ? 24 : 0);
    default:  // GETATTR, SETATTR
      return rest == 0;
  }
}

// The file that the attributes in a reply to a call on `fileid` have to be of.
SLICE_INLINE uint64_t slice_reply_fileid(const struct slice_reply* reply, uint64_t fileid) {
  return reply->handle ? slice_be64(reply->handle + SLICE_HANDLE_AT_FILEID) : fileid;
}

// Whether a reply whose call nobody remembers holds room: READ (attributes
// first), WRITE or COMMIT (no pre_op_attr, then attributes).
SLICE_INLINE int slice_reply_has_room_unmatched(const uint8_t* data, const uint8_t* end) {
  // xid, REPLY, accepted, empty verifier (2), success, status, one or two words, fattr3
  if (data + 28 + 8 + 12 > end) return 0;
  if (slice_load32(data + 4) != SLICE_BE32(SLICE_RPC_REPLY) || slice_load32(data + 8) != 0 ||
      slice_load32(data + 16) != 0 || slice_load32(data + 20) != 0) {
    return 0;
  }
  uint32_t one = SLICE_BE32(1);
  const uint8_t* p = data + 28;
  if (slice_load32(p) == one) return slice_attr_is_room(p + 4);
  return slice_load32(p) == 0 && slice_load32(p + 4) == one && slice_attr_is_room(p + 8);
}

#endif  // SLICE_BPF_SHARED_REPLY_H
