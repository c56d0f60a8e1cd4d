#include "proxy/servers/connection.h"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kConnectPatience = 2s;
constexpr Duration kRecordPatience = 5s;  // between two pieces of one reply
constexpr Duration kReplyPatience = 30s;  // without a byte, while replies are due
constexpr Duration kAgainAfter = 2s;      // for a request that was sent before on another connection
constexpr std::size_t kReadsARound = 8;

}  // namespace

BackendConnection::BackendConnection(Plumbing plumbing, rpc::Endpoint to, Listener& listener)
    : plumbing_(plumbing), to_(to), listener_(listener), reader_(*this) {}

BackendConnection::~BackendConnection() {
  while (!sent_.empty()) {
    sent_.front()->connection = nullptr;
    sent_.front()->ListHook<LegTag>::unlink();
  }
  if (upload_ != nullptr) upload_->connection = nullptr;
}

bool BackendConnection::open() {
  stream_ = plumbing_.connector.connect(to_);
  if (stream_ == nullptr) return false;
  state_ = State::kConnecting;
  writes_watched_ = true;
  opened_at_ = heard_at_ = plumbing_.loop.now();
  stream_->watch(Stream::kReadable | Stream::kWritable, [this](std::uint32_t ready) { on_event(ready); });
  return true;
}

void BackendConnection::send(Leg& leg) {
  assert(leg.whole() && !uploading());
  if (leg.connection != this) {
    if (leg.connection != nullptr) leg.connection->forget(leg);
    if (sent_.empty()) heard_at_ = plumbing_.loop.now();
    leg.connection = this;
    sent_.push_back(leg);
    ++pending_count_;
  }
  ++leg.sends;
  leg.set_waits(false);
  leg.sent_at = plumbing_.loop.now();
  out_.push(leg.request);
  plumbing_.flusher.want(*this);
}

void BackendConnection::begin_upload(Leg& leg) {
  assert(!uploading());
  if (sent_.empty()) heard_at_ = plumbing_.loop.now();
  leg.connection = this;
  upload_ = &leg;
  upload_stream_ = out_.open();
  ++leg.sends;
  leg.sent_at = plumbing_.loop.now();
  for (const BufferRef& slice : leg.request.slices()) upload(slice);
}

void BackendConnection::upload(const BufferRef& piece) {
  out_.append(upload_stream_, piece);
  plumbing_.flusher.want(*this);
}

void BackendConnection::end_upload() {
  out_.close(upload_stream_);
  if (sent_.empty()) heard_at_ = plumbing_.loop.now();
  upload_->sent_at = plumbing_.loop.now();  // before, the server waited for the client
  sent_.push_back(*upload_);
  ++pending_count_;
  upload_ = nullptr;
}

void BackendConnection::forget(Leg& leg) {
  leg.connection = nullptr;
  if (&leg == streaming_) streaming_ = nullptr;
  if (&leg == upload_) {
    // Half a record is on the wire: the server can only be told by the connection's end.
    upload_ = nullptr;
    if (!out_.abort(upload_stream_)) fail("a client left in the middle of its request");
    return;
  }
  if (leg.ListHook<LegTag>::linked()) --pending_count_;
  leg.ListHook<LegTag>::unlink();
}

void BackendConnection::fail(std::string_view why) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const std::unique_ptr<Stream> ended = std::move(stream_);  // `why` may be its words
  ListHook<FlushTag>::unlink();
  out_.clear();
  reader_.stop();
  pending_count_ = 0;
  if (upload_ != nullptr) {
    // Its owner goes on collecting; it is sent when it is whole.
    upload_->connection = nullptr;
    upload_ = nullptr;
  }
  IntrusiveList<Leg, LegTag> orphans;
  orphans.take_all(sent_);
  for (Leg* leg = orphans.empty() ? nullptr : orphans.front(); leg != nullptr; leg = orphans.after(*leg)) {
    leg->connection = nullptr;
  }
  if (Leg* broken = std::exchange(streaming_, nullptr)) broken->owner->on_reply_broken(*broken);
  listener_.on_broken(*this, orphans, why);
}

Duration BackendConnection::silent_for(MonoTime now) const {
  bool waits = state_ != State::kClosed && (pending_count_ > 0 || out_.bytes() > 0);
  return waits ? now - heard_at_ : Duration(0);
}

void BackendConnection::tick(MonoTime now) {
  if (state_ == State::kConnecting && now - opened_at_ > kConnectPatience)
    return fail("no answer to connecting");
  if (state_ != State::kUp) return;
  if (sent_.empty() && !reader_.in_record()) return;
  if (reader_.in_record() && now - heard_at_ > kRecordPatience)
    return fail("stalled in the middle of a reply");
  if (now - heard_at_ > kReplyPatience) return fail("no reply for too long");
  if (uploading()) return;
  // A server that was still at work on the first copy drops the second without a word.
  for (Leg* leg = sent_.empty() ? nullptr : sent_.front(); leg != nullptr; leg = sent_.after(*leg)) {
    if (leg->sends > 1 && now - leg->sent_at > kAgainAfter && leg != streaming_) send(*leg);
  }
}

void BackendConnection::on_event(std::uint32_t ready) {
  if (state_ == State::kConnecting) {
    if (int error = stream_->connect_error(); error != 0) return fail(std::strerror(error));
    if ((ready & Stream::kWritable) == 0) return;
    state_ = State::kUp;
    heard_at_ = plumbing_.loop.now();
    watch_writes(false);
    listener_.on_connected(*this);
    if (state_ == State::kUp) flush();
    return;
  }
  if ((ready & Stream::kWritable) != 0) flush();
  if (state_ == State::kUp && (ready & (Stream::kReadable | Stream::kEnded)) != 0) read();
}

void BackendConnection::read() {
  rpc::Session* session = stream_->session();
  rpc::TlsStream* tls = session != nullptr ? session->stream() : nullptr;
  for (std::size_t i = 0; state_ == State::kUp && (i < kReadsARound || (tls && tls->pending())); ++i) {
    ChunkRef chunk = plumbing_.pool.reading(std::max<std::size_t>(reader_.wanted(), kStoreLimit));
    std::size_t room = chunk->room();
    ssize_t n = stream_->read({chunk->data() + chunk->used, room});
    if (n == 0) return fail("closed by the server");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return fail(errno == EPROTO ? tls->failure() : std::strerror(errno));
    }
    heard_at_ = plumbing_.loop.now();
    BufferRef bytes{chunk, chunk->data() + chunk->used, static_cast<std::size_t>(n)};
    chunk->used += static_cast<std::size_t>(n);
    chunk = {};
    std::string_view wrong = take(std::move(bytes));
    if (!wrong.empty()) return fail(wrong);
    if (static_cast<std::size_t>(n) < room) break;
  }
  if (state_ != State::kUp) return;
  if (stream_->has_to_say()) plumbing_.flusher.want(*this);
  reader_.settle(plumbing_.pool);
}

// Empty: all well; else why the connection cannot go on.
std::string_view BackendConnection::take(BufferRef bytes) {
  rpc::Session* session = stream_->session();
  if (session == nullptr) return reader_.feed(std::move(bytes));
  std::string_view wrong;
  while (wrong.empty() && bytes.size > 0 && state_ == State::kUp) {
    bool greeting = session->state() == rpc::Session::State::kGreeting;
    wrong = greeting ? greet(*session, bytes) : open_some(*session->opener(), bytes);
  }
  return wrong;
}

std::string_view BackendConnection::greet(rpc::Session& session, BufferRef& bytes) {
  std::size_t n = session.greet({bytes.data, bytes.size});
  bytes.data += n;
  bytes.size -= n;
  switch (session.state()) {
    case rpc::Session::State::kUnknownKey:
      return "the server has another key";
    case rpc::Session::State::kForged:
      return "its greeting is not a member's of the ensemble";
    case rpc::Session::State::kUp:
      plumbing_.flusher.want(*this);
      break;
    case rpc::Session::State::kGreeting:
      break;
  }
  return {};
}

// Nothing is done by bytes that are not proven.
std::string_view BackendConnection::open_some(rpc::Opener& opener, BufferRef& bytes) {
  const rpc::Opener::Step step = opener.step({bytes.data, bytes.size});
  BufferRef piece = bytes;
  piece.size = step.taken;
  bytes.data += step.taken;
  bytes.size -= step.taken;
  if (opener.broken()) return "what came is not what the server sent";
  if (!step.plain) return {};
  if (!opener.proven()) {
    unproven_.append(std::move(piece));
    return {};
  }
  if (unproven_.empty()) return reader_.feed(std::move(piece));
  BufferChain proven = std::exchange(unproven_, {});
  proven.append(std::move(piece));
  for (const BufferRef& each : proven.slices()) {
    if (std::string_view wrong = reader_.feed(each); !wrong.empty()) return wrong;
  }
  return {};
}

void BackendConnection::flush() {
  if (state_ != State::kUp) return;
  switch (out_.flush(*stream_)) {
    case OutQueue::Flushed::kAll:
      return watch_writes(false);
    case OutQueue::Flushed::kBlocked:
      return watch_writes(true);
    case OutQueue::Flushed::kFailed:
      return fail(std::strerror(errno));
  }
}

void BackendConnection::watch_writes(bool wanted) {
  if (wanted == writes_watched_) return;
  writes_watched_ = wanted;
  stream_->change(Stream::kReadable | (wanted ? Stream::kWritable : 0u));
}

Leg* BackendConnection::leg_of(ByteView head) {
  if (head.size() < 4) return nullptr;
  Leg* leg = plumbing_.legs.find(load_be<std::uint32_t>(head.data()));
  return leg != nullptr && leg->connection == this ? leg : nullptr;
}

RecordHandler::Take BackendConnection::on_head(ByteView head, std::size_t total) {
  Leg* leg = leg_of(head);
  if (leg == nullptr) return Take::kSkip;
  Take take = leg->owner->on_reply_head(*leg, head, total);
  if (take == Take::kPieces) streaming_ = leg;
  return take;
}

void BackendConnection::on_record(const BufferChain& record) {
  std::uint8_t scratch[4];
  Leg* leg = leg_of(record.head(4, scratch));
  if (leg == nullptr || leg == upload_) return;
  forget(*leg);
  leg->answered(plumbing_.loop.now());
  leg->owner->on_reply(*leg, record);
}

void BackendConnection::on_piece(const BufferRef& piece) {
  if (streaming_ != nullptr) streaming_->owner->on_reply_piece(*streaming_, piece);
}

void BackendConnection::on_end() {
  Leg* leg = std::exchange(streaming_, nullptr);
  if (leg == nullptr) return;
  forget(*leg);
  leg->answered(plumbing_.loop.now());
  leg->owner->on_reply_end(*leg);
}

}  // namespace slice::proxy
