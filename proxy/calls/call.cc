#include "proxy/calls/call.h"

#include "rpc/message.h"
#include "rpc/record.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

// Of a record: behind its mark and the header of an accepted, successful reply.
constexpr std::size_t kStatusAt = 4 + 24;
constexpr std::size_t kNominal = 2048;  // bytes that every call holds: itself, its request, a short reply

}  // namespace

Call::Call(Services& services, Client& client, CallFacts facts)
    : UnderWay(services.plumbing.loop.now()), services_(services), client_(client), facts_(std::move(facts)) {
  if (services.tracer != nullptr && services.tracer->on())
    trace_ = std::make_unique<Trace>(services.plumbing.loop, began);
  client.adopt(*this);
  client.call_begins();
  charge(kNominal);
}

Call::~Call() {
  ListHook<CallTag>::unlink();
  if (waiting_legs_ > 0) client_.take_back(aside_);
  client_.release(charged_);
  client_.call_ends();
}

// One leg that waits is enough: until it goes on the call keeps no server busy with much.
void Call::on_waits(Leg&, bool on) {
  if (on && waiting_legs_++ == 0) {
    aside_ = charged_;
    client_.set_aside(aside_);
  } else if (!on && --waiting_legs_ == 0) {
    client_.take_back(aside_);
  }
}

std::string Call::about() const {
  return fmt::format("{} of file {:#x} at {}, {} bytes, waits for {}", nfs3::procedure_name(facts_.procedure),
                     facts_.fileid.value, facts_.offset, facts_.count, waits_for());
}

void Call::charge(std::size_t bytes) {
  charged_ += bytes;
  client_.charge(bytes);
}

bool Call::take_up(Leg& leg) {
  if (trace_ != nullptr && leg.trace == nullptr) {
    leg.trace = trace_.get();
    leg.asked_at = trace_->now();
    leg.procedure = facts_.procedure;
  }
  return leg.table != nullptr || services_.plumbing.legs.add(leg);
}

void Call::finish(const BufferChain& record) {
  if (trace_ != nullptr) {
    std::uint8_t scratch[kStatusAt + 4];
    ByteView head = record.head(sizeof scratch, scratch);
    tell_tracer(head.size() == sizeof scratch ? load_be<std::uint32_t>(head.data() + kStatusAt) : 0,
                record.size());
    trace_.reset();
  }
  client_.reply(*this, record);
  finish();
}

void Call::tell_tracer(std::uint32_t status, std::size_t sent) {
  const Loop& loop = services_.plumbing.loop;
  const MonoTime now = trace_->now();
  const Duration took = now - began;
  if (!services_.tracer->wants(took)) return;
  wire::TraceRecord record{.began = WallTime{loop.wall().ns - took.count()},
                           .took = took,
                           .client = facts_.origin.client,
                           .xid = facts_.origin.xid,
                           .carried = facts_.reply_xid.value,
                           .program = nfs3::kProgram,
                           .procedure = facts_.procedure,
                           .file = facts_.fileid,
                           .offset = facts_.offset,
                           .count = facts_.count,
                           .stable = facts_.stable,
                           .status = status,
                           .sent = static_cast<std::uint32_t>(sent),
                           .steps = trace_->take_steps(),
                           .steps_left_off = trace_->left_off()};
  services_.tracer->finished(std::move(record), now);
}

void Call::finish() {
  if (trace_ != nullptr) tell_tracer(0, 0);  // a long READ, whose reply went on as it came
  services_.count_latency(facts_.procedure, began);
  delete this;
}

void Call::fail(nfs3::Status status) {
  rpc::XdrWriter out;
  out.u32(0);
  rpc::encode_success(out, facts_.reply_xid);
  nfs3::encode_failure(out, static_cast<nfs3::Procedure>(facts_.procedure), status);
  BufferChain record;
  record.append(services_.plumbing.pool.copy(marked(out).view()));
  finish(record);
}

void Call::dispatch(Leg& leg, const slice_route& route, ByteView head, const BufferChain& data) {
  if (!take_up(leg)) return;  // the client asks again
  leg.site_class = route.site_class;
  leg.site = route.site;
  leg.request = services_.encoder.encode(facts_.origin, leg.xid, facts_.procedure, head, data, data.size());
  leg.request_size = leg.request.size();
  services_.servers.send(leg);
}

BufferChain Call::rewrite(const BufferChain& reply, PatchedReply& patched) {
  bool whole = reply.size() <= kCoalesceLimit || facts_.procedure == SLICE_NFS_READDIRPLUS;
  std::size_t head_size = whole ? reply.size() : std::min(reply.size(), kHeadBytes);
  std::uint8_t* into = nullptr;
  BufferRef head = services_.plumbing.pool.place(4 + head_size, into);
  if (whole) {
    reply.copy_to(into + 4);
  } else {
    ByteView bytes = reply.head(head_size, into + 4);
    if (bytes.data() != into + 4) std::memcpy(into + 4, bytes.data(), head_size);
  }
  if (head_size >= 4) store_be(into + 4, facts_.reply_xid.value);
  patched = patch_reply(services_.cache, facts_.reply_facts(), {into + 4, head_size});
  services_.count(patched.outcome);
  std::size_t rest = reply.size() - head_size;
  store_be(into, rpc::kLastFragment | static_cast<std::uint32_t>(patched.size + rest));
  BufferChain record;
  record.append(head.sub(0, 4 + patched.size));
  if (rest > 0) record.append(reply.sub(head_size, rest));
  return record;
}

Buffer marked(rpc::XdrWriter& record) {
  Buffer bytes = record.take();
  rpc::mark_record(bytes);
  return bytes;
}

void answer_with(Services& services, Client& client, rpc::XdrWriter& out) {
  const Buffer bytes = marked(out);
  // A call of its own for the moment, so that clients see one kind of reply.
  class Answer : public Call {
   public:
    using Call::Call;
    void end(const BufferChain& record) { finish(record); }
    void on_reply(Leg&, const BufferChain&) override {}
  };
  BufferChain record;
  record.append(services.plumbing.pool.copy(bytes.view()));
  CallFacts facts;
  facts.origin.client = client.endpoint();
  facts.reply_xid = Xid{load_be<std::uint32_t>(bytes.data() + rpc::kRecordMark)};
  (new Answer(services, client, std::move(facts)))->end(record);
}

ReplyWriter::ReplyWriter(Xid xid, std::size_t reserve) {
  Buffer buffer;
  buffer.reserve(reserve);
  out_ = rpc::XdrWriter(std::move(buffer));
  out_.u32(0);
  rpc::encode_success(out_, xid);
  out_.u32(0);
}

BufferRef ReplyWriter::finish(ChunkPool& pool, std::size_t more) {
  out_.patch_u32(0, rpc::kLastFragment | static_cast<std::uint32_t>(out_.size() - 4 + more));
  return pool.copy(out_.view());
}

}  // namespace slice::proxy
