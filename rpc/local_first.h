// LocalFirst: the channel of a server that shares its process and loop with others: calls to those need no
// socket, all others go over one.
#ifndef SLICE_RPC_LOCAL_FIRST_H
#define SLICE_RPC_LOCAL_FIRST_H

#include <utility>

#include "rpc/client.h"
#include "rpc/in_process.h"

namespace slice::rpc {

class LocalFirst : public Channel {
 public:
  // Both outlive it, and seal calls as the same server's.
  LocalFirst(InProcessNetwork& local, SocketChannel& sockets) : local_(local), sockets_(sockets) {}
  // To a server that is not attached (yet) over a socket, which waits for it inside the time-out.
  Task<Result<Response>> call(Request request) override {
    if (local_.find(request.to) != nullptr) return local_.call(std::move(request));
    return sockets_.call(std::move(request));
  }

 private:
  InProcessNetwork& local_;
  SocketChannel& sockets_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_LOCAL_FIRST_H
