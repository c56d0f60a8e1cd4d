#include "proxy/front/socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rpc/bound_socket.h"

namespace slice::proxy {

Result<BoundSocket> bind_socket(int type, rpc::Endpoint at, Sharing sharing) {
  const char* kind = type == SOCK_STREAM ? "TCP" : "UDP";
  auto refused = [&](int fd) {
    int error = errno;
    if (fd >= 0) ::close(fd);
    return fail(Errc::kIo, "cannot listen on {} {}: {}", kind, rpc::to_string(at), std::strerror(error));
  };
  int fd = rpc::socket_for(at.address, type | SOCK_NONBLOCK);
  if (fd < 0) return refused(fd);
  int on = 1;
  if (type == SOCK_STREAM) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (sharing == Sharing::kWorkers) ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  rpc::bind_freely(fd);
  const rpc::SocketAddress address(at);
  if (::bind(fd, address.get(), address.length()) != 0) return refused(fd);
  if (type == SOCK_STREAM && ::listen(fd, 1024) != 0) return refused(fd);
  return BoundSocket{fd, rpc::local_endpoint(fd)};
}

}  // namespace slice::proxy
