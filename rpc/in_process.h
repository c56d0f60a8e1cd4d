// InProcessNetwork: a Channel that carries calls to dispatchers of the same process and loop, by endpoint.
// Calls pass through the whole codec, so that what travels is what would travel on a wire. It behaves as
// SocketChannel does: a call to a server that is away waits for it inside its time-out, and a call whose
// server went away before it answered is sent again when the server is back.
#ifndef SLICE_RPC_IN_PROCESS_H
#define SLICE_RPC_IN_PROCESS_H

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "rpc/channel.h"
#include "rpc/dispatcher.h"
#include "rpc/key_ring.h"

namespace slice::rpc {

class InProcessNetwork : public Channel {
 public:
  // `from` is what servers see as the peer. With a key, calls say that they are `sender`'s, and servers that
  // were attached under the same key believe it; those under another refuse.
  InProcessNetwork(Loop& loop, std::optional<EnsembleKey> key, Endpoint from, std::uint32_t sender = 0);
  // Another process on the same network: sees the servers attached to either.
  InProcessNetwork(const InProcessNetwork& same, Endpoint from, std::uint32_t sender);
  // One on it with another key.
  InProcessNetwork(const InProcessNetwork& same, const EnsembleKey& key, Endpoint from);
  // Asked at each call, as SocketChannel's; until then calls carry 0.
  void set_generation(std::function<Generation()> generation) { generation_ = std::move(generation); }

  // Detach (nullptr) to make a server unreachable: calls to it then wait for their time-out, and answers it
  // still gives are lost.
  void attach(Endpoint at, Dispatcher* dispatcher);
  // The server attached there, or null.
  Dispatcher* find(Endpoint at) const {
    auto found = places_->find(at);
    return found == places_->end() ? nullptr : found->second.dispatcher;
  }
  Task<Result<Response>> call(Request request) override;

  // Requests that were delivered to a dispatcher so far, by all on this network: what a test counts as round
  // trips.
  std::uint64_t delivered() const { return *delivered_; }

 private:
  // One try of a call: what became of it. No record: the server went away.
  using Attempt = OneShot<std::optional<Buffer>>;
  struct Place {
    Dispatcher* dispatcher = nullptr;
    std::optional<EnsembleKey> key;  // of who attached it
    std::vector<Attempt> waiting;    // for an answer, or for the server to come
  };
  using Places = std::map<Endpoint, Place>;

  static Task<void> deliver(Dispatcher& dispatcher, Buffer record, Endpoint from, bool member,
                            Attempt attempt);

  Loop& loop_;
  std::optional<EnsembleKey> key_;
  Endpoint from_;
  std::uint32_t sender_;
  std::function<Generation()> generation_;
  std::uint32_t next_xid_ = 1;
  std::shared_ptr<Places> places_;
  std::shared_ptr<std::uint64_t> delivered_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_IN_PROCESS_H
