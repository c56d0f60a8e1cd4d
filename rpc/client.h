// SocketChannel: internal calls over TCP, one connection an endpoint, shared by all callers of the loop and
// opened again when it breaks. Calls are sealed with the ensemble's key.
#ifndef SLICE_RPC_CLIENT_H
#define SLICE_RPC_CLIENT_H

#include <functional>
#include <memory>

#include "rpc/channel.h"
#include "rpc/epoll_loop.h"

namespace slice::rpc {

class SocketChannel : public Channel {
 public:
  struct Options {
    std::optional<EnsembleKey> key;  // none: calls carry AUTH_NONE verifiers (a plain client)
    std::uint32_t sender = 0;
    std::function<Generation()> generation;  // asked at each call; none: 0
  };
  SocketChannel(EpollLoop& loop, Options options);
  ~SocketChannel() override;
  Task<Result<Response>> call(Request request) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_CLIENT_H
