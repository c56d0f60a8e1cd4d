#include "rpc/bound_socket.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace slice::rpc {
namespace {

tl::unexpected<Error> socket_error(const char* what, Endpoint at) {
  return fail(Errc::kIo, "{} {}: {}", what, to_string(at), std::strerror(errno));
}

}  // namespace

sockaddr_in socket_address(Endpoint endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(endpoint.address);
  address.sin_port = htons(endpoint.port);
  return address;
}

Endpoint endpoint_of(const sockaddr_in& address) {
  return {ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
}

Result<int> bound_socket(int type, Endpoint at) {
  int fd = ::socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return socket_error("cannot make a socket for", at);
  int on = 1;
  if (type == SOCK_STREAM) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = socket_address(at);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    auto error = socket_error("cannot bind", at);
    ::close(fd);
    return error;
  }
  return fd;
}

Endpoint local_endpoint(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return endpoint_of(address);
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
