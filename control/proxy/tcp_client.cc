#include "control/proxy/tcp_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 60s;  // with a client in the middle of a record, or that reads no replies
constexpr std::size_t kReadsARound = 4;

}  // namespace

TcpClient::TcpClient(Services& services, CallRouter& router, Budget& budget, Owner& owner, int fd,
                     rpc::Endpoint peer)
    : services_(services),
      router_(router),
      budget_(budget),
      owner_(owner),
      fd_(fd),
      peer_(peer),
      reader_(*this),
      read_at_(services.plumbing.loop.now()),
      wrote_at_(read_at_) {
  int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  watched_ = EPOLLIN;
  services_.plumbing.loop.watch(fd_, watched_, [this](std::uint32_t events) { on_event(events); });
}

TcpClient::~TcpClient() {
  if (fd_ >= 0) {
    services_.plumbing.loop.unwatch(fd_);
    ::close(fd_);
  }
  drop_calls();
}

void TcpClient::close(std::string_view why) {
  if (fd_ < 0) return;
  log_debug("connection of client {} ends: {}", rpc::to_string(peer_), why);
  services_.plumbing.loop.unwatch(fd_);
  ::close(fd_);
  fd_ = -1;
  reader_.stop();
  out_.clear();
  ListHook<FlushTag>::unlink();
  ListHook<PausedTag>::unlink();
  owner_.on_closed(*this);
}

void TcpClient::tick(MonoTime now) {
  if (fd_ < 0) return;
  if (reader_.in_record() && !reader_.paused() && now - read_at_ > kPatience) {
    return close("silent in the middle of a record");
  }
  if (out_.bytes() > 0 && blocked_ && now - wrote_at_ > kPatience) return close("does not read its replies");
}

void TcpClient::charge(std::size_t bytes) {
  charged_ += bytes;
  budget_.charged += bytes;
}

void TcpClient::release(std::size_t bytes) {
  charged_ -= bytes;
  budget_.charged -= bytes;
}

bool TcpClient::over_limit() const {
  return charged_ + out_.bytes() > budget_.client_limit || budget_.exhausted();
}

void TcpClient::watch() {
  std::uint32_t wanted = (reader_.paused() ? 0u : EPOLLIN) | (blocked_ ? EPOLLOUT : 0u);
  if (wanted == watched_ || fd_ < 0) return;
  watched_ = wanted;
  services_.plumbing.loop.change(fd_, wanted);
}

void TcpClient::try_resume() {
  if (!reader_.paused() || fd_ < 0) return ListHook<PausedTag>::unlink();
  // Soon: a client that keeps many servers busy would have them stand still until half of its requests were
  // answered.
  if (charged_ + out_.bytes() > budget_.client_limit * 7 / 8 || budget_.exhausted()) return;
  ListHook<PausedTag>::unlink();
  std::string_view wrong = reader_.resume();
  if (fd_ < 0) return;
  if (trouble_ != nullptr) return close(trouble_);
  if (!wrong.empty()) return close(wrong);
  watch();
}

void TcpClient::on_event(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (fd_ >= 0 && (events & EPOLLIN) != 0) return read();
  if (fd_ >= 0 && (events & (EPOLLHUP | EPOLLERR)) != 0) close("closed by the client");
}

void TcpClient::read() {
  ChunkPool& pool = services_.plumbing.pool;
  for (std::size_t i = 0; i < kReadsARound && fd_ >= 0 && !reader_.paused(); ++i) {
    if (budget_.overdrawn() && reader_.in_record()) return close("no memory for the rest of its record");
    ChunkRef chunk = pool.reading(std::max<std::size_t>(reader_.wanted(), kStoreLimit));
    std::size_t room = chunk->room();
    ssize_t n = ::recv(fd_, chunk->data() + chunk->used, room, MSG_DONTWAIT);
    if (n == 0) return close("closed by the client");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return close(std::strerror(errno));
    }
    read_at_ = services_.plumbing.loop.now();
    Slice bytes{chunk, chunk->data() + chunk->used, static_cast<std::size_t>(n)};
    chunk->used += static_cast<std::size_t>(n);
    chunk = {};
    std::string_view wrong = reader_.feed(std::move(bytes));
    if (fd_ < 0) return;
    if (trouble_ != nullptr) return close(trouble_);
    if (!wrong.empty()) return close(wrong);
    if (static_cast<std::size_t>(n) < room) break;
  }
  if (fd_ < 0) return;
  reader_.settle(pool);
  watch();
}

void TcpClient::flush() {
  if (fd_ < 0) return;
  std::size_t before = out_.bytes();
  OutQueue::Flushed result = out_.flush(fd_);
  if (result == OutQueue::Flushed::kFailed) return close(std::strerror(errno));
  if (out_.bytes() < before || !blocked_) wrote_at_ = services_.plumbing.loop.now();
  blocked_ = result == OutQueue::Flushed::kBlocked;
  if (blocked_) out_.compact(services_.plumbing.pool);
  watch();
}

void TcpClient::reply(Call& call, const SliceChain& record) {
  if (&call == arriving_) arriving_ = nullptr;  // its padding may still be to come
  if (fd_ < 0) return;
  out_.push(record);
  if (!blocked_) services_.plumbing.flusher.want(*this);
}

void TcpClient::append_reply(OutQueue::StreamId stream, const Slice& piece) {
  if (fd_ < 0) return;
  out_.append(stream, piece);
  if (!blocked_) services_.plumbing.flusher.want(*this);
}

void TcpClient::close_reply(OutQueue::StreamId stream) {
  if (fd_ < 0) return;
  out_.close(stream);
  if (!blocked_) services_.plumbing.flusher.want(*this);
}

RecordHandler::Take TcpClient::on_head(ByteView head, std::size_t total) {
  arriving_ = router_.begin(*this, head, total);
  return arriving_ != nullptr ? Take::kPieces : Take::kWhole;
}

void TcpClient::on_record(const SliceChain& record) {
  if (!router_.take(*this, record, nfs3::kMaxTransfer)) {
    trouble_ = "not an RPC call";
    reader_.stop();
    return;
  }
  if (fd_ >= 0 && over_limit()) {
    reader_.pause();
    owner_.on_paused(*this);
  }
}

void TcpClient::on_piece(const Slice& piece) {
  if (arriving_ != nullptr) arriving_->on_request_piece(piece);
}

void TcpClient::on_end() {
  arriving_ = nullptr;
  if (fd_ >= 0 && over_limit()) {
    reader_.pause();
    owner_.on_paused(*this);
  }
}

}  // namespace slice::proxy
