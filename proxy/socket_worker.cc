#include "proxy/socket_worker.h"

#include <sys/socket.h>

#include "proxy/front/socket.h"

namespace slice::proxy {

SocketWorker::SocketWorker(rpc::EpollLoop& loop, const rpc::KeyRing* keys, const Worker::Options& options,
                           AttributeCache& cache, MapCache& maps, Metrics& metrics)
    : loop_(loop),
      connector_(loop, keys, options.own_address),
      udp_(loop),
      worker_(loop, connector_, options, cache, maps, metrics) {}

Result<rpc::Endpoint> SocketWorker::listen_tcp(rpc::Endpoint at) {
  auto bound = bind_socket(SOCK_STREAM, at, Sharing::kWorkers);
  if (!bound) return slice::fail(std::move(bound).error());
  serve_tcp(bound->fd);
  return bound->at;
}

Result<rpc::Endpoint> SocketWorker::listen_udp(rpc::Endpoint at) {
  auto bound = bind_socket(SOCK_DGRAM, at, Sharing::kWorkers);
  if (!bound) return slice::fail(std::move(bound).error());
  serve_udp(bound->fd);
  return bound->at;
}

void SocketWorker::serve_tcp(int listener) {
  acceptors_.emplace_back(loop_, listener, [this](std::unique_ptr<Stream> connection, rpc::Endpoint peer) {
    worker_.take_connection(std::move(connection), peer);
  });
}

void SocketWorker::serve_udp(int socket) {
  if (!udp_.serves()) udp_.serve(worker_.serve_datagrams(udp_));
  udp_.add(socket);
}

}  // namespace slice::proxy
