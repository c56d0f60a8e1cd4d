#include "proxy/front/tcp_client.h"

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kClientReadsARound = 4;
constexpr std::size_t kLooseness = 16, kLoosenessPressed = 2;  // of chunks that hold replies to be read

}  // namespace

TcpClient::TcpClient(Services& services, CallRouter& router, const Budget& budget, TlsOffer& offer,
                     Owner& owner, std::unique_ptr<Stream> stream, rpc::Endpoint peer)
    : services_(services),
      router_(router),
      budget_(budget),
      offer_(offer),
      owner_(owner),
      stream_(std::move(stream)),
      peer_(peer),
      reader_(*this) {}

void TcpClient::start() {
  watched_ = Stream::kReadable;
  stream_->watch(watched_, [this](std::uint32_t ready) { on_event(ready); });
}

TcpClient::~TcpClient() {
  stream_.reset();
  drop_calls();
}

void TcpClient::close(std::string_view why) {
  if (stream_ == nullptr) return;
  log_debug("connection of client {} ends: {}", rpc::to_string(peer_), why);
  stream_.reset();
  reader_.stop();
  out_.clear();
  ListHook<FlushTag>::unlink();
  count_memory();
  leave();
  owner_.on_closed(*this);
}

rpc::Admission::Member::Standing TcpClient::standing() const {
  const bool within_handshake =
      stream_ != nullptr && stream_->tls() != nullptr && !stream_->tls()->established();
  return {.within_record = reader_.in_record() || wants_tls_ || within_handshake,
          .unread = out_.bytes() > 0 && blocked_};
}

// What the reader and the queue have: counted where it changes.
void TcpClient::count_memory() {
  std::size_t now = stream_ != nullptr ? reader_.kept() + out_.bytes() : 0;
  if (stream_ != nullptr && stream_->tls() != nullptr) now += stream_->tls()->memory();
  std::size_t before = std::exchange(counted_, now);
  if (now > before) Member::hold(now - before);
  if (now < before) Member::release(before - now);
}

void TcpClient::pause_at_limit() {
  if (stream_ == nullptr || may_take()) return;
  reader_.pause();
  wait();
}

void TcpClient::watch() {
  std::uint32_t wanted = (reader_.paused() ? 0u : Stream::kReadable) | (blocked_ ? Stream::kWritable : 0u);
  if (wanted == watched_ || stream_ == nullptr) return;
  watched_ = wanted;
  stream_->change(wanted);
}

void TcpClient::on_room() {
  if (stream_ != nullptr && reader_.paused() && !wants_tls_) resume();
}

void TcpClient::resume() {
  std::string_view wrong = reader_.resume();
  if (stream_ == nullptr) return;
  if (trouble_ != nullptr) return close(trouble_);
  if (!wrong.empty()) return close(wrong);
  if (goes_on_in_clear()) return close("it went on in clear where TLS was to begin");
  count_memory();
  watch();
}

void TcpClient::on_event(std::uint32_t ready) {
  if ((ready & Stream::kWritable) != 0) flush();
  if (stream_ != nullptr && (ready & Stream::kReadable) != 0) return read();
  if (stream_ != nullptr && (ready & Stream::kEnded) != 0) close("closed by the client");
}

void TcpClient::read() {
  if (!services_.may_serve()) return close("this proxy stood still, and may not have the address any more");
  ChunkPool& pool = services_.plumbing.pool;
  for (std::size_t i = 0; i < kClientReadsARound && stream_ != nullptr && !reader_.paused(); ++i) {
    if (!reader_.in_record()) {
      pause_at_limit();
      if (reader_.paused()) break;
    }
    if (budget_.overdrawn() && reader_.in_record()) return close("no memory for the rest of its record");
    ChunkRef chunk = pool.reading(std::max<std::size_t>(reader_.wanted(), kStoreLimit));
    std::size_t room = chunk->room();
    ssize_t n = stream_->read({chunk->data() + chunk->used, room});
    if (n == 0) return close("closed by the client");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return close_broken();
    }
    note_handshake();
    received(static_cast<std::size_t>(n));
    BufferRef bytes = keep_little({chunk, chunk->data() + chunk->used, static_cast<std::size_t>(n)});
    if (bytes.chunk.get() == chunk.get()) chunk->used += static_cast<std::size_t>(n);
    chunk = {};
    std::string_view wrong = reader_.feed(std::move(bytes));
    if (stream_ == nullptr) return;
    if (trouble_ != nullptr) return close(trouble_);
    if (!wrong.empty()) return close(wrong);
    if (goes_on_in_clear()) return close("it went on in clear where TLS was to begin");
    if (static_cast<std::size_t>(n) < room) break;
  }
  if (stream_ == nullptr) return;
  if (stream_->has_to_say()) services_.plumbing.flusher.want(*this);
  reader_.settle(pool);
  count_memory();
  watch();
}

// A few bytes in the middle of a long record would keep a chunk that was made for all of it.
BufferRef TcpClient::keep_little(BufferRef bytes) {
  std::size_t little = budget_.pressed() ? kReadChunk / 2 : reader_.in_record() ? kCoalesceLimit : 0;
  return bytes.size > little ? bytes : services_.plumbing.pool.copy(bytes.view());
}

void TcpClient::flush() {
  if (stream_ == nullptr) return;
  std::size_t before = out_.bytes();
  OutQueue::Flushed result = out_.flush(*stream_);
  if (result == OutQueue::Flushed::kFailed) return close_broken();
  sent(before - out_.bytes());
  if (wants_tls_ && out_.bytes() == 0) go_over_to_tls();
  blocked_ = result == OutQueue::Flushed::kBlocked;
  if (blocked_) {
    out_.compact(services_.plumbing.pool, budget_.pressed() ? kLoosenessPressed : kLooseness);
  }
  count_memory();
  watch();
}

// By its own or the other side's doing, as errno says.
void TcpClient::close_broken() {
  const bool by_tls = errno == EPROTO && stream_->tls() != nullptr;
  if (!by_tls) return close(std::strerror(errno));
  const std::string why = stream_->tls()->failure();
  offer_.count_failed(peer_, why);
  close(why);
}

// Calls that came in clear are answered in clear, so that none may be under way.
bool TcpClient::may_begin_tls() const {
  return offer_.tls() != nullptr && stream_ != nullptr && stream_->tls() == nullptr && !wants_tls_ &&
         !has_calls();
}

void TcpClient::begin_tls() {
  wants_tls_ = true;
  reader_.pause();
}

// The wish is answered. What comes from now on is the client's part of the handshake, or the connection ends.
void TcpClient::go_over_to_tls() {
  wants_tls_ = false;
  stream_->begin_tls(*offer_.tls(), peer_.address);
  resume();
}

void TcpClient::note_handshake() {
  const rpc::TlsStream* tls = stream_->tls();
  if (tls == nullptr || transport_ != TransportSecurity::kNone || !tls->established()) return;
  const bool mutual = tls->peer_has_certificate();
  transport_ = mutual ? TransportSecurity::kMutualTls : TransportSecurity::kTls;
  offer_.count_established(mutual);
}

void TcpClient::reply(Call& call, const BufferChain& record) {
  if (&call == arriving_) arriving_ = nullptr;  // its padding may still be to come
  if (stream_ == nullptr) return;
  out_.push(record);
  count_memory();
  if (!blocked_) services_.plumbing.flusher.want(*this);
}

void TcpClient::append_reply(OutQueue::StreamId stream, const BufferRef& piece) {
  if (stream_ == nullptr) return;
  out_.append(stream, piece);
  count_memory();
  if (!blocked_) services_.plumbing.flusher.want(*this);
}

void TcpClient::close_reply(OutQueue::StreamId stream) {
  if (stream_ == nullptr) return;
  out_.close(stream);
  if (!blocked_) services_.plumbing.flusher.want(*this);
}

RecordHandler::Take TcpClient::on_head(ByteView head, std::size_t total) {
  refusal_ = router_.refuse(*this, head, total);
  if (refusal_) return Take::kSkip;
  arriving_ = router_.begin(*this, head, total);
  return arriving_ != nullptr ? Take::kPieces : Take::kWhole;
}

void TcpClient::on_record(const BufferChain& record) {
  if (!router_.take(*this, record, nfs3::kMaxTransfer)) {
    trouble_ = "not an RPC call";
    reader_.stop();
    return;
  }
  pause_at_limit();
}

void TcpClient::on_piece(const BufferRef& piece) {
  if (arriving_ != nullptr) arriving_->on_request_piece(piece);
}

void TcpClient::on_end() {
  arriving_ = nullptr;
  if (refusal_ && stream_ != nullptr) {
    BufferChain record;
    record.append(services_.plumbing.pool.copy(refusal_->view()));
    refusal_.reset();
    out_.push(record);
    if (!blocked_) services_.plumbing.flusher.want(*this);
  }
  pause_at_limit();
}

}  // namespace slice::proxy
