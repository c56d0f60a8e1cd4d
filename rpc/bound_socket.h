// Sockets that are bound, and addresses as the system takes them.
#ifndef SLICE_RPC_BOUND_SOCKET_H
#define SLICE_RPC_BOUND_SOCKET_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/result.h"
#include "rpc/endpoint.h"

namespace slice::rpc {

// Of IPv4 or IPv6, for system calls to read or, as made without an endpoint, to write:
//   SocketAddress from;
//   accept4(fd, from.get(), from.size(), ...);
//   from.endpoint();
class SocketAddress {
 public:
  SocketAddress() = default;
  explicit SocketAddress(Endpoint endpoint);
  static SocketAddress any_of_v6(std::uint16_t port);

  // None where it is of another family.
  Endpoint endpoint() const;
  int family() const { return any_.sin_family; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&six_); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&six_); }
  socklen_t* size() { return &size_; }
  socklen_t length() const { return size_; }

 private:
  union {
    sockaddr_in6 six_{};
    sockaddr_in any_;
  };
  socklen_t size_ = sizeof(sockaddr_in6);
};

// A socket of this address's family, without a name yet: IPv4 for none. -1 with errno.
int socket_for(IpAddress address, int type);
// Of what the system wrote; none where it is of another family.
Endpoint endpoint_of(const sockaddr* address, socklen_t size);

// The socket may be bound to an address that this host does not have.
void bind_freely(int fd);
// To a reserved port that is free, of this address or, where it is none, of any of the socket's family. False
// with errno.
bool bind_reserved(int fd, IpAddress address = {});

// Non-blocking, closed on exec, the caller's to close; port 0: one that is free. `type`: SOCK_STREAM or
// SOCK_DGRAM. One of IPv6 takes no IPv4.
Result<int> bound_socket(int type, Endpoint at);
// A bound one that listens.
Result<int> listening_socket(Endpoint at);
// With which of its addresses this host reaches another; none, with errno, where it knows no way.
IpAddress own_address_towards(Endpoint there);
// Where it is bound; none where it is no socket of IP.
Endpoint local_endpoint(int fd);

}  // namespace slice::rpc

#endif  // SLICE_RPC_BOUND_SOCKET_H
