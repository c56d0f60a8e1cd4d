// Sockets on the virtual address.
#ifndef SLICE_PROXY_FRONT_SOCKET_H
#define SLICE_PROXY_FRONT_SOCKET_H

#include "common/result.h"
#include "rpc/endpoint.h"

namespace slice::proxy {

struct BoundSocket {
  int fd = -1;  // the caller's to close; non-blocking
  rpc::Endpoint at;
};
enum class Sharing {
  kWorkers,  // each worker has one at the same endpoint (SO_REUSEPORT)
  kNone,
};
// `type` is SOCK_STREAM (listening already) or SOCK_DGRAM. May be bound before the address is configured.
Result<BoundSocket> bind_socket(int type, rpc::Endpoint at, Sharing sharing);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_SOCKET_H
