#include "proxy/stream/socket_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "common/config.h"
#include "rpc/bound_socket.h"

namespace slice::proxy {
namespace {

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// False with errno.
bool begin(int fd, rpc::Endpoint to) {
  const rpc::SocketAddress address(to);
  return ::connect(fd, address.get(), address.length()) == 0 || errno == EINPROGRESS;
}

}  // namespace

SocketStream::SocketStream(rpc::EpollLoop& loop, int fd, std::unique_ptr<rpc::Session> session)
    : loop_(loop), fd_(fd), session_(std::move(session)) {
  set(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd_, SOL_SOCKET, SO_KEEPALIVE, 1);
}

SocketStream::~SocketStream() {
  if (ready_ != nullptr) loop_.unwatch(fd_);
  ::close(fd_);
}

void SocketStream::watch(std::uint32_t wanted, Handler ready) {
  wanted_ = wanted;
  ready_ = std::make_shared<Handler>(std::move(ready));
  loop_.watch(fd_, wanted, [handler = ready_](std::uint32_t events) { (*handler)(events); });
}

void SocketStream::change(std::uint32_t wanted) {
  wanted_ = wanted;
  loop_.change(fd_, wanted);
  tell_of_pending();
}

void SocketStream::begin_tls(const rpc::Tls& tls, IpAddress address) {
  tls_ = tls.to_client(fd_, address);
}

void SocketStream::tell_of_pending() {
  if (telling_ || tls_ == nullptr || (wanted_ & kReadable) == 0 || !tls_->pending()) return;
  telling_ = true;
  loop_.post([this, alive = std::weak_ptr(ready_)] {
    const auto handler = alive.lock();
    if (handler == nullptr) return;
    telling_ = false;
    if ((wanted_ & kReadable) != 0) (*handler)(kReadable);
  });
}

int SocketStream::connect_error() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

ssize_t SocketStream::read(ByteSpan into) {
  const iovec one{into.data(), into.size()};
  if (tls_ != nullptr) {
    const ssize_t n = tls_->read({&one, 1});
    tell_of_pending();
    return n;
  }
  if (session_ == nullptr) return ::recv(fd_, into.data(), into.size(), MSG_DONTWAIT);
  return session_->read(fd_, {&one, 1});
}

rpc::Written SocketStream::write(std::span<const iovec> bytes) {
  if (tls_ != nullptr) return tls_->write(bytes);
  return session_ != nullptr ? session_->write(fd_, bytes) : rpc::write_plain(fd_, bytes);
}

int SocketConnector::dial(rpc::Endpoint to) {
  if (from_) return dial_from_reserved_port(to);
  const int fd = rpc::socket_for(to.address, SOCK_STREAM | SOCK_NONBLOCK);
  if (fd < 0 || begin(fd, to)) return fd;
  ::close(fd);
  return -1;
}

// One port serves for connections to many servers; of one that has a connection to this one already, or that
// waits for its last segments, the kernel says so.
int SocketConnector::dial_from_reserved_port(rpc::Endpoint to) {
  constexpr std::uint16_t kFirst = 512;  // as other programs choose theirs (rresvport(3))
  constexpr std::uint16_t kPorts = kReservedPorts - kFirst;
  static std::atomic<std::uint32_t> turns{static_cast<std::uint32_t>(::getpid())};
  for (std::uint16_t tried = 0; tried < kPorts; ++tried) {
    const auto port = static_cast<std::uint16_t>(kFirst + turns.fetch_add(1) % kPorts);
    auto bound = rpc::bound_socket(SOCK_STREAM, {*from_, port});
    if (!bound) continue;
    if (begin(*bound, to)) return *bound;
    const bool taken = errno == EADDRNOTAVAIL || errno == EADDRINUSE;
    ::close(*bound);
    if (!taken) return -1;
  }
  if (no_port_.allow()) {
    log_warning("no reserved port of {} is free for a connection to {}", address_text(*from_),
                rpc::to_string(to));
  }
  return -1;
}

// Keepalives find a connection that the server's host has forgotten, which a probe cannot. TCP_USER_TIMEOUT
// would break one to a server that reads nothing for a while, since its disk is slow.
std::unique_ptr<Stream> SocketConnector::connect(rpc::Endpoint to) {
  const int fd = dial(to);
  if (fd < 0) return nullptr;
  std::unique_ptr<rpc::Session> session;
  if (keys_ != nullptr) {
    session = rpc::Session::to_server(*keys_);
    if (const rpc::Tls* tls = keys_->tls()) session->over(tls->to_server(fd, to.address));
  }
  constexpr int kIdle = 5, kBetween = 1, kCount = 5;  // seconds, seconds, probes
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kBetween);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kCount);
  return std::make_unique<SocketStream>(loop_, fd, std::move(session));
}

}  // namespace slice::proxy
