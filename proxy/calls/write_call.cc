// WRITE: split like READ; each piece goes to its server as soon as its bytes are here, a long one already
// before.
#include "proxy/calls/write_call.h"

#include "proxy/servers/connection.h"
#include "routing/place.h"
#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

constexpr unsigned kMostRefusals = 8;  // of one piece; then its client is told to wait

}  // namespace

WriteCall::WriteCall(Services& services, Client& client, CallFacts facts)
    : Call(services, client, std::move(facts)) {}

void WriteCall::start(std::size_t data_at, bool without_data) {
  pieces_ = split_into_pieces(services_, facts_, *this);
  progress_.resize(pieces_.size());
  left_ = pieces_.size();
  skip_ = data_at;
  hint_ = services_.hint(facts_.fileid);
  if (slice_handle_has_layout(facts_.handle_flags)) {
    facts_.origin.layout = services_.stamps.of(coordinator());
  }
  without_data_ = without_data;
  for (std::size_t i = 0; without_data_ && i < pieces_.size(); ++i) send(i);
}

Buffer WriteCall::arguments_of(const Piece& piece) const {
  return write_arguments(facts_.handle.data(), hint_, piece.offset, piece.count, facts_.stable,
                         data_of(piece));
}

// Charged as it comes: what a client says it will send holds nothing.
void WriteCall::on_request_piece(const BufferRef& piece) {
  charge(piece.size);
  std::size_t skipped = std::min(skip_, piece.size);
  skip_ -= skipped;
  take(piece.sub(skipped, piece.size - skipped));
}

// Deals the data out over the pieces; what is left behind the last is padding.
void WriteCall::take(BufferRef bytes) {
  while (bytes.size > 0 && current_ < pieces_.size()) {
    Piece& piece = *pieces_[current_];
    Progress& progress = progress_[current_];
    std::size_t n = std::min<std::size_t>(bytes.size, piece.count - progress.data.size());
    BufferRef mine = bytes.sub(0, n);
    bytes.data += n;
    bytes.size -= n;
    progress.data.append(mine);
    if (piece.leg.request_size != 0) {  // on its way already
      piece.leg.request.append(mine);
      if (piece.leg.connection != nullptr) piece.leg.connection->upload(mine);
    }
    advance();
  }
}

void WriteCall::advance() {
  Piece& piece = *pieces_[current_];
  Progress& progress = progress_[current_];
  Leg& leg = piece.leg;
  std::size_t index = current_;
  if (progress.data.size() == piece.count) {
    ++current_;
    if (leg.request_size == 0) return send(index);
    static constexpr std::uint8_t kZeros[4]{};
    if (std::size_t padding = rpc::xdr_padded(piece.count) - piece.count; padding > 0) {
      BufferRef zeros = services_.plumbing.pool.copy({kZeros, padding});
      leg.request.append(zeros);
      if (leg.connection != nullptr) leg.connection->upload(zeros);
    }
    progress.data.clear();
    if (leg.connection != nullptr) return leg.connection->end_upload();
    return services_.servers.send(leg);
  }
  if (leg.request_size != 0 || piece.count <= kStoreLimit) return;
  // Long, and not all here: begin, if a connection can be had for it alone.
  if (!take_up(leg)) return;
  Buffer head = arguments_of(piece);
  std::size_t total = rpc::xdr_padded(piece.count);
  leg.site_class = piece.route.site_class;
  leg.site = piece.route.site;
  leg.request =
      services_.encoder.encode(facts_.origin, leg.xid, facts_.procedure, head.view(), progress.data, total);
  leg.request_size = leg.request.size() + total - progress.data.size();
  services_.servers.begin_upload(leg);
}

void WriteCall::send(std::size_t index) {
  Piece& piece = *pieces_[index];
  Progress& progress = progress_[index];
  Buffer head = arguments_of(piece);
  static constexpr std::uint8_t kZeros[4]{};
  if (std::size_t padding = rpc::xdr_padded(data_of(piece)) - data_of(piece); padding > 0) {
    progress.data.append(services_.plumbing.pool.copy({kZeros, padding}));
  }
  BufferChain data = std::move(progress.data);
  progress.data.clear();
  dispatch(piece.leg, piece.route, head.view(), data);
}

SiteId WriteCall::coordinator() const {
  return routing::coordinator_site(*services_.tables.config, facts_.fileid);
}

// Of a reply that says that the piece was sent too early.
std::optional<rpc::LayoutStamp> WriteCall::wanted_stamp(const BufferChain& reply) const {
  if (facts_.origin.layout.version == 0) return std::nullopt;  // nobody says that of a file without a layout
  std::uint8_t message[kHeadBytes];
  return parse_sent_too_early(reply.head(std::min(reply.size(), kHeadBytes), message));
}

// Again, with what is known of layouts by now.
void WriteCall::send_again(std::size_t index) {
  facts_.origin.layout = services_.stamps.of(coordinator());
  Leg& leg = pieces_[index]->leg;
  const std::size_t size = kWriteHead + rpc::xdr_padded(data_of(*pieces_[index]));
  BufferChain arguments = leg.request.sub(leg.request.size() - size, size);
  leg.request = services_.encoder.encode(facts_.origin, leg.xid, facts_.procedure, {}, arguments, size);
  leg.request_size = leg.request.size();
  services_.servers.send(leg);
}

void WriteCall::on_reply(Leg& leg, const BufferChain& reply) {
  std::size_t index = 0;
  while (&pieces_[index]->leg != &leg) ++index;
  if (std::optional<rpc::LayoutStamp> stamp = wanted_stamp(reply)) {
    services_.stamps.heard(coordinator(), *stamp);
    if (++progress_[index].refusals <= kMostRefusals) return send_again(index);
    if (pieces_.size() == 1) return fail(nfs3::Status::kJukebox);
  }
  if (pieces_.size() == 1) {
    PatchedReply patched;
    BufferChain record = rewrite(reply, patched);
    return patched.unknown ? fail(nfs3::Status::kJukebox) : finish(record);
  }
  Progress& progress = progress_[index];
  std::uint8_t message[kHeadBytes];
  std::size_t size = std::min(reply.size(), kHeadBytes);
  ByteView bytes = reply.head(size, message);
  if (bytes.data() != message) std::memcpy(message, bytes.data(), size);
  std::optional<WriteReply> parsed = parse_write_reply({message, size});
  PatchedReply patched = patch_reply(services_.cache, facts_.reply_facts(), {message, size});
  services_.count(patched.outcome);
  if (patched.fattr != nullptr) {
    std::memcpy(fattr_, patched.fattr, SLICE_FATTR_BYTES);
    has_fattr_ = true;
  }
  if (!patched.unknown && parsed && parsed->count <= pieces_[index]->count) {
    progress.reply = *parsed;
  } else {
    progress.failed = true;
    progress.status = patched.status;
  }
  pieces_[index]->leg.request.clear();  // answered: no need to keep it
  pieces_[index]->done = true;
  if (--left_ == 0) join();
}

// The reply covers the run of bytes from the first on that were written: the least stable of their levels,
// and the smallest of their verifiers. Smallest, because verifiers only grow: were a piece written just
// before its server lost its memory, and another piece after that one heard of the new number, the larger
// number would match COMMIT's although bytes are lost; the smaller never does (docs/proxy.md).
void WriteCall::join() {
  std::uint32_t count = 0;
  std::uint32_t committed = static_cast<std::uint32_t>(nfs3::Stable::kFileSync);
  std::uint64_t verifier = ~std::uint64_t{0};
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    const Progress& progress = progress_[i];
    if (progress.failed) {
      if (i == 0) {
        bool known = progress.status != 0 && progress.status != ~0u;
        return fail(known ? static_cast<nfs3::Status>(progress.status) : nfs3::Status::kServerFault);
      }
      break;
    }
    count += progress.reply.count;
    committed = std::min(committed, progress.reply.committed);
    verifier = std::min(verifier, progress.reply.verifier);
    if (progress.reply.count < pieces_[i]->count) break;
  }
  ReplyWriter reply(facts_.reply_xid, 160);
  reply.body().boolean(false);  // no pre_op_attr
  reply.body().boolean(has_fattr_);
  if (has_fattr_) {
    services_.cache.overlay(facts_.fileid, fattr_);
    reply.body().fixed({fattr_, SLICE_FATTR_BYTES});
  }
  reply.body().u32(count);
  reply.body().u32(committed);
  reply.body().u64(verifier);
  BufferChain record;
  record.append(reply.finish(services_.plumbing.pool, 0));
  finish(record);
}

}  // namespace slice::proxy
