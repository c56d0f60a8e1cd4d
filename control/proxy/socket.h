// Sockets on the virtual address, shared by all workers (SO_REUSEPORT).
#ifndef SLICE_CONTROL_PROXY_SOCKET_H
#define SLICE_CONTROL_PROXY_SOCKET_H

#include "common/result.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

struct BoundSocket {
  int fd = -1;  // the caller's to close; non-blocking
  rpc::Endpoint at;
};
// `type` is SOCK_STREAM (listening already) or SOCK_DGRAM. May be bound before the address is configured.
Result<BoundSocket> bind_shared(int type, rpc::Endpoint at);

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_SOCKET_H
