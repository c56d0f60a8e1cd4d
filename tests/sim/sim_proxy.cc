#include "tests/sim/sim_proxy.h"

#include "wire/portmap2.h"

namespace slice::sim {
namespace {

constexpr std::uint16_t kCallsPort = 1000, kLockManagerPort = 700;
constexpr Duration kNever = std::chrono::hours(1);

}  // namespace

class SimProxy::ToServers : public proxy::Connector {
 public:
  ToServers(ProcessLoop& loop, SimStreams& streams, rpc::Endpoint self)
      : loop_(loop), streams_(streams), self_(self) {}
  std::unique_ptr<proxy::Stream> connect(rpc::Endpoint to) override {
    return streams_.connect(loop_, self_, to);
  }

 private:
  ProcessLoop& loop_;
  SimStreams& streams_;
  const rpc::Endpoint self_;
};

class SimProxy::Datagrams : public proxy::DatagramPort, public SimNetwork::Receiver {
 public:
  Datagrams(ProcessLoop& loop, SimNetwork& network, rpc::Endpoint self)
      : loop_(loop), network_(network), self_(self) {
    network_.attach(self_, this);
  }
  void close() { network_.attach(self_, nullptr); }
  void give_to(proxy::UdpFront& front) { front_ = &front; }
  bool send(rpc::Endpoint to, std::span<const iovec> datagram) override {
    Buffer bytes;
    for (const iovec& each : datagram) {
      bytes.append({static_cast<const std::uint8_t*>(each.iov_base), each.iov_len});
    }
    if (loop_.alive()) network_.send(self_, to, bytes.view());
    return true;
  }
  void receive(rpc::Endpoint from, Buffer bytes) override {
    if (loop_.alive() && front_ != nullptr) front_->take(from, bytes.view());
  }

 private:
  ProcessLoop& loop_;
  SimNetwork& network_;
  const rpc::Endpoint self_;
  proxy::UdpFront* front_ = nullptr;
};

SimProxy::SimProxy(service::ServiceContext& context, ProcessLoop& loop, SimNetwork& network,
                   SimStreams& streams, rpc::Endpoint front)
    : context_(context),
      loop_(loop),
      network_(network),
      streams_(streams),
      front_(front),
      grants_(loop, context.metrics, context.random() | 1, [] { return true; }) {}

SimProxy::~SimProxy() = default;

Task<slice::Status> SimProxy::start() {
  const proxy::Tables& tables = memory_.tables();
  proxy::bind_sites(context_.tables.get()->wire(), tables);
  context_.tables.watch([tables](const std::shared_ptr<const routing::RoutingTables>& newer) {
    proxy::bind_sites(newer->wire(), tables);
    proxy::note_maps(*newer, *tables.config);
  });
  shared_ = std::make_unique<proxy::SharedState>(loop_, context_.channel, context_.handles, context_.metrics,
                                                 tables);
  shared_->keep_clock();
  proxy::fill_config(*context_.tables.get(), *tables.config);
  to_servers_ =
      std::make_unique<ToServers>(loop_, streams_, rpc::Endpoint{context_.self.address, context_.self.port});
  proxy::Worker::Options options;
  options.tables = tables;
  options.sender = {context_.self.index, tables.config};
  options.config = &context_.config;
  options.settings = &context_.settings;
  worker_ = std::make_unique<proxy::Worker>(loop_, *to_servers_, options, shared_->cache(), shared_->maps(),
                                            context_.metrics);
  datagrams_ = std::make_unique<Datagrams>(loop_, network_, front_);
  datagrams_->give_to(worker_->serve_datagrams(*datagrams_));
  streams_.listen(front_, loop_, [this](std::unique_ptr<proxy::Stream> connection, rpc::Endpoint peer) {
    worker_->take_connection(std::move(connection), peer);
  });
  const rpc::Endpoint from{front_.address, kCallsPort};
  network_.set_stream(from);  // clients answer copies otherwise than what was first
  client_calls_ = std::make_unique<SimSocket>(
      loop_, network_,
      SimSocket::Options{
          .self = from, .first_xid = static_cast<std::uint32_t>(context_.random()), .resend_after = kNever});
  grants_.serve([this](rpc::Endpoint to, proxy::ClientCalls::Procedure what, Buffer arguments,
                       std::vector<Duration> tries) {
    return call_client(to, what, std::move(arguments), std::move(tries));
  });
  shared_->write_back().start();
  co_return slice::Status{};
}

Task<proxy::ClientCalls::Answer> SimProxy::call_client(rpc::Endpoint to, proxy::ClientCalls::Procedure what,
                                                       Buffer arguments, std::vector<Duration> tries) {
  proxy::ClientCalls::Answer answer;
  if (what.program == portmap2::kProgram) {
    rpc::XdrWriter port;
    portmap2::encode_port(port, kLockManagerPort);
    answer.results = port.take();
    co_return answer;
  }
  for (const Duration patience : tries) {
    rpc::Request request{.to = to,
                         .program = what.program,
                         .version = what.version,
                         .procedure = what.number,
                         .arguments = arguments.clone(),
                         .timeout = patience};
    ++answer.sent;
    auto response = co_await client_calls_->call(std::move(request));
    if (!response) continue;
    answer.results = Buffer(response->results());
    break;
  }
  co_return answer;
}

void SimProxy::close() {
  if (client_calls_ != nullptr) client_calls_->close();
  if (datagrams_ != nullptr) datagrams_->close();
}

}  // namespace slice::sim
