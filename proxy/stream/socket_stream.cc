#include "proxy/stream/socket_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace slice::proxy {
namespace {

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

SocketStream::SocketStream(rpc::EpollLoop& loop, int fd, std::unique_ptr<rpc::Session> session)
    : loop_(loop), fd_(fd), session_(std::move(session)) {
  set(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd_, SOL_SOCKET, SO_KEEPALIVE, 1);
}

SocketStream::~SocketStream() {
  if (watched_) loop_.unwatch(fd_);
  ::close(fd_);
}

void SocketStream::watch(std::uint32_t wanted, Handler ready) {
  watched_ = true;
  loop_.watch(fd_, wanted, std::move(ready));
}

int SocketStream::connect_error() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

ssize_t SocketStream::read(ByteSpan into) {
  if (session_ == nullptr) return ::recv(fd_, into.data(), into.size(), MSG_DONTWAIT);
  const iovec one{into.data(), into.size()};
  return session_->read(fd_, {&one, 1});
}

rpc::Written SocketStream::write(std::span<const iovec> bytes) {
  return session_ != nullptr ? session_->write(fd_, bytes) : rpc::write_plain(fd_, bytes);
}

// Keepalives find a connection that the server's host has forgotten, which a probe cannot. TCP_USER_TIMEOUT
// would break one to a server that reads nothing for a while, since its disk is slow.
std::unique_ptr<Stream> SocketConnector::connect(rpc::Endpoint to) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  std::unique_ptr<rpc::Session> session;
  if (keys_ != nullptr) {
    session = rpc::Session::to_server(*keys_);
    if (const rpc::Tls* tls = keys_->tls()) session->over(tls->to_server(fd, to.address));
  }
  auto stream = std::make_unique<SocketStream>(loop_, fd, std::move(session));
  constexpr int kIdle = 5, kBetween = 1, kCount = 5;  // seconds, seconds, probes
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kBetween);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kCount);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(to.port);
  address.sin_addr.s_addr = htonl(to.address);
  bool begun =
      ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EINPROGRESS;
  return begun ? std::move(stream) : nullptr;
}

}  // namespace slice::proxy
