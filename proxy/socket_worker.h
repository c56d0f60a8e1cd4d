// SocketWorker: a worker with its sockets: how a process has one.
#ifndef SLICE_PROXY_SOCKET_WORKER_H
#define SLICE_PROXY_SOCKET_WORKER_H

#include <list>

#include "proxy/front/acceptor.h"
#include "proxy/front/udp_socket.h"
#include "proxy/stream/socket_stream.h"
#include "proxy/worker.h"

namespace slice::proxy {

class SocketWorker {
 public:
  // `keys`: of sessions with servers; null: connections have none. All that is given outlives it.
  SocketWorker(rpc::EpollLoop& loop, const rpc::KeyRing* keys, const Worker::Options& options,
               AttributeCache& cache, MapCache& maps, Metrics& metrics);

  // Before the loop runs, or on its thread. The first two bind sockets of their own, shared with other
  // workers.
  Result<rpc::Endpoint> listen_tcp(rpc::Endpoint at);
  Result<rpc::Endpoint> listen_udp(rpc::Endpoint at);
  // Sockets as bind_socket() makes them, which are the worker's from here on; of UDP one of each family.
  void serve_tcp(int listener);
  void serve_udp(int socket);
  Worker& worker() { return worker_; }

 private:
  rpc::EpollLoop& loop_;
  SocketConnector connector_;
  UdpSocket udp_;
  Worker worker_;
  std::list<Acceptor> acceptors_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SOCKET_WORKER_H
