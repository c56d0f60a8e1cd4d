// InProcessNetwork: a Channel that carries calls to dispatchers of the same process, by endpoint. Calls pass
// through the whole codec, so that what travels is what would travel on a wire.
#ifndef SLICE_RPC_IN_PROCESS_H
#define SLICE_RPC_IN_PROCESS_H

#include <map>

#include "rpc/channel.h"
#include "rpc/dispatcher.h"

namespace slice::rpc {

class InProcessNetwork : public Channel {
 public:
  // `from` is what servers see as the peer; calls are sealed as SocketChannel's are.
  InProcessNetwork(Loop& loop, std::optional<EnsembleKey> key, Endpoint from);

  // Detach (nullptr) to make a server unreachable: calls to it then wait for their time-out.
  void attach(Endpoint at, Dispatcher* dispatcher);
  Task<Result<Response>> call(Request request) override;

 private:
  Loop& loop_;
  std::optional<EnsembleKey> key_;
  Endpoint from_;
  std::map<Endpoint, Dispatcher*> servers_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_IN_PROCESS_H
