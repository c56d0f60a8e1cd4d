#include "proxy/front/udp_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "rpc/bound_socket.h"
#include "rpc/udp_buffers.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kDatagramsARound = 64;
constexpr int kSocketBuffer = 8 << 20;

}  // namespace

UdpSocket::UdpSocket(rpc::EpollLoop& loop) : loop_(loop), buffer_(64 << 10) {}

UdpSocket::~UdpSocket() {
  for (const int fd : {v4_, v6_}) {
    if (fd < 0) continue;
    loop_.unwatch(fd);
    ::close(fd);
  }
}

void UdpSocket::add(int fd) {
  (rpc::local_endpoint(fd).address.is_v4() ? v4_ : v6_) = fd;
  rpc::set_udp_buffers(fd, kSocketBuffer, kSocketBuffer);
  loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { read(fd); });
}

void UdpSocket::read(int fd) {
  for (std::size_t i = 0; i < kDatagramsARound; ++i) {
    rpc::SocketAddress from;
    ssize_t n = ::recvfrom(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT, from.get(), from.size());
    if (n < 0) {
      if (errno == EINTR || errno == ECONNREFUSED) continue;
      return;
    }
    front_->take(from.endpoint(), {buffer_.data(), static_cast<std::size_t>(n)});
  }
}

bool UdpSocket::send(rpc::Endpoint to, std::span<const iovec> datagram) {
  rpc::SocketAddress address(to);
  msghdr message{};
  message.msg_name = address.get();
  message.msg_namelen = address.length();
  message.msg_iov = const_cast<iovec*>(datagram.data());
  message.msg_iovlen = datagram.size();
  return ::sendmsg(to.address.is_v4() ? v4_ : v6_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace slice::proxy
