// Server: RPC over TCP (record marking) and UDP on one endpoint, feeding a Dispatcher, on one EpollLoop.
// What connections may take of it is Admission's matter; a connection at a limit is not read.
#ifndef SLICE_RPC_SERVER_H
#define SLICE_RPC_SERVER_H

#include <functional>
#include <memory>

#include "common/config.h"
#include "common/metrics.h"
#include "rpc/admission.h"
#include "rpc/dispatcher.h"
#include "rpc/epoll_loop.h"
#include "rpc/key_ring.h"

namespace slice::rpc {

class ServerShared;

class Server {
 public:
  struct Options {
    std::size_t max_record = kMaxCall;  // bytes of one record; a longer one closes the connection
    Admission::Limits limits;           // of TCP connections, and of datagrams by their address
    // Datagrams of clients that are under way or wait, and as many of the ensemble. An address may have as
    // many as all leave free; more are dropped, as UDP may.
    std::size_t max_udp_calls = 1024;
    // How many times as long as its call a datagram's reply may be, so that a forged source gets little by
    // it; a longer one becomes SYSTEM_ERR, and the client asks over TCP. 0: no matter.
    std::size_t max_udp_growth = 0;
    int udp_buffer = 8 << 20;  // bytes each way in the kernel (rpc/udp_buffers.h)
    // By which members of the ensemble are known, over TCP; outlives the server. Null: nobody is.
    const KeyRing* keys = nullptr;
    // Whether members of the ensemble call from that address; sessions from others are refused. None:
    // anywhere.
    std::function<bool(IpAddress address)> internal;
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
  // Serves on a non-blocking socket that is bound, and listens if it is of TCP; it is the server's from here
  // on.
  void serve_tcp(int listener);
  void serve_udp(int socket);
  // Takes other limits of clients from now on; what is 0 is as the options have it.
  void limit_clients(const ClientLimits& limits);
  // Ends the sessions under keys that are not valid any more; their peers begin anew. How many.
  std::size_t end_sessions_of_other_keys();

 private:
  std::shared_ptr<ServerShared> shared_;  // with the calls under way
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_SERVER_H
