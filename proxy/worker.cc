#include "proxy/worker.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kWorkerTick = 1s;
constexpr std::uint64_t kLeastMemory = 16 << 20;  // of one worker, however many share the settings' figure

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

Worker::Worker(Loop& loop, Connector& connector, const Options& options, AttributeCache& cache,
               MapCache& maps, Metrics& metrics)
    : loop_(loop),
      connector_(connector),
      flusher_(loop),
      local_(loop, pool_, legs_, options.local),
      encoder_(pool_, options.sender),
      backends_(plumbing(), options.tables, encoder_, metrics, options.latencies),
      services_(plumbing(), backends_, options.tables, cache, encoder_, maps, metrics, options.tracer),
      router_(services_, *options.config, *options.settings, options.gss),
      live_settings_(*options.settings),
      memory_(options.limits.memory),
      workers_(options.workers),
      budget_{.limit = options.limits.memory, .pool = &pool_},
      tls_offer_(options.tls, metrics),
      admission_(rpc::Admission::make(loop, options.limits, metrics)),
      accepted_(metrics.counter("proxy_connections_total", "clients' TCP connections accepted")),
      refused_(metrics.counter("proxy_connections_refused_total",
                               "clients' TCP connections refused: over the limit")),
      late_(metrics.counter(
          "proxy_late_calls_total",
          "clients' calls over TCP that were not answered within 10 s; the log says what they wait for")),
      udp_senders_(options.udp_senders),
      late_after_(options.late),
      outside_(options.tables.outside()) {
  services_.serving = options.serving;
  follow_settings();
  tick_ = loop_.after(kWorkerTick, [this] { tick(); });
}

Worker::~Worker() {
  loop_.cancel(tick_);
  udp_.reset();
  closed_.clear();
  clients_.clear();
}

UdpFront& Worker::serve_datagrams(DatagramPort& port) {
  udp_ = std::make_unique<UdpFront>(services_, router_, budget_, *admission_, port, udp_senders_);
  return *udp_;
}

void Worker::take_connection(std::unique_ptr<Stream> connection, rpc::Endpoint peer) {
  if (outside_ && peer.port >= kReservedPorts) {
    refused_.add();
    if (refused_log_.allow())
      log_warning("closed a new connection: not from a reserved port from={}", rpc::to_string(peer));
    return;
  }
  auto client =
      std::make_unique<TcpClient>(services_, router_, budget_, tls_offer_,
                                  static_cast<TcpClient::Owner&>(*this), std::move(connection), peer);
  if (!admission_->join(*client, peer.address)) {
    refused_.add();
    if (refused_log_.allow()) {
      log_warning("closed a new connection: {} are open already from={}", clients_.size(),
                  rpc::to_string(peer));
    }
    return;
  }
  accepted_.add();
  client->start();
  TcpClient* key = client.get();
  clients_.emplace(key, std::move(client));
}

bool Worker::take(Client& client, Buffer message) {
  BufferChain chain;
  chain.append(pool_.adopt(std::move(message)));
  return router_.take(client, chain, nfs3::kMaxTransfer);
}

void Worker::on_closed(TcpClient& client) {
  auto found = clients_.find(&client);
  if (found == clients_.end()) return;
  // It is on the stack above us.
  closed_.push_back(std::move(found->second));
  clients_.erase(found);
  if (closed_.size() == 1) loop_.post([this] { closed_.clear(); });
}

void Worker::follow_settings() {
  const std::uint64_t version = live_settings_.version();
  if (std::exchange(settings_version_, version) == version) return;
  ClientLimits limits = live_settings_.get()->limits;
  if (limits.memory != 0) limits.memory = std::max<std::uint64_t>(limits.memory / workers_, kLeastMemory);
  budget_.limit = limits.memory != 0 ? limits.memory : memory_;
  admission_->limit_clients(limits);
}

void Worker::look_for_late_calls() {
  for (const auto& [client, owned] : clients_) {
    client->tell_late(loop_.now() - late_after_, [&, who = client->endpoint()](const UnderWay& call) {
      late_.add();
      if (late_log_.allow()) log_warning("a call is late: {} from={}", call.about(), rpc::to_string(who));
    });
  }
}

void Worker::tick() {
  tick_ = loop_.after(kWorkerTick, [this] { tick(); });
  MonoTime now = loop_.now();
  follow_settings();
  look_for_late_calls();
  local_.tick();
  if (udp_ != nullptr) udp_->tick(now);
}

}  // namespace slice::proxy
