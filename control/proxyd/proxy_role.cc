#include "control/proxyd/proxy_role.h"

#include <linux/capability.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log.h"
#include "common/rights.h"
#include "control/xdp/pinned_tables.h"
#include "proxy/gss/kerberos.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kXdpText = 160;                         // of a detail, where more is to be said
constexpr Duration kUsagePatience = std::chrono::seconds(2);  // quota(1) asks again after some more
constexpr Duration kAcceptedStep = 100ms;
constexpr Duration kSave = 1s;              // by then data servers have told the authority by themselves
constexpr std::size_t kMemory = 512 << 20;  // bytes of all workers' buffers

}  // namespace

ProxyRole::ProxyRole(service::ServiceContext& context)
    : context_(context),
      loop_(dynamic_cast<rpc::EpollLoop&>(context.loop)),
      xdp_(loop_, context.config.proxy, context.metrics,
           [this](const slice_eviction& changes) { shared_->write_back().add(changes); }),
      latencies_(context.metrics),
      bindings_(context, latencies_, [this] { xdp_.servers_changed(); }),
      wanted_(context),
      copies_(context),
      listeners_(loop_, {.at = {context.config.proxy.virtual_address, context.config.proxy.nfs_port}}),
      managers_(context.config),
      locks_(context),
      clients_status_(context),
      users_quotas_(context, rquota::kVersion, asks_for_usage()),
      quotas_(context, rquota::kExtendedVersion, asks_for_usage()),
      grants_(loop_, context.metrics, context.random() | 1,
              [this] {
                // A process that stood still has no lease any more, whatever it believes.
                return !address_ || (address_->holds() && loop_.now_exactly() < serves_as_holder_);
              }),
      taken_over_(context.metrics.gauge(
          "proxy_sockets_taken_over",
          "sockets on the virtual address that this process has from one that was killed")),
      accepted_(context.metrics.counter("proxy_connections_total", "clients' TCP connections accepted")) {}

ProxyRole::~ProxyRole() {
  if (gss_ != nullptr) gss_->stop();
  for (auto& one : threads_) {
    if (!one->thread.joinable()) continue;
    one->loop->stop();
    one->thread.join();
  }
}

Task<Status> ProxyRole::start() {
  SLICE_CO_RETURN_IF_ERROR(listeners_.take_over());
  tables_ = xdp_.open();
  shared_ =
      std::make_unique<SharedState>(loop_, context_.channel, context_.handles, context_.metrics, tables_);
  if (xdp_.took_over()) shared_->cache().recover();
  bindings_.keep(tables_);
  shared_->keep_clock();
  fill_config(bindings_.bound(), *tables_.config);
  SLICE_CO_RETURN_IF_ERROR(co_await start_address());
  SLICE_CO_RETURN_IF_ERROR(start_workers());
  SLICE_CO_RETURN_IF_ERROR(start_programs());
  start_portmap();
  listeners_.keep();
  taken_over_.set(listeners_.taken_over());
  shared_->write_back().start();
  wanted_.keep(tables_);
  if (address_) address_->begin();
  if (share_) share_->begin();
  if (address_) watch_connections();
  co_await xdp_.load();
  if (xdp_.loaded()) copies_.keep(tables_);
  give_up_rights();
  log_info("virtual address {} workers={} sockets_taken_over={} {}", context_.config.proxy.addresses_text(),
           threads_.size(), listeners_.taken_over(), xdp_.describe());
  if (std::string text = xdp_.warnings(); !text.empty())
    log_warning("source addresses of UDP requests{}", text);
  co_return Status();
}

Task<Status> ProxyRole::start_address() {
  const std::string& interface = context_.config.address_interface_of(context_.self);
  if (interface.empty()) co_return Status{};
  auto host = HostAddresses::open(loop_, context_.config.proxy.addresses(), interface,
                                  [this](const std::string& by) { address_->claimed(by); });
  if (!host) co_return fail(std::move(host).error());
  host_addresses_ = std::move(*host);
  xdp_.spread_at(interface);
  address_ = std::make_unique<AddressHolder>(holder_seams());
  share_ = std::make_unique<ClientShare>(share_seams());
  co_await address_->start();
  co_await share_->start();
  co_return Status{};
}

AddressHolder::Seams ProxyRole::holder_seams() {
  return {.loop = loop_,
          .metrics = context_.metrics,
          .host = *host_addresses_,
          .self = context_.self.index,
          .run = context_.random(),
          .patience = std::chrono::milliseconds(context_.config.proxy.address_patience_ms),
          .name_of = [this](std::uint32_t server) { return name_of(server); },
          .ask =
              [this](const wire::HoldAddressArgs& args, Duration patience) {
                return ask_manager<wire::HoldAddressResult>(wire::ManagerProcedure::kHoldAddress, args,
                                                            patience);
              },
          .begin_anew = [this] { return begin_anew(); },
          .save = [this] { return shared_->write_back().finish(kSave); },
          .serve_until = [this](MonoTime end) { serve_until(serves_as_holder_, end); },
          .remember_nothing = [this](bool on) { remember_nothing(careful_as_holder_, on); },
          .keeps = [this](const wire::AddressPeer& peer) { return share_->keeps(peer); }};
}

ClientShare::Seams ProxyRole::share_seams() {
  return {.loop = loop_,
          .metrics = context_.metrics,
          .host = *host_addresses_,
          .tables = tables_,
          .self = context_.self.index,
          .run = context_.random(),
          .patience = std::chrono::milliseconds(context_.config.proxy.address_patience_ms),
          .addresses = context_.config.proxy.addresses(),
          .nfs_port = context_.config.proxy.nfs_port,
          .name_of = [this](std::uint32_t server) { return name_of(server); },
          .ask =
              [this](const wire::ShareClientsArgs& args, Duration patience) {
                return ask_manager<wire::ShareClientsResult>(wire::ManagerProcedure::kShareClients, args,
                                                             patience);
              },
          .program =
              [this] {
                return ClientShare::Program{.there = xdp_.unspread().empty(),
                                            .loading = xdp_.is_to_come(),
                                            .reason = xdp_.unspread()};
              },
          .holds = [this] { return address_->holds(); },
          .begin_anew = [this] { return begin_anew(); },
          .save = [this] { return shared_->write_back().finish(kSave); },
          .serve_until = [this](MonoTime end) { serve_until(serves_its_share_, end); },
          .remember_nothing = [this](bool on) { remember_nothing(careful_with_its_share_, on); }};
}

std::string ProxyRole::name_of(std::uint32_t server) const {
  const auto& servers = context_.tables.get()->wire().servers;
  return server < servers.size() ? servers[server].name : fmt::format("server {}", server);
}

// A client whose connection nobody was told of before this proxy dies may wait for a minute.
void ProxyRole::watch_connections() {
  const std::uint64_t accepted = accepted_.value();
  if (std::exchange(accepted_seen_, accepted) != accepted) {
    address_->connected();
    share_->connected();
  }
  loop_.after(kAcceptedStep, [this] { watch_connections(); });
}

bool ProxyRole::begin_anew() {
  if (!shared_->cache().begin_anew()) return false;
  spawn(shared_->write_back().finish(kSave));
  return true;
}

void ProxyRole::serve_until(MonoTime& which, MonoTime end) {
  which = end;
  serving_.ends(std::max(serves_as_holder_, serves_its_share_));
}

void ProxyRole::remember_nothing(bool& which, bool on) {
  which = on;
  shared_->remember_nothing(careful_as_holder_ || careful_with_its_share_);
}

template <class Answer, class Args>
Task<Result<Answer>> ProxyRole::ask_manager(wire::ManagerProcedure procedure, Args args, Duration patience) {
  managers_.learn(context_.tables.get()->wire());
  co_return co_await managers_.call_within<Answer>(loop_, context_.channel, procedure, std::move(args),
                                                   patience);
}

QuotaProgram::Ask ProxyRole::asks_for_usage() {
  return [this](wire::QuotaUsageArgs args) {
    return ask_manager<wire::QuotaUsageResult>(wire::ManagerProcedure::kQuotaUsage, args, kUsagePatience);
  };
}

std::string ProxyRole::detail() const {
  std::string said = xdp_.describe();
  if (!address_) return said;
  if (said.size() > kXdpText) said = said.substr(0, kXdpText) + "...";
  said = fmt::format("{}; {}", said, address_->describe());
  if (std::string share = share_->describe(); !share.empty()) said += "; " + share;
  if (host_addresses_->lacks_destroy()) said += "; the kernel lacks INET_DIAG_DESTROY";
  return said;
}

// Everything is loaded and bound. A clean stop takes the program off the interfaces, and tells rpcbind so
// from a reserved port.
void ProxyRole::give_up_rights() {
  if (!keep_capabilities({CAP_NET_ADMIN, CAP_NET_BIND_SERVICE})) {
    log_warning("cannot give up capabilities: {}", std::strerror(errno));
  }
}

std::size_t ProxyRole::worker_count() const {
  if (context_.config.proxy.threads != 0) return context_.config.proxy.threads;
  return context_.local != nullptr ? 1 : std::max(1u, std::thread::hardware_concurrency());
}

void ProxyRole::refresh_gauges() {
  xdp_.refresh_gauges();
  if (tls_ == nullptr) return;
  context_.metrics
      .gauge("proxy_tls_certificate_ends_seconds",
             "until when the certificate that clients are shown counts, seconds since 1970")
      .set(tls_->ends());
}

Status ProxyRole::load_certificate() {
  const TlsConfig& files = context_.config.proxy.tls;
  if (!files.used()) return {};
  auto tls = rpc::Tls::load(files.of(context_.self.name), rpc::Tls::Peers::kClients);
  if (!tls) return fail(Errc::kInvalid, "[proxy]: {}", tls.error().message);
  tls_ = std::move(*tls);
  return {};
}

Status ProxyRole::load_keytab() {
  const std::string& keytab = context_.config.proxy.kerberos_keytab;
  if (keytab.empty()) return {};
  auto acceptor = make_kerberos_acceptor(keytab);
  if (!acceptor) return fail(Errc::kInvalid, "[proxy] kerberos_keytab: {}", acceptor.error().message);
  gss_ = std::make_unique<GssService>(std::move(*acceptor), context_.metrics);
  return {};
}

void ProxyRole::read_files_again() {
  if (tls_ == nullptr) return;
  if (Status status = tls_->reload(); !status) {
    log_error("SIGHUP: the certificate for clients stays as it was: {}", status.error().message);
  } else {
    log_info("SIGHUP: the certificate for clients is read again");
  }
}

Status ProxyRole::start_workers() {
  const ProxyConfig& config = context_.config.proxy;
  SLICE_RETURN_IF_ERROR(load_certificate());
  SLICE_RETURN_IF_ERROR(load_keytab());
  std::size_t count = worker_count();
  for (std::size_t i = 0; i < count; ++i) {
    auto one = std::make_unique<Thread>();
    Worker::Options options;
    options.tables = tables_;
    options.sender = {context_.self.index, tables_.config};
    options.config = &context_.config;
    options.settings = &context_.settings;
    options.workers = count;
    options.latencies = &latencies_;
    options.tracer = context_.tracer;
    options.tls = tls_.get();
    options.gss = gss_.get();
    if (address_) options.serving = &serving_;
    options.limits = Worker::client_limits(kMemory / count);
    bool shares_loop = context_.local != nullptr && i == 0;
    if (shares_loop) {
      options.local = context_.local;
    } else {
      one->loop = std::make_unique<rpc::EpollLoop>();
      one->loop->spin(std::chrono::microseconds(context_.config.spin_us));
    }
    one->worker = std::make_unique<SocketWorker>(shares_loop ? loop_ : *one->loop, context_.keys, options,
                                                 shared_->cache(), shared_->maps(), context_.metrics);
    for (const IpAddress address : config.addresses()) {
      const rpc::Endpoint at{address, config.nfs_port};
      auto tcp = listeners_.bind(SOCK_STREAM, at, Sharing::kWorkers);
      if (!tcp) return fail(std::move(tcp).error());
      one->worker->serve_tcp(tcp->fd);
      auto udp = listeners_.bind(SOCK_DGRAM, at, Sharing::kWorkers);
      if (!udp) return fail(std::move(udp).error());
      one->worker->serve_udp(udp->fd);
    }
    threads_.push_back(std::move(one));
  }
  for (auto& one : threads_) {
    if (one->loop == nullptr) continue;
    one->thread = std::thread([loop = one->loop.get()] {
      keep_capabilities({});
      loop->run();
    });
  }
  return {};
}

Status ProxyRole::start_programs() {
  const ProxyConfig& config = context_.config.proxy;
  mount_ = std::make_unique<MountProgram>(context_.config, context_.settings, tables_, context_.channel,
                                          context_.metrics);
  mount_dispatcher_ = std::make_unique<rpc::Dispatcher>(context_.metrics);
  if (context_.tracer != nullptr) {
    mount_dispatcher_->add(traced_mount_.emplace(*mount_, *context_.tracer, loop_, context_.handles));
  } else {
    mount_dispatcher_->add(*mount_);
  }
  mount_dispatcher_->add(locks_);
  mount_dispatcher_->add(clients_status_);
  mount_dispatcher_->add(users_quotas_);
  mount_dispatcher_->add(quotas_);
  mount_dispatcher_->add(routes_.emplace(context_.settings, tables_, context_.metrics));
  auto served = serve(*mount_dispatcher_, config.mount_port);
  if (!served) return fail(served.error(), "MOUNT");
  mount_server_ = std::move(*served);
  auto calls = ClientCalls::open(loop_, config.addresses(), context_.random);
  if (!calls) return fail(std::move(calls).error());
  client_calls_ = std::move(*calls);
  grants_.serve([calls = client_calls_.get()](rpc::Endpoint to, ClientCalls::Procedure what, Buffer arguments,
                                              std::vector<Duration> tries) {
    return calls->call(to, what, std::move(arguments), std::move(tries));
  });
  return {};
}

Result<std::unique_ptr<rpc::Server>> ProxyRole::serve(rpc::Dispatcher& dispatcher, std::uint16_t port) {
  std::vector<BoundSocket> tcp, udp;
  for (const IpAddress address : context_.config.proxy.addresses()) {
    for (const auto& [type, sockets] : {std::pair{SOCK_STREAM, &tcp}, std::pair{SOCK_DGRAM, &udp}}) {
      auto bound = listeners_.bind(type, {address, port}, Sharing::kNone);
      if (bound) {
        sockets->push_back(*bound);
        continue;
      }
      for (const auto* all : {&tcp, &udp})
        for (const BoundSocket& each : *all) listeners_.give_up(each);
      return fail(std::move(bound).error());
    }
  }
  rpc::Server::Options options;
  options.max_udp_growth = 4;
  auto server = std::make_unique<rpc::Server>(loop_, dispatcher, context_.metrics, std::move(options));
  for (const BoundSocket& each : tcp) server->serve_tcp(each.fd);
  for (const BoundSocket& each : udp) server->serve_udp(each.fd);
  return server;
}

// PORTMAP may belong to the host's rpcbind; then that one is told instead. Clients that name ports need
// neither.
void ProxyRole::start_portmap() {
  const ProxyConfig& config = context_.config.proxy;
  portmap_ = std::make_unique<PortmapProgram>(config);
  portmap_dispatcher_ = std::make_unique<rpc::Dispatcher>(context_.metrics);
  portmap_dispatcher_->add(*portmap_);
  for (const std::uint32_t version : {rpcbind4::kOlderVersion, rpcbind4::kVersion}) {
    rpcbinds_.push_back(std::make_unique<RpcbindProgram>(config, version));
    portmap_dispatcher_->add(*rpcbinds_.back());
  }
  auto served = serve(*portmap_dispatcher_, config.portmap_port);
  if (served) {
    portmap_server_ = std::move(*served);
    return;
  }
  at_rpcbind_ = register_at_rpcbind(config, true);
  if (at_rpcbind_) {
    log_info("PORTMAP: this host's rpcbind answers for the virtual address");
  } else {
    log_warning("PORTMAP is not served ({}): clients must name the ports {} and {}", served.error().message,
                config.nfs_port, config.mount_port);
  }
}

Task<void> ProxyRole::stop() {
  if (address_) co_await address_->stop();
  if (share_) co_await share_->stop();
  listeners_.release();
  xdp_.detach();
  if (at_rpcbind_) register_at_rpcbind(context_.config.proxy, false);
  co_await shared_->write_back().finish(3s);
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kProxy,
          .make = [](service::ServiceContext& context) { return std::make_unique<ProxyRole>(context); },
          .hints = pinned_tables};
}

}  // namespace slice::proxy
