// READ: split at the threshold and at stripe units, sent to all servers at once, joined.
#include "proxy/calls/read_call.h"

#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {

ReadCall::ReadCall(Services& services, Client& client, CallFacts facts)
    : Call(services, client, std::move(facts)) {
  // A short reply is legal: no more than a record can carry, and nothing beyond the largest offset.
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;
  facts_.count = std::min(facts_.count, nfs3::kMaxTransfer);
  if (facts_.offset < kEnd) {
    facts_.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(facts_.count, kEnd - facts_.offset));
  } else {
    facts_.count = 0;  // the server answers what is to be said of such an offset
  }
  charge(facts_.count);
}

void ReadCall::start() {
  pieces_ = split_into_pieces(services_, facts_, *this);
  progress_.resize(pieces_.size());
  left_ = pieces_.size();
  for (std::size_t i = 0; i < pieces_.size(); ++i) send(i, pieces_[i]->offset, pieces_[i]->count);
}

void ReadCall::send(std::size_t index, std::uint64_t offset, std::uint32_t count) {
  Piece& piece = *pieces_[index];
  piece.leg.expected_reply = count + 256;
  Buffer head = read_arguments(facts_.handle.data(), services_.hint(facts_.fileid), offset, count);
  dispatch(piece.leg, piece.route, head.view(), {});
}

void ReadCall::on_reply(Leg& leg, const BufferChain& reply) {
  if (resumed_) return on_rest(reply);
  if (pieces_.size() == 1) return on_single(reply);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (&pieces_[i]->leg == &leg) return on_piece_reply(i, reply);
  }
}

void ReadCall::on_single(const BufferChain& reply) {
  PatchedReply patched;
  BufferChain record = rewrite(reply, patched);
  finish(record);
}

// ---- a long reply, given on as it comes ----

RecordHandler::Take ReadCall::on_reply_head(Leg&, ByteView head, std::size_t total) {
  if (resumed_ || pieces_.size() != 1 || !client_.takes_pieces()) return RecordHandler::Take::kWhole;
  std::optional<ReadReply> reply = parse_read_reply(head, total);
  if (!reply || reply->count > facts_.count) return RecordHandler::Take::kWhole;
  std::uint8_t* into = nullptr;
  BufferRef ours = services_.plumbing.pool.place(4 + reply->data_at, into);
  std::memcpy(into + 4, head.data(), reply->data_at);
  store_be(into + 4, facts_.reply_xid.value);
  PatchedReply patched = patch_reply(services_.cache, facts_.reply_facts(), {into + 4, reply->data_at});
  services_.count(patched.outcome);
  store_be(into, rpc::kLastFragment | static_cast<std::uint32_t>(patched.size + total - reply->data_at));
  stream_ = client_.open_reply();
  client_.append_reply(stream_, ours.sub(0, 4 + patched.size));
  skip_ = reply->data_at;
  forwarded_ = 0;
  announced_ = reply->count;
  return RecordHandler::Take::kPieces;
}

void ReadCall::on_reply_piece(Leg&, const BufferRef& piece) {
  std::size_t skipped = std::min(skip_, piece.size);
  skip_ -= skipped;
  if (skipped == piece.size) return;
  forwarded_ += piece.size - skipped;
  client_.append_reply(stream_, piece.sub(skipped, piece.size - skipped));
}

void ReadCall::on_reply_end(Leg&) {
  client_.close_reply(stream_);
  finish();
}

// The server died in the middle of its reply. If the client has some of it already, the rest is read again.
void ReadCall::on_reply_broken(Leg& leg) {
  bool untouched = client_.abort_reply(stream_);
  if (untouched) {
    stream_ = 0;
    return;
  }
  resumed_ = true;
  std::size_t done = std::min<std::size_t>(forwarded_, announced_);
  auto left = static_cast<std::uint32_t>(announced_ - done);
  Buffer head = read_arguments(facts_.handle.data(), 0, facts_.offset + done, left);
  leg.expected_reply = left + 256;
  leg.request = services_.encoder.encode(facts_.origin, leg.xid, facts_.procedure, head.view(), {}, 0);
  leg.request_size = leg.request.size();
}

void ReadCall::on_rest(const BufferChain& reply) {
  std::uint8_t scratch[kHeadBytes];
  std::size_t done = std::min<std::size_t>(forwarded_, announced_);
  std::optional<ReadReply> rest = parse_read_reply(reply.head(kHeadBytes, scratch), reply.size());
  if (!rest || rest->count != announced_ - done) {
    return client_.give_up("a server died in the middle of a reply whose rest cannot be read again");
  }
  BufferChain data = reply.sub(rest->data_at, rest->count);
  for (const BufferRef& slice : data.slices()) client_.append_reply(stream_, slice);
  std::size_t padding = rpc::xdr_padded(announced_) - std::max<std::size_t>(forwarded_, announced_);
  static constexpr std::uint8_t kZeros[4]{};
  if (padding > 0) client_.append_reply(stream_, services_.plumbing.pool.copy({kZeros, padding}));
  client_.close_reply(stream_);
  finish();
}

// ---- several pieces, joined ----

void ReadCall::on_piece_reply(std::size_t index, const BufferChain& reply) {
  std::uint8_t head[kHeadBytes];
  std::size_t head_size = std::min(reply.size(), kHeadBytes);
  ByteView bytes = reply.head(head_size, head);
  if (bytes.data() != head) std::memcpy(head, bytes.data(), head_size);
  std::optional<ReadReply> parsed = parse_read_reply({head, head_size}, reply.size());
  Progress& progress = progress_[index];
  Piece& piece = *pieces_[index];
  PatchedReply patched = patch_reply(services_.cache, facts_.reply_facts(), {head, head_size});
  services_.count(patched.outcome);
  if (patched.fattr != nullptr) {
    std::memcpy(fattr_, patched.fattr, SLICE_FATTR_BYTES);
    has_fattr_ = true;
  }
  if (parsed && parsed->count <= piece.count) {
    progress.count = parsed->count;
    progress.eof = parsed->eof;
    progress.data = reply.sub(parsed->data_at, parsed->count);
  } else if (index < failed_at_) {
    failed_at_ = index;
    failed_status_ = patched.status != 0 && patched.status != ~0u ? static_cast<nfs3::Status>(patched.status)
                                                                  : nfs3::Status::kServerFault;
  }
  piece.done = true;
  if (--left_ == 0) join();
}

// What counts is the run of bytes from the first on. A piece that ends short with EOF while a later one has
// data ends in a hole: its server knew an older size. A piece that failed, or is short without EOF, ends the
// run.
void ReadCall::join() {
  if (failed_at_ == 0) return fail(failed_status_);
  std::size_t last_with_data = 0;
  for (std::size_t i = 0; i < progress_.size() && i < failed_at_; ++i) {
    if (progress_[i].count > 0) last_with_data = i;
  }
  ChunkPool& pool = services_.plumbing.pool;
  BufferChain data;
  bool eof = false;
  for (std::size_t i = 0; i < progress_.size() && i < failed_at_; ++i) {
    const Progress& progress = progress_[i];
    data.append(progress.data);
    if (progress.count == pieces_[i]->count && !(progress.eof && i >= last_with_data)) continue;
    if (i >= last_with_data) {
      eof = progress.eof && failed_at_ == SIZE_MAX;
      break;
    }
    if (!progress.eof) break;
    std::uint32_t hole = pieces_[i]->count - progress.count;
    std::uint8_t* into = nullptr;
    BufferRef zeros = pool.place(hole, into);
    std::memset(into, 0, hole);
    data.append(std::move(zeros));
  }
  if (data.empty() && failed_at_ != SIZE_MAX) return fail(failed_status_);
  auto count = static_cast<std::uint32_t>(data.size());
  ReplyWriter reply(facts_.reply_xid, 160);
  reply.body().boolean(has_fattr_);
  if (has_fattr_) {
    services_.cache.overlay(facts_.fileid, fattr_);
    reply.body().fixed({fattr_, SLICE_FATTR_BYTES});
  }
  reply.body().u32(count);
  reply.body().boolean(eof);
  reply.body().u32(count);
  BufferChain record;
  record.append(reply.finish(pool, rpc::xdr_padded(count)));
  record.append(data);
  static constexpr std::uint8_t kZeros[4]{};
  if (std::size_t padding = rpc::xdr_padded(count) - count; padding > 0) {
    record.append(pool.copy({kZeros, padding}));
  }
  finish(record);
}

}  // namespace slice::proxy
