#include "proxy/worker.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "proxy/front/socket.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTick = 1s;
constexpr std::size_t kAcceptsARound = 64;

}  // namespace

rpc::Admission::Limits Worker::client_limits(std::size_t memory) {
  rpc::Admission::Limits limits;
  limits.connections = 8192;
  limits.client_connections = 2048;
  limits.memory = memory;
  limits.client_memory = memory / 4;
  limits.connection_memory = 32 << 20;
  limits.calls = 128 << 10;
  limits.client_calls = limits.connection_calls = 1024;
  return limits;
}

Worker::Worker(rpc::EpollLoop& loop, const Options& options, AttributeCache& cache, MapCache& maps,
               Metrics& metrics)
    : loop_(loop),
      flusher_(loop),
      local_(loop, pool_, legs_, options.local),
      encoder_(pool_, options.sender),
      backends_(plumbing(options), options.tables, encoder_, metrics),
      services_(plumbing(options), backends_, options.tables, cache, encoder_, maps, metrics),
      router_(services_, *options.config),
      budget_{.limit = options.limits.memory, .pool = &pool_},
      admission_(rpc::Admission::make(loop, options.limits, metrics)),
      accepted_(metrics.counter("proxy_connections_total")),
      refused_(metrics.counter("proxy_connections_refused_total")),
      udp_senders_(options.udp_senders) {
  tick_ = loop_.after(kTick, [this] { tick(); });
}

Plumbing Worker::plumbing(const Options& options) {
  return {loop_, pool_, legs_, flusher_, local_, options.keys};
}

Worker::~Worker() {
  loop_.cancel(tick_);
  if (listener_ >= 0) {
    loop_.unwatch(listener_);
    ::close(listener_);
  }
  udp_.reset();
  closed_.clear();
  clients_.clear();
}

Result<rpc::Endpoint> Worker::listen_tcp(rpc::Endpoint at) {
  auto bound = bind_socket(SOCK_STREAM, at, Sharing::kWorkers);
  if (!bound) return slice::fail(std::move(bound).error());
  serve_tcp(bound->fd);
  return bound->at;
}

Result<rpc::Endpoint> Worker::listen_udp(rpc::Endpoint at) {
  auto bound = bind_socket(SOCK_DGRAM, at, Sharing::kWorkers);
  if (!bound) return slice::fail(std::move(bound).error());
  serve_udp(bound->fd);
  return bound->at;
}

void Worker::serve_tcp(int listener) {
  listener_ = listener;
  loop_.watch(listener_, EPOLLIN, [this](std::uint32_t) { accept(); });
}

void Worker::serve_udp(int socket) {
  udp_ = std::make_unique<UdpFront>(services_, router_, budget_, *admission_, udp_senders_);
  udp_->serve(socket);
}

void Worker::accept() {
  for (std::size_t i = 0; i < kAcceptsARound; ++i) {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    int fd = ::accept4(listener_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        // No descriptors: leave them in the backlog for a while.
        if (accept_log_.allow()) log_warning("cannot accept a connection: {}", std::strerror(errno));
        loop_.change(listener_, 0);
        loop_.after(100ms, [this] { loop_.change(listener_, EPOLLIN); });
      }
      return;
    }
    rpc::Endpoint peer{ntohl(from.sin_addr.s_addr), ntohs(from.sin_port)};
    auto client = std::make_unique<TcpClient>(services_, router_, budget_,
                                              static_cast<TcpClient::Owner&>(*this), fd, peer);
    if (!admission_->join(*client, peer.address)) {
      refused_.add();
      if (refused_log_.allow()) {
        log_warning("closed a new connection: {} are open already from={}", clients_.size(),
                    rpc::to_string(peer));
      }
      continue;
    }
    accepted_.add();
    client->start();
    TcpClient* key = client.get();
    clients_.emplace(key, std::move(client));
  }
}

void Worker::on_closed(TcpClient& client) {
  auto found = clients_.find(&client);
  if (found == clients_.end()) return;
  // It is on the stack above us.
  closed_.push_back(std::move(found->second));
  clients_.erase(found);
  if (closed_.size() == 1) loop_.post([this] { closed_.clear(); });
}

void Worker::tick() {
  tick_ = loop_.after(kTick, [this] { tick(); });
  MonoTime now = loop_.now();
  local_.tick();
  if (udp_ != nullptr) udp_->tick(now);
}

}  // namespace slice::proxy
