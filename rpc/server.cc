#include "rpc/server.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "rpc/bound_socket.h"
#include "rpc/server_internal.h"
#include "rpc/udp_buffers.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kServerScratch = 256 << 10;
constexpr int kAcceptsARound = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

ServerShared::ServerShared(EpollLoop& event_loop, Dispatcher& to, Metrics& metrics, Server::Options limits)
    : loop(event_loop),
      dispatcher(to),
      options(std::move(limits)),
      admission(Admission::make(event_loop, options.limits, metrics)),
      connections_now(metrics.gauge("rpc_connections", "TCP connections open now")),
      connections_total(metrics.counter("rpc_connections_total", "TCP connections accepted")),
      connections_refused(metrics.counter("rpc_connections_refused_total",
                                          "connections over the limit, while no other was in the way")),
      connections_broken(
          metrics.counter("rpc_connections_broken_total",
                          "connections closed because of what came over them, or by an error")),
      sessions_total(metrics.counter("rpc_sessions_total", "sessions of members of the ensemble")),
      sessions_refused(
          metrics.counter("rpc_sessions_refused_total",
                          "sessions refused: under a key that is not this host's, from outside of [network] "
                          "internal, or without the TLS or the certificate that is asked for")),
      sessions_forged(metrics.counter("rpc_sessions_forged_total",
                                      "sessions ended because what came is not what a member sent")),
      udp_dropped(metrics.counter("rpc_udp_calls_dropped_total",
                                  "datagrams beyond what their address may have under way or waiting")),
      udp_too_large(metrics.counter("rpc_udp_replies_too_large_total", "replies that fit in no datagram")),
      udp_withheld(metrics.counter(
          "rpc_udp_replies_withheld_total",
          "MOUNT, PORTMAP: replies more than 4 times as long as their calls, answered SYSTEM_ERR over UDP")),
      refusals(metrics),
      scratch_(kServerScratch) {}

Result<Endpoint> ServerShared::listen_tcp(Endpoint at) {
  auto fd = listening_socket(at);
  if (!fd) return fail(std::move(fd).error());
  serve_tcp(*fd);
  return local_endpoint(*fd);
}

void ServerShared::serve_tcp(int listener) {
  listeners_.push_back(listener);
  loop.watch(listener, EPOLLIN, [this, listener](std::uint32_t) { accept_some(listener); });
}

Result<Endpoint> ServerShared::listen_udp(Endpoint at) {
  auto fd = bound_socket(SOCK_DGRAM, at);
  if (!fd) return fail(std::move(fd).error());
  serve_udp(*fd);
  return local_endpoint(*fd);
}

void ServerShared::serve_udp(int socket) {
  int on = 1;
  if (local_endpoint(socket).address.is_v4()) {
    ::setsockopt(socket, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  } else {
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
  }
  set_udp_buffers(socket, options.udp_buffer, options.udp_buffer);
  udp_.push_back(std::make_shared<UdpSocket>(*this, socket));
  udp_.back()->start();
}

void ServerShared::accept_some(int listener) {
  for (int i = 0; i < kAcceptsARound; ++i) {
    SocketAddress from;
    int fd = ::accept4(listener, from.get(), from.size(), SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      // The connection stays in the backlog; without a pause the loop would spin on it.
      if (log_limits.allow(ServerLine::kCannotAccept)) {
        log_error("cannot accept a connection: {}", std::strerror(errno));
      }
      loop.change(listener, 0);
      loop.after(kAcceptPause, [weak = weak_from_this(), listener] {
        if (auto self = weak.lock(); self && self->open) self->loop.change(listener, EPOLLIN);
      });
      return;
    }
    if (fd < 0) return;
    const Endpoint peer = from.endpoint();
    auto connection = std::make_shared<TcpConnection>(*this, fd, peer);
    if (!admission->join(*connection, peer.address)) {
      connections_refused.add();
      if (log_limits.allow(ServerLine::kNoRoom)) {
        log_warning("closed a new connection: {} are open already from={}", connections_.size(),
                    to_string(peer));
      }
      continue;
    }
    int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    connections_.insert(connection);
    connections_total.add();
    connections_now.set(connections_.size());
    connection->start();
  }
}

void ServerShared::closed(const std::shared_ptr<TcpConnection>& connection) {
  connections_.erase(connection);
  connections_now.set(connections_.size());
}

std::size_t ServerShared::end_sessions_of_other_keys() {
  std::vector<std::shared_ptr<TcpConnection>> old;
  for (const auto& connection : connections_) {
    if (connection->has_session() && !connection->key_is_valid()) old.push_back(connection);
  }
  for (const auto& connection : old) connection->close();
  return old.size();
}

void ServerShared::start() {
  flush_ = loop.at_round_end([weak = weak_from_this()] {
    if (auto self = weak.lock(); self && self->open) self->flush();
  });
}

void ServerShared::flush() {
  while (!dirty_.empty()) {  // one that goes on with calls it held has replies again
    flushing_.swap(dirty_);
    for (auto& connection : flushing_) connection->flush();
    flushing_.clear();
  }
  for (auto& socket : std::exchange(dirty_udp_, {})) socket->flush();
}

void ServerShared::close_all() {
  open = false;
  for (int fd : listeners_) {
    loop.unwatch(fd);
    ::close(fd);
  }
  listeners_.clear();
  for (auto& connection : std::exchange(connections_, {})) connection->close();
  for (auto& socket : std::exchange(udp_, {})) socket->close();
  dirty_.clear();
  dirty_udp_.clear();
}

Server::Server(EpollLoop& loop, Dispatcher& dispatcher, Metrics& metrics, Options options)
    : shared_(std::make_shared<ServerShared>(loop, dispatcher, metrics, std::move(options))) {
  shared_->start();
}
Server::Server(EpollLoop& loop, Dispatcher& dispatcher, Metrics& metrics)
    : Server(loop, dispatcher, metrics, Options{}) {}
Server::~Server() {
  shared_->close_all();
}

Result<Endpoint> Server::listen(Endpoint at, Protocols protocols) {
  Endpoint bound = at;
  if (protocols != Protocols::kUdp) {
    auto tcp = shared_->listen_tcp(at);
    if (!tcp) return tcp;
    bound = *tcp;
  }
  if (protocols != Protocols::kTcp) {
    auto udp = shared_->listen_udp(bound);
    if (!udp) return udp;
    bound = *udp;
  }
  return bound;
}

void Server::serve_tcp(int listener) {
  shared_->serve_tcp(listener);
}
void Server::serve_udp(int socket) {
  shared_->serve_udp(socket);
}
void Server::limit_clients(const ClientLimits& limits) {
  shared_->admission->limit_clients(limits);
}
std::size_t Server::end_sessions_of_other_keys() {
  return shared_->end_sessions_of_other_keys();
}

}  // namespace slice::rpc
