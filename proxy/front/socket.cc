#include "proxy/front/socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace slice::proxy {

Result<BoundSocket> bind_socket(int type, rpc::Endpoint at, Sharing sharing) {
  const char* kind = type == SOCK_STREAM ? "TCP" : "UDP";
  auto refused = [&](int fd) {
    int error = errno;
    if (fd >= 0) ::close(fd);
    return fail(Errc::kIo, "cannot listen on {} {}: {}", kind, rpc::to_string(at), std::strerror(error));
  };
  int fd = ::socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused(fd);
  int on = 1;
  if (type == SOCK_STREAM) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (sharing == Sharing::kWorkers) ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  address.sin_addr.s_addr = htonl(at.address);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return refused(fd);
  if (type == SOCK_STREAM && ::listen(fd, 1024) != 0) return refused(fd);
  auto bound = endpoint_of_socket(fd);
  if (!bound) return refused(fd);
  return BoundSocket{fd, *bound};
}

Result<rpc::Endpoint> endpoint_of_socket(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sin_family != AF_INET) {
    return fail(Errc::kIo, "no socket of IPv4");
  }
  return rpc::Endpoint{ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
}

}  // namespace slice::proxy
