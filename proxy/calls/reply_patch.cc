#include "proxy/calls/reply_patch.h"

#include <vector>

#include "bpf/shared/reply.h"
#include "rpc/message.h"
#include "rpc/xdr.h"
#include "wire/layout.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

// READDIRPLUS3resok (RFC 1813 section 3.3.17): attributes of many files.
void patch_entries(AttributeCache& cache, std::uint32_t asked_ms, ByteSpan message, std::size_t results_at) {
  rpc::XdrReader in(ByteView(message).subspan(results_at));
  if (in.u32() != 0) return;
  if (in.boolean()) in.skip(SLICE_FATTR_BYTES);
  in.skip(8);
  std::vector<slice_attr_event> events;
  std::vector<std::uint8_t*> attributes;
  while (in.boolean()) {
    in.u64();
    in.opaque(nfs3::kMaxNameOnWire);
    in.u64();
    ByteView fattr, handle;
    if (in.boolean()) fattr = in.fixed(SLICE_FATTR_BYTES);
    if (in.boolean()) handle = in.opaque(nfs3::kMaxHandle);
    if (!in.ok()) break;
    if (fattr.empty() || handle.size() != SLICE_HANDLE_SIZE) continue;
    if (load_be<std::uint32_t>(fattr.data()) != SLICE_NF3REG) continue;
    slice_attr_event event{};
    event.fileid = slice_be64(handle.data() + SLICE_HANDLE_AT_FILEID);
    event.procedure = SLICE_NFS_READDIRPLUS;
    event.asked_ms = asked_ms;
    event.teaches = 1;
    events.push_back(event);
    attributes.push_back(message.data() + (fattr.data() - message.data()));
  }
  cache.prefetch(events);
  for (std::size_t i = 0; i < events.size(); ++i) cache.absorb(attributes[i], events[i]);
}

// Nothing where the RPC itself failed.
std::optional<ByteView> results_of(ByteView message) {
  auto decoded = rpc::decode_reply(message);
  if (!decoded || !decoded->accepted || decoded->accept_stat != rpc::AcceptStat::kSuccess)
    return std::nullopt;
  return decoded->results;
}

// post_op_attr without attributes, and the rest moved up.
std::size_t take_out(ByteSpan head, std::uint8_t* fattr) {
  store_be<std::uint32_t>(fattr - 4, 0);
  std::uint8_t* behind = fattr + SLICE_FATTR_BYTES;
  std::memmove(fattr, behind, static_cast<std::size_t>(head.data() + head.size() - behind));
  return head.size() - SLICE_FATTR_BYTES;
}

}  // namespace

PatchedReply patch_reply(AttributeCache& cache, const ReplyFacts& facts, ByteSpan head) {
  PatchedReply result;
  result.size = head.size();
  slice_reply reply{};
  result.outcome = slice_parse_reply(facts.procedure, head.data(), head.data() + head.size(), &reply);
  result.status = reply.status;
  if (result.outcome != 0) return result;
  result.outcome = SLICE_OUTCOME_REPLY;
  if (facts.procedure == SLICE_NFS_READDIRPLUS && reply.status == 0) {
    auto decoded = rpc::decode_reply(head);
    if (decoded) {
      patch_entries(cache, facts.asked_ms, head,
                    static_cast<std::size_t>(decoded->results.data() - head.data()));
    }
    return result;
  }
  slice_attr_event event{};
  event.fileid = slice_reply_fileid(&reply, facts.fileid.value);
  event.procedure = facts.procedure;
  event.asked_ms = facts.asked_ms;
  event.teaches = 1;
  if (reply.fattr != nullptr) {
    std::uint8_t* fattr = head.data() + (reply.fattr - head.data());
    result.outcome = cache.absorb(fattr, event);
    result.fattr = fattr;
    if (slice_attr_is_room(fattr)) {
      result.size = take_out(head, fattr);
      result.fattr = nullptr;
      result.unknown = facts.procedure == SLICE_NFS_WRITE && result.outcome != SLICE_OUTCOME_PATCH_LOST;
    }
  } else if (facts.procedure == SLICE_NFS_WRITE && reply.status == 0) {
    result.unknown = !cache.unremembered(facts.fileid);
  }
  if (result.unknown) result.status = static_cast<std::uint32_t>(nfs3::Status::kJukebox);
  if (reply.status == static_cast<std::uint32_t>(nfs3::Status::kStale)) cache.forget(facts.fileid);
  return result;
}

std::optional<ReadReply> parse_read_reply(ByteView head, std::size_t total) {
  std::optional<ByteView> results = results_of(head);
  if (!results) return std::nullopt;
  rpc::XdrReader in(*results);
  if (in.u32() != 0) return std::nullopt;
  if (in.boolean()) in.skip(SLICE_FATTR_BYTES);
  ReadReply reply;
  reply.count = in.u32();
  reply.eof = in.boolean();
  std::uint32_t length = in.u32();
  if (!in.ok()) return std::nullopt;
  reply.data_at = head.size() - in.left();
  if (length != reply.count || total != reply.data_at + rpc::xdr_padded(length)) return std::nullopt;
  return reply;
}

std::optional<rpc::LayoutStamp> parse_sent_too_early(ByteView message) {
  std::optional<ByteView> results = results_of(message);
  return results ? wire::decode_sent_too_early(*results) : std::nullopt;
}

std::optional<WriteReply> parse_write_reply(ByteView message) {
  std::optional<ByteView> results = results_of(message);
  if (!results) return std::nullopt;
  rpc::XdrReader in(*results);
  if (in.u32() != 0) return std::nullopt;
  if (in.boolean()) in.skip(SLICE_WCC_ATTR_BYTES);
  if (in.boolean()) in.skip(SLICE_FATTR_BYTES);
  WriteReply reply;
  reply.count = in.u32();
  reply.committed = in.u32();
  reply.verifier = in.u64();
  if (!in.complete()) return std::nullopt;
  return reply;
}

}  // namespace slice::proxy
