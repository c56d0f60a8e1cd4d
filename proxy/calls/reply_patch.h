// Brings the attributes in a server's reply up to date, and the attribute cache with them.
#ifndef SLICE_PROXY_CALLS_REPLY_PATCH_H
#define SLICE_PROXY_CALLS_REPLY_PATCH_H

#include "proxy/tables/attribute_cache.h"
#include "rpc/auth.h"

namespace slice::proxy {

// What was asked. The fileID is of a handle that only the server can verify: attributes in the reply count
// when they are this file's, and what there is to learn they say themselves.
struct ReplyFacts {
  std::uint32_t procedure = 0;
  FileId fileid;
  std::uint32_t asked_ms = 0;  // AttributeCache::now_ms() when the request came
};

struct PatchedReply {
  std::size_t size = 0;           // of the head now: shorter where room could not be filled and was taken out
  std::uint32_t status = ~0u;     // nfsstat3 for the client; all ones where the RPC itself failed
  std::uint32_t outcome = 0;      // enum slice_outcome
  std::uint8_t* fattr = nullptr;  // the file's attributes, patched; null where there are none
  // A WRITE was done of which neither the cache nor the authority knows: its client must send it again
  // (`status` is kJukebox then).
  bool unknown = false;
};

// `head`: the reply message, or at least its first kHeadBytes (for READDIRPLUS: all of it), writable.
PatchedReply patch_reply(AttributeCache& cache, const ReplyFacts& facts, ByteSpan head);

// A READ reply that succeeded, taken apart.
struct ReadReply {
  std::size_t data_at = 0;  // offset of the data in the message
  std::uint32_t count = 0;
  bool eof = false;
};
// Nothing where `head` (whose message has `total` bytes) is no such reply.
std::optional<ReadReply> parse_read_reply(ByteView head, std::size_t total);

struct WriteReply {
  std::uint32_t count = 0;
  std::uint32_t committed = 0;
  std::uint64_t verifier = 0;
};
std::optional<WriteReply> parse_write_reply(ByteView message);
// A WRITE reply by which the node wants to be told this (wire/layout.h).
std::optional<rpc::LayoutStamp> parse_sent_too_early(ByteView message);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_REPLY_PATCH_H
