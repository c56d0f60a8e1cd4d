#include "block/nbd_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "block/nbd_connection.h"
#include "rpc/bound_socket.h"

namespace slice::block {
namespace {

// A client whose host has gone gives its place back in two minutes. Connections have this of their listener.
void find_dead_clients(int listener) {
  constexpr int kIdle = 60, kBetween = 10, kCount = 6;  // seconds, seconds, probes
  for (const auto& [option, value] :
       {std::pair(TCP_KEEPIDLE, kIdle), std::pair(TCP_KEEPINTVL, kBetween), std::pair(TCP_KEEPCNT, kCount)}) {
    ::setsockopt(listener, IPPROTO_TCP, option, &value, sizeof value);
  }
}

}  // namespace

NbdServer::NbdServer(rpc::EpollLoop& loop, Metrics& metrics, Devices& devices, Options options)
    : shared_(std::make_shared<NbdShared>(loop, metrics, devices, std::move(options))) {}

NbdServer::~NbdServer() {
  acceptors_.clear();
  shared_->close_all();
}

void NbdServer::finish() {
  acceptors_.clear();
  const auto all = shared_->connections;
  for (const auto& each : all) each->finish();
}

Result<rpc::Endpoint> NbdServer::listen(rpc::Endpoint at) {
  auto fd = rpc::listening_socket(at);
  if (!fd) return fail(std::move(fd).error());
  find_dead_clients(*fd);
  const rpc::Endpoint bound = rpc::local_endpoint(*fd);
  acceptors_.push_back(std::make_unique<proxy::Acceptor>(
      shared_->loop, *fd,
      [this](std::unique_ptr<proxy::Stream> stream, rpc::Endpoint peer) { take(std::move(stream), peer); }));
  return bound;
}

Status NbdServer::listen(std::string path) {
  auto listener = UnixListener::listen(std::move(path));
  if (!listener) return fail(std::move(listener).error());
  acceptors_.push_back(std::make_unique<proxy::Acceptor>(
      shared_->loop, listener->release(),
      [this](std::unique_ptr<proxy::Stream> stream, rpc::Endpoint) { take(std::move(stream), {}); }));
  paths_.push_back(std::move(*listener));
  return {};
}

void NbdServer::take(std::unique_ptr<proxy::Stream> stream, rpc::Endpoint peer) {
  const bool is_local = peer.address.none();
  if (!is_local && shared_->options.takes && !shared_->options.takes(peer.address))
    return shared_->refused(NbdRefusal::kStranger, rpc::to_string(peer), {});
  if (!make_room())
    return shared_->refused(NbdRefusal::kCrowded, is_local ? "a unix socket" : rpc::to_string(peer), {});
  const auto connection = std::make_shared<NbdConnection>(shared_, std::move(stream), peer);
  shared_->connections.push_back(connection);
  shared_->metrics.connections.set(shared_->connections.size());
  connection->start();
}

// Those with a device are disks that somebody uses. A handshake takes moments: one that is old gives its
// place.
bool NbdServer::make_room() {
  auto& all = shared_->connections;
  if (all.size() < shared_->options.connections) return true;
  const auto oldest = std::ranges::find_if(all, [](const auto& each) { return each->in_handshake(); });
  if (oldest == all.end()) return false;
  (*oldest)->refuse(NbdRefusal::kCrowded);
  return true;
}

}  // namespace slice::block
