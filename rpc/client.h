// SocketChannel: internal calls over TCP, a few connections an endpoint, shared by all callers of the loop
// and opened again when they break: one for short calls, up to kDataConnections for those that carry data, so
// that what has little time, as leases have, does not wait behind megabytes, and one for data that nobody
// waits for, so that clients' data does not wait behind a move's. Links share themselves out by connection:
// of one that many clients read from, a single one of ours would have little. With the ensemble's keys each
// is a session (rpc/session.h). Calls of one connection travel together: what is called in one round of the
// loop leaves in one write, and answers come in any order.
#ifndef SLICE_RPC_CLIENT_H
#define SLICE_RPC_CLIENT_H

#include <functional>
#include <memory>

#include "rpc/channel.h"
#include "rpc/epoll_loop.h"
#include "rpc/key_ring.h"

namespace slice::rpc {

class SocketChannel : public Channel {
 public:
  struct Options {
    const KeyRing* keys = nullptr;  // outlives the channel; null: a client from outside of the ensemble
    std::uint32_t sender = 0;
    std::function<Generation()> generation;       // asked at each call; none: 0
    std::size_t max_record = 4 << 20;             // bytes of a reply; a longer one breaks the connection
    std::size_t max_calls_per_connection = 4096;  // under way; one more fails with kUnavailable
    std::size_t max_queued_per_connection = 256 << 20;  // bytes of calls under way; likewise
  };
  static constexpr std::size_t kDataConnections = 8;
  static constexpr std::size_t kShort = 16 << 10;  // bytes of arguments; 1 ms at 100 Mbit/s
  SocketChannel(EpollLoop& loop, Options options);
  // No call may be under way, unless the loop does not run any more.
  ~SocketChannel() override;
  Task<Result<Response>> call(Request request) override;
  // Whoever was at `from` is at `to` now: calls to there that wait for an answer are sent to `to`, as over a
  // connection that broke, for as long as their time lasts. Later calls to `from` go to who is there.
  void moved(Endpoint from, Endpoint to);
  // Connections made so far.
  std::uint64_t connects() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_CLIENT_H
