// LocalCalls: legs to servers that share the worker's process and loop. They need no socket: the request is
// given to the server's dispatcher in the same round of the loop, and its reply to the leg's owner as it
// comes.
#ifndef SLICE_PROXY_SERVERS_LOCAL_CALLS_H
#define SLICE_PROXY_SERVERS_LOCAL_CALLS_H

#include <memory>
#include <vector>

#include "proxy/servers/leg.h"
#include "rpc/in_process.h"

namespace slice::proxy {

class LocalCalls {
 public:
  // `servers`: null where the worker's process has none, or they run on another loop.
  LocalCalls(Loop& loop, ChunkPool& pool, LegTable& legs, rpc::InProcessNetwork* servers);
  LocalCalls(const LocalCalls&) = delete;
  LocalCalls& operator=(const LocalCalls&) = delete;

  // The server there, where it is one of these and serves. It stays.
  rpc::Dispatcher* find(rpc::Endpoint at) const { return servers_ != nullptr ? servers_->find(at) : nullptr; }
  void send(Leg& leg, rpc::Dispatcher& to);
  // Requests that a server dropped without a word, since it was at work on a copy of the same, again: once a
  // second.
  void tick();

 private:
  struct Delivery {
    rpc::Dispatcher* to;
    std::uint32_t xid;
    Buffer record;
  };
  void deliver_all();
  static Task<void> serve(LocalCalls& self, Delivery delivery, std::weak_ptr<bool> alive);
  void answered(std::uint32_t xid, Buffer reply);

  Loop& loop_;
  ChunkPool& pool_;
  LegTable& legs_;
  rpc::InProcessNetwork* servers_;
  std::vector<Delivery> queue_, delivering_;
  struct Dropped {
    rpc::Dispatcher* to;
    std::uint32_t xid;
  };
  std::vector<Dropped> dropped_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_LOCAL_CALLS_H
