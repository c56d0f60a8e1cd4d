#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"

namespace slice::proxy::testing {

WireClient::WireClient(rpc::EpollLoop& loop, rpc::Endpoint to, std::uint32_t from)
    : loop_(loop), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(from);
  EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  address.sin_port = htons(to.port);
  address.sin_addr.s_addr = htonl(to.address.v4());
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    EXPECT_EQ(errno, EINPROGRESS);
  }
  loop_.watch(fd_, EPOLLIN | EPOLLOUT, [this](std::uint32_t events) { on_event(events); });
}

WireClient::~WireClient() {
  loop_.unwatch(fd_);
  ::close(fd_);
}

void WireClient::send(ByteView bytes) {
  out_.append(bytes);
  pump();
}

void WireClient::send_record(ByteView message) {
  std::uint8_t mark[4];
  store_be(mark, rpc::kLastFragment | static_cast<std::uint32_t>(message.size()));
  out_.append(mark);
  send(message);
}

void WireClient::set_reading(bool on) {
  reading = on;
  loop_.change(fd_, (reading ? EPOLLIN : 0u) | (unsaid() > 0 ? EPOLLOUT : 0u));
}

void WireClient::begin_tls(const rpc::Tls& tls, IpAddress address) {
  tls_ = tls.to_server(fd_, address);
  pump();
}

void WireClient::pump() {
  if (tls_) {
    const iovec rest{out_.data() + sent_, unsent()};
    sent_ += tls_->write({&rest, 1}).plain;
  }
  while (!tls_ && unsent() > 0) {
    std::size_t n = std::min(unsent(), send_limit);
    ssize_t sent = ::send(fd_, out_.data() + sent_, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    sent_ += static_cast<std::size_t>(sent);
    if (send_limit != SIZE_MAX) break;  // a segment a round
  }
  if (unsent() == 0) {
    out_.clear();
    sent_ = 0;
  }
  loop_.change(fd_, (reading ? EPOLLIN : 0u) | (unsaid() > 0 ? EPOLLOUT : 0u));
}

void WireClient::on_event(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) pump();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 || !reading) return;
  for (;;) {
    static thread_local std::array<std::uint8_t, 1 << 18> into;  // of all: there may be a thousand
    const iovec whole{into.data(), into.size()};
    ssize_t n = tls_ ? tls_->read({&whole, 1}) : ::recv(fd_, into.data(), into.size(), MSG_DONTWAIT);
    in_.append(ByteView(into).first(static_cast<std::size_t>(std::max<ssize_t>(n, 0))));
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
      closed = true;
      loop_.change(fd_, 0);
      reading = false;
      break;
    }
    if (n < 0) break;
  }
  if (tls_ && !closed && unsaid() > 0) pump();
  std::size_t at = 0;
  while (in_.size() - at >= 4) {
    std::size_t size = load_be<std::uint32_t>(in_.data() + at) & ~rpc::kLastFragment;
    if (in_.size() - at - 4 < size) break;
    replies.emplace_back(in_.view().subspan(at + 4, size));
    at += 4 + size;
  }
  Buffer rest(in_.view().subspan(at));
  in_ = std::move(rest);
}

}  // namespace slice::proxy::testing
