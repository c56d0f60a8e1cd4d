// Server: RPC over TCP (record marking) and UDP on one endpoint, feeding a Dispatcher, on one EpollLoop.
// Bounded: per connection and in total, calls under way and bytes of unsent replies have limits; at a limit
// the server stops reading from the connection.
#ifndef SLICE_RPC_SERVER_H
#define SLICE_RPC_SERVER_H

#include <memory>

#include "common/metrics.h"
#include "rpc/dispatcher.h"
#include "rpc/epoll_loop.h"

namespace slice::rpc {

class ServerShared;

class Server {
 public:
  struct Options {
    std::size_t max_record = (1 << 20) + 4096;   // bytes of one record; a longer one closes the connection
    std::size_t max_calls_per_connection = 256;  // under way
    std::size_t max_calls = 16384;               // under way, all connections and UDP
    std::size_t max_unsent_per_connection = 8 << 20;  // bytes
    std::size_t max_unsent = 512 << 20;               // bytes, all connections
    std::size_t max_connections = 4096;               // more are closed as they come
    std::size_t max_udp_calls = 1024;                 // under way; more are dropped, as UDP may
    int udp_receive_buffer = 8 << 20;                 // SO_RCVBUF(FORCE), bytes
  };
  Server(EpollLoop& loop, Dispatcher& dispatcher, Metrics& metrics, Options options);
  Server(EpollLoop& loop, Dispatcher& dispatcher, Metrics& metrics);
  // Closes everything. Calls under way run on to their end, so their programs must live longer; their replies
  // are lost.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens on TCP, UDP or both; port 0 takes a free one. The endpoint that was bound, or kIo with the
  // reason.
  enum class Protocols { kTcp, kUdp, kBoth };
  Result<Endpoint> listen(Endpoint at, Protocols protocols = Protocols::kBoth);

 private:
  std::shared_ptr<ServerShared> shared_;  // with the calls under way
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_SERVER_H
