#include "rpc/bound_socket.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace slice::rpc {
namespace {

tl::unexpected<Error> socket_error(const char* what, Endpoint at) {
  return fail(Errc::kIo, "{} {}: {}", what, to_string(at), std::strerror(errno));
}

}  // namespace

SocketAddress::SocketAddress(Endpoint endpoint) {
  if (endpoint.address.is_v4()) {
    any_ = {};
    any_.sin_family = AF_INET;
    any_.sin_addr.s_addr = htonl(endpoint.address.v4());
    any_.sin_port = htons(endpoint.port);
    size_ = sizeof any_;
    return;
  }
  six_.sin6_family = AF_INET6;
  const IpAddress::Bytes bytes = endpoint.address.bytes();
  std::copy(bytes.begin(), bytes.end(), six_.sin6_addr.s6_addr);
  six_.sin6_port = htons(endpoint.port);
}

SocketAddress SocketAddress::any_of_v6(std::uint16_t port) {
  SocketAddress address;
  address.six_.sin6_family = AF_INET6;
  address.six_.sin6_port = htons(port);
  return address;
}

Endpoint SocketAddress::endpoint() const {
  if (family() == AF_INET && size_ >= sizeof any_)
    return {IpAddress(ntohl(any_.sin_addr.s_addr)), ntohs(any_.sin_port)};
  if (family() != AF_INET6 || size_ < sizeof six_) return {};
  return {IpAddress::of_bytes(&six_.sin6_addr, sizeof six_.sin6_addr), ntohs(six_.sin6_port)};
}

Endpoint endpoint_of(const sockaddr* address, socklen_t size) {
  SocketAddress copy;
  *copy.size() = std::min(size, copy.length());
  std::memcpy(copy.get(), address, copy.length());
  return copy.endpoint();
}

int socket_for(IpAddress address, int type) {
  const int fd = ::socket(address.is_v4() ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd >= 0 && !address.is_v4()) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return fd;
}

void bind_freely(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);  // IPv6's sockets have it as well
}

bool bind_reserved(int fd, IpAddress address) {
  constexpr std::uint16_t kHighest = 1023, kLowest = 600;  // ports that programs look for one in
  int family = AF_INET;
  socklen_t size = sizeof family;
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  for (std::uint16_t port = kHighest; port >= kLowest; --port) {
    SocketAddress at({address, port});
    if (address.none() && family == AF_INET6) at = SocketAddress::any_of_v6(port);
    if (::bind(fd, at.get(), at.length()) == 0) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

Result<int> bound_socket(int type, Endpoint at) {
  int fd = socket_for(at.address, type | SOCK_NONBLOCK);
  if (fd < 0) return socket_error("cannot make a socket for", at);
  int on = 1;
  if (type == SOCK_STREAM) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress address(at);
  if (::bind(fd, address.get(), address.length()) != 0) {
    auto error = socket_error("cannot bind", at);
    ::close(fd);
    return error;
  }
  return fd;
}

IpAddress own_address_towards(Endpoint there) {
  const int fd = socket_for(there.address, SOCK_DGRAM);
  if (fd < 0) return {};
  const SocketAddress to(there);
  const bool routed = ::connect(fd, to.get(), to.length()) == 0;
  const int error = errno;
  const IpAddress own = routed ? local_endpoint(fd).address : IpAddress();
  ::close(fd);
  errno = error;
  return own;
}

Endpoint local_endpoint(int fd) {
  SocketAddress address;
  if (::getsockname(fd, address.get(), address.size()) != 0) return {};
  return address.endpoint();
}

Result<int> listening_socket(Endpoint at) {
  auto fd = bound_socket(SOCK_STREAM, at);
  if (!fd) return fail(std::move(fd).error());
  if (::listen(*fd, SOMAXCONN) != 0) {
    auto error = socket_error("cannot listen on", at);
    ::close(*fd);
    return error;
  }
  return *fd;
}

}  // namespace slice::rpc
