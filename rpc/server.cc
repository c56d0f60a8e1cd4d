#include "rpc/server.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "rpc/server_internal.h"
#include "rpc/udp_buffers.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kServerScratch = 256 << 10;
constexpr int kAcceptsARound = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

tl::unexpected<Error> socket_error(const char* what, Endpoint at) {
  return fail(Errc::kIo, "{} {}: {}", what, to_string(at), std::strerror(errno));
}

Result<int> bound_socket(int type, Endpoint at) {
  int fd = ::socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return socket_error("cannot make a socket for", at);
  int on = 1;
  if (type == SOCK_STREAM) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = socket_address(at);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    auto error = socket_error("cannot bind", at);
    ::close(fd);
    return error;
  }
  return fd;
}

Endpoint local_endpoint(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return endpoint_of(address);
}

}  // namespace

sockaddr_in socket_address(Endpoint endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(endpoint.address);
  address.sin_port = htons(endpoint.port);
  return address;
}

Endpoint endpoint_of(const sockaddr_in& address) {
  return {ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
}

ServerShared::ServerShared(EpollLoop& event_loop, Dispatcher& to, Metrics& metrics, Server::Options limits)
    : loop(event_loop),
      dispatcher(to),
      options(std::move(limits)),
      admission(Admission::make(event_loop, options.limits, metrics)),
      connections_now(metrics.counter("rpc_connections")),
      connections_total(metrics.counter("rpc_connections_total")),
      connections_refused(metrics.counter("rpc_connections_refused_total")),
      connections_broken(metrics.counter("rpc_connections_broken_total")),
      sessions_total(metrics.counter("rpc_sessions_total")),
      sessions_refused(metrics.counter("rpc_sessions_refused_total")),
      sessions_forged(metrics.counter("rpc_sessions_forged_total")),
      udp_dropped(metrics.counter("rpc_udp_calls_dropped_total")),
      udp_too_large(metrics.counter("rpc_udp_replies_too_large_total")),
      udp_withheld(metrics.counter("rpc_udp_replies_withheld_total")),
      scratch_(kServerScratch) {}

Result<Endpoint> ServerShared::listen_tcp(Endpoint at) {
  auto fd = bound_socket(SOCK_STREAM, at);
  if (!fd) return fail(std::move(fd).error());
  if (::listen(*fd, SOMAXCONN) != 0) {
    auto error = socket_error("cannot listen on", at);
    ::close(*fd);
    return error;
  }
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
  ::setsockopt(socket, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  set_udp_buffers(socket, options.udp_buffer, options.udp_buffer);
  udp_.push_back(std::make_shared<UdpSocket>(*this, socket));
  udp_.back()->start();
}

void ServerShared::accept_some(int listener) {
  for (int i = 0; i < kAcceptsARound; ++i) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    int fd =
        ::accept4(listener, reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
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
    auto connection = std::make_shared<TcpConnection>(*this, fd, endpoint_of(address));
    if (!admission->join(*connection, endpoint_of(address).address)) {
      connections_refused.add();
      if (log_limits.allow(ServerLine::kNoRoom)) {
        log_warning("closed a new connection: {} are open already from={}", connections_.size(),
                    to_string(endpoint_of(address)));
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
