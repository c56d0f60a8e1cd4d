#include "control/proxy/call.h"

#include "rpc/message.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kNominal = 2048;  // bytes that every call holds: itself, its request, a short reply

}  // namespace

Services::Services(Plumbing plumbing_in, Tables tables_in, AttributeCache& cache_in, CallEncoder& encoder_in,
                   MapCache& maps_in, Metrics& metrics_in)
    : plumbing(plumbing_in),
      tables(tables_in),
      cache(cache_in),
      encoder(encoder_in),
      maps(maps_in),
      metrics(metrics_in) {
  for (std::uint32_t i = 0; i < SLICE_OUTCOME_COUNT; ++i) {
    const char* name = slice_outcome_name(i);
    outcomes_[i] =
        &metrics.counter(fmt::format("proxy_user_outcomes_total{{outcome=\"{}\"}}", name ? name : "OTHER"));
  }
}

Client::~Client() {
  drop_calls();
}

void Client::drop_calls() {
  while (!calls_.empty()) delete calls_.front();
}

Call::Call(Services& services, Client& client, CallFacts facts)
    : services_(services), client_(client), facts_(std::move(facts)) {
  client.calls_.push_back(*this);
  client.call_begins();
  charge(kNominal);
}

Call::~Call() {
  ListHook<CallTag>::unlink();
  client_.release(charged_);
  client_.call_ends();
}

void Call::charge(std::size_t bytes) {
  charged_ += bytes;
  client_.charge(bytes);
}

void Call::finish(const SliceChain& record) {
  client_.reply(*this, record);
  delete this;
}

void Call::fail(nfs3::Status status) {
  rpc::XdrWriter out;
  out.u32(0);
  rpc::encode_success(out, facts_.origin.xid);
  nfs3::encode_failure(out, static_cast<nfs3::Procedure>(facts_.procedure), status);
  out.patch_u32(0, rpc::kLastFragment | static_cast<std::uint32_t>(out.size() - 4));
  SliceChain record;
  record.append(services_.plumbing.pool.copy(out.view()));
  finish(record);
}

void Call::dispatch(Leg& leg, const slice_route& route, ByteView head, const SliceChain& data) {
  if (leg.table == nullptr && !services_.plumbing.legs.add(leg)) return;  // the client asks again
  leg.site_class = route.site_class;
  leg.site = route.site;
  leg.request = services_.encoder.encode(facts_.origin, leg.xid, facts_.procedure, head, data, data.size());
  leg.request_size = leg.request.size();
  services_.route(leg);
}

SliceChain Call::rewrite(const SliceChain& reply, PatchedReply& patched) {
  bool whole = reply.size() <= kCoalesceLimit || facts_.procedure == SLICE_NFS_READDIRPLUS;
  std::size_t head_size = whole ? reply.size() : std::min(reply.size(), kHeadBytes);
  std::uint8_t* into = nullptr;
  Slice head = services_.plumbing.pool.place(4 + head_size, into);
  if (whole) {
    reply.copy_to(into + 4);
  } else {
    ByteView bytes = reply.head(head_size, into + 4);
    if (bytes.data() != into + 4) std::memcpy(into + 4, bytes.data(), head_size);
  }
  if (head_size >= 4) store_be(into + 4, facts_.origin.xid.value);
  patched = patch_reply(services_.cache, facts_.reply_facts(), {into + 4, head_size});
  services_.count(patched.outcome);
  std::size_t rest = reply.size() - head_size;
  store_be(into, rpc::kLastFragment | static_cast<std::uint32_t>(patched.size + rest));
  SliceChain record;
  record.append(head.sub(0, 4 + patched.size));
  if (rest > 0) record.append(reply.sub(head_size, rest));
  return record;
}

std::vector<std::unique_ptr<Piece>> cut_into_pieces(Services& services, const CallFacts& facts,
                                                    LegOwner& owner) {
  std::vector<std::unique_ptr<Piece>> pieces;
  slice_request request{};
  request.procedure = facts.procedure;
  request.fileid = facts.fileid.value;
  request.directory_site = facts.directory_site;
  request.handle_flags = facts.handle_flags;
  request.stripe_shift = facts.stripe_shift;
  request.offset = facts.offset;
  request.count = facts.count;
  do {
    auto piece = std::make_unique<Piece>(owner);
    slice_route_call(services.tables.config, &request, nullptr, 0, 0, &piece->route);
    std::uint64_t stripe = request.offset >> (request.stripe_shift & 63);
    if (piece->route.outcome == SLICE_OUTCOME_BLOCK_MAPPED) {
      MonoTime now = services.plumbing.loop.now();
      auto site = services.maps.site(facts.handle, facts.fileid, stripe, now);
      piece->route.site = site.value_or(piece->route.site);
    }
    // Reads are spread over the copies, stripe by stripe; writes are for the first.
    piece->leg.copies = slice_handle_copies(facts.handle_flags);
    if (facts.procedure == SLICE_NFS_READ) {
      piece->leg.first_copy = static_cast<std::uint32_t>(stripe) % piece->leg.copies;
    }
    piece->offset = request.offset;
    piece->count = piece->route.count;
    request.offset += piece->count;
    request.count -= piece->count;
    pieces.push_back(std::move(piece));
  } while (request.count > 0);
  return pieces;
}

ReplyWriter::ReplyWriter(Xid xid, std::size_t reserve) {
  Buffer buffer;
  buffer.reserve(reserve);
  out_ = rpc::XdrWriter(std::move(buffer));
  out_.u32(0);
  rpc::encode_success(out_, xid);
  out_.u32(0);
}

Slice ReplyWriter::finish(ChunkPool& pool, std::size_t more) {
  out_.patch_u32(0, rpc::kLastFragment | static_cast<std::uint32_t>(out_.size() - 4 + more));
  return pool.copy(out_.view());
}

PlainCall::PlainCall(Services& services, Client& client, CallFacts facts, const slice_route& route,
                     ByteView arguments, const SliceChain& rest)
    : Call(services, client, std::move(facts)), leg_(*this) {
  std::size_t reply = facts_.procedure == SLICE_NFS_READDIR || facts_.procedure == SLICE_NFS_READDIRPLUS
                          ? std::min<std::size_t>(facts_.count, kMaxRecord)
                          : 0;
  charge(arguments.size() + rest.size() + reply);
  dispatch(leg_, route, arguments, rest);
}

void PlainCall::on_reply(Leg&, const SliceChain& reply) {
  PatchedReply patched;
  finish(rewrite(reply, patched));
}

}  // namespace slice::proxy
