// Sockets of IPv4 that are bound, and their addresses.
#ifndef SLICE_RPC_BOUND_SOCKET_H
#define SLICE_RPC_BOUND_SOCKET_H

#include <netinet/in.h>

#include "common/result.h"
#include "rpc/endpoint.h"

namespace slice::rpc {

sockaddr_in socket_address(Endpoint endpoint);
Endpoint endpoint_of(const sockaddr_in& address);

// Non-blocking, closed on exec, the caller's to close; port 0: one that is free. `type`: SOCK_STREAM or
// SOCK_DGRAM.
Result<int> bound_socket(int type, Endpoint at);
// A bound one that listens.
Result<int> listening_socket(Endpoint at);
// Where it is bound.
Endpoint local_endpoint(int fd);

}  // namespace slice::rpc

#endif  // SLICE_RPC_BOUND_SOCKET_H
