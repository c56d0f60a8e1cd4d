#include "control/proxy/worker.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "control/proxy/socket.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTick = 1s, kBackendTick = 250ms, kParkedRetry = 200ms;
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

Worker::Worker(rpc::EpollLoop& loop, Options options, AttributeCache& cache_in, MapCache& maps_in,
               Metrics& metrics_in)
    : Services(Plumbing{loop, pool_, legs_, flusher_, local_, options.keys}, options.tables, cache_in,
               encoder_, maps_in, metrics_in),
      loop_(loop),
      options_(options),
      flusher_(loop),
      local_(loop, pool_, legs_, options.local),
      encoder_(pool_, options.sender),
      router_(*this, *options.config),
      budget_{.limit = options.limits.memory, .pool = &pool_},
      admission_(rpc::Admission::make(loop, options.limits, metrics_in)),
      accepted_(metrics_in.counter("proxy_connections_total")),
      refused_(metrics_in.counter("proxy_connections_refused_total")) {
  tick_ = loop_.after(kTick, [this] { tick(); });
  backend_tick_ = loop_.after(kBackendTick, [this] { tick_backends(); });
}

Worker::~Worker() {
  loop_.cancel(tick_);
  loop_.cancel(backend_tick_);
  loop_.cancel(retry_);
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
  udp_ = std::make_unique<UdpFront>(services(), router_, budget_, *admission_);
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
    auto client = std::make_unique<TcpClient>(services(), router_, budget_, owner(), fd, peer);
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

Backend* Worker::backend_of(const Leg& leg) {
  if (leg.copies > 1) return backend_of_a_copy(leg);
  auto endpoint = tables.endpoint_of(leg.site_class, leg.site);
  return endpoint ? &backend_at(*endpoint) : nullptr;
}

Backend& Worker::backend_at(rpc::Endpoint endpoint) {
  auto& backend = backends_[endpoint];
  if (backend == nullptr)
    backend =
        std::make_unique<Backend>(plumbing, endpoint, encoder, static_cast<Backend::Router&>(*this), metrics);
  return *backend;
}

// The first copy from leg.first_copy on whose server can be reached, as far as is known.
Backend* Worker::backend_of_a_copy(const Leg& leg) {
  std::vector<rpc::Endpoint> copies = tables.copies_of(leg.site, leg.copies);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    Backend& backend = backend_at(copies[(leg.first_copy + i) % copies.size()]);
    if (backend.reachable()) return &backend;
  }
  return copies.empty() ? nullptr : &backend_at(copies[leg.first_copy % copies.size()]);
}

void Worker::route(Leg& leg) {
  if (Backend* backend = backend_of(leg)) return backend->send(leg);
  parked_.push_back(leg);
  if (retry_ == TimerId::kNone) retry_ = loop_.after(kParkedRetry, [this] { retry_parked(); });
}

BackendConnection* Worker::begin_upload(Leg& leg) {
  Backend* backend = backend_of(leg);
  return backend == nullptr ? nullptr : backend->begin_upload(leg);
}

void Worker::retry_parked() {
  retry_ = TimerId::kNone;
  IntrusiveList<Leg, LegTag> again;
  again.take_all(parked_);
  while (!again.empty()) {
    Leg* leg = again.front();
    leg->ListHook<LegTag>::unlink();
    route(*leg);
  }
}

void Worker::tick_backends() {
  backend_tick_ = loop_.after(kBackendTick, [this] { tick_backends(); });
  std::vector<Backend*> all;  // what goes elsewhere may make others
  for (auto& [endpoint, backend] : backends_) all.push_back(backend.get());
  for (Backend* backend : all) backend->tick();
}

void Worker::tick() {
  tick_ = loop_.after(kTick, [this] { tick(); });
  MonoTime now = loop_.now();
  local_.tick();
  if (udp_ != nullptr) udp_->tick(now);
}

}  // namespace slice::proxy
