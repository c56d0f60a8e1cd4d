#include "proxy/front/udp_socket.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "rpc/udp_buffers.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kDatagramsARound = 64;
constexpr int kSocketBuffer = 8 << 20;

}  // namespace

UdpSocket::UdpSocket(rpc::EpollLoop& loop, int fd) : loop_(loop), fd_(fd), buffer_(64 << 10) {
  rpc::set_udp_buffers(fd_, kSocketBuffer, kSocketBuffer);
}

UdpSocket::~UdpSocket() {
  if (front_ != nullptr) loop_.unwatch(fd_);
  ::close(fd_);
}

void UdpSocket::serve(UdpFront& front) {
  front_ = &front;
  loop_.watch(fd_, EPOLLIN, [this](std::uint32_t) { read(); });
}

void UdpSocket::read() {
  for (std::size_t i = 0; i < kDatagramsARound; ++i) {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    ssize_t n = ::recvfrom(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                           reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0) {
      if (errno == EINTR || errno == ECONNREFUSED) continue;
      return;
    }
    front_->take({ntohl(from.sin_addr.s_addr), ntohs(from.sin_port)},
                 {buffer_.data(), static_cast<std::size_t>(n)});
  }
}

bool UdpSocket::send(rpc::Endpoint to, std::span<const iovec> datagram) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(to.port);
  address.sin_addr.s_addr = htonl(to.address);
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  message.msg_iov = const_cast<iovec*>(datagram.data());
  message.msg_iovlen = datagram.size();
  return ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace slice::proxy
