#include "control/proxy/proxy_role.h"

#include <utility>

#include "bpf/shared/routing.h"
#include "common/log.h"
#include "service/internal_call.h"
#include "wire/coordinator.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kClockStep = 50ms, kTablesStep = 100ms, kWaysStep = 2s;
// How often, and how many times after the last find, entries are compared again once one was wrong.
constexpr Duration kWatchStep = 1s;
constexpr unsigned kWatches = 10;
constexpr std::size_t kMemory = 512 << 20;  // bytes of all workers' buffers

}  // namespace

ProxyRole::ProxyRole(service::ServiceContext& context)
    : context_(context),
      loop_(dynamic_cast<rpc::EpollLoop&>(context.loop)),
      reports_(context.metrics.counter("proxy_misdirected_reports_total")),
      mended_(context.metrics.counter("proxy_entries_mended_total")) {}

ProxyRole::~ProxyRole() {
  for (auto& one : threads_) {
    if (!one->thread.joinable()) continue;
    one->loop->stop();
    one->thread.join();
  }
}

void ProxyRole::load_program() {
  const ProxyConfig& config = context_.config.proxy;
  if (config.xdp == ProxyConfig::Xdp::kOff) {
    xdp_reason_ = "off";
  } else {
    auto loaded = Loader::load(config);
    if (loaded) {
      loader_ = std::move(*loaded);
      tables_ = loader_->tables();
      return;
    }
    xdp_reason_ = "none: " + loaded.error().message;
    log_warning("no XDP: {}; all requests go through user space", loaded.error().message);
  }
  memory_ = std::make_unique<MemoryTables>();
  tables_ = memory_->tables();
}

Task<Status> ProxyRole::start() {
  load_program();
  cache_ = std::make_unique<AttributeCache>(
      tables_.attributes, tables_.config, context_.metrics, [this](const slice_eviction& changes) {
        loop_.post_from_any_thread([this, changes] { write_back_->add(changes); });
      });
  if (loader_ != nullptr && loader_->reused()) cache_->recover();
  maps_ = std::make_unique<MapCache>(
      [this](const routing::HandleBytes& handle, FileId file, std::uint64_t stripe) {
        loop_.post_from_any_thread(
            [this, handle, file, stripe] { spawn(fetch_piece(*this, handle, file, stripe)); });
      },
      context_.metrics);
  write_back_ = std::make_unique<WriteBack>(loop_, context_.channel, tables_, *cache_, context_.handles,
                                            context_.metrics);
  keep_tables();
  keep_clock();
  fill_config(*bound_, *tables_.config);
  SLICE_CO_RETURN_IF_ERROR(start_workers());
  SLICE_CO_RETURN_IF_ERROR(start_programs());
  start_portmap();
  write_back_->start();
  if (loader_ != nullptr) {
    keep_ways();
    rings_ = std::make_unique<Rings>(loop_, *loader_, context_.metrics,
                                     [this](const slice_eviction& changes) { write_back_->add(changes); });
    loader_->attach(context_.config.proxy);
  }
  log_info("virtual address {} workers={} {}", rpc::address_text(context_.config.proxy.virtual_address),
           threads_.size(), detail());
  co_return Status();
}

std::size_t ProxyRole::worker_count() const {
  if (context_.config.proxy.threads != 0) return context_.config.proxy.threads;
  return context_.local != nullptr ? 1 : std::max(1u, std::thread::hardware_concurrency());
}

Status ProxyRole::start_workers() {
  const ProxyConfig& config = context_.config.proxy;
  std::size_t count = worker_count();
  for (std::size_t i = 0; i < count; ++i) {
    auto one = std::make_unique<Thread>();
    Worker::Options options;
    options.tables = tables_;
    options.sender = {context_.self.index, tables_.config, &context_.config.ensemble_key};
    options.memory_limit = kMemory / count;
    bool shares_loop = context_.local != nullptr && i == 0;
    if (shares_loop) {
      options.local = context_.local;
    } else {
      one->loop = std::make_unique<rpc::EpollLoop>();
    }
    one->worker = std::make_unique<Worker>(shares_loop ? loop_ : *one->loop, options, *cache_, *maps_,
                                           context_.metrics);
    rpc::Endpoint at{config.virtual_address, config.nfs_port};
    if (auto bound = one->worker->listen_tcp(at); !bound) return fail(std::move(bound).error());
    if (auto bound = one->worker->listen_udp(at); !bound) return fail(std::move(bound).error());
    threads_.push_back(std::move(one));
  }
  for (auto& one : threads_) {
    if (one->loop != nullptr) one->thread = std::thread([loop = one->loop.get()] { loop->run(); });
  }
  return {};
}

Status ProxyRole::start_programs() {
  const ProxyConfig& config = context_.config.proxy;
  mount_ = std::make_unique<MountProgram>(context_.config, tables_, context_.channel, context_.metrics);
  mount_dispatcher_ = std::make_unique<rpc::Dispatcher>(std::nullopt, context_.metrics);
  mount_dispatcher_->add(*mount_);
  mount_server_ = std::make_unique<rpc::Server>(loop_, *mount_dispatcher_, context_.metrics);
  auto bound = mount_server_->listen({config.virtual_address, config.mount_port});
  if (!bound) return fail(bound.error(), "MOUNT");
  return {};
}

// PORTMAP may belong to the host's rpcbind; then that one is told instead. Clients that name ports need
// neither.
void ProxyRole::start_portmap() {
  const ProxyConfig& config = context_.config.proxy;
  portmap_ = std::make_unique<PortmapProgram>(config);
  portmap_dispatcher_ = std::make_unique<rpc::Dispatcher>(std::nullopt, context_.metrics);
  portmap_dispatcher_->add(*portmap_);
  portmap_server_ = std::make_unique<rpc::Server>(loop_, *portmap_dispatcher_, context_.metrics);
  auto bound = portmap_server_->listen({config.virtual_address, config.portmap_port});
  if (bound) return;
  portmap_server_.reset();
  at_rpcbind_ = register_at_rpcbind(config, true);
  if (at_rpcbind_) {
    log_info("PORTMAP: this host's rpcbind answers for the virtual address");
  } else {
    log_warning("PORTMAP is not served ({}): clients must name the ports {} and {}", bound.error().message,
                config.nfs_port, config.mount_port);
  }
}

// Milliseconds of the monotonic clock, so that a restart goes on where the last run was.
void ProxyRole::keep_clock() {
  auto now = std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now().time_since_epoch()).count();
  *reinterpret_cast<volatile std::uint32_t*>(&tables_.config->now_ms) = static_cast<std::uint32_t>(now);
  loop_.after(kClockStep, [this] { keep_clock(); });
}

// Binds sites when the manager has published another generation, and only then: what an operator re-binds
// by hand stays until then, or until a server reports that it is wrong.
void ProxyRole::keep_tables() {
  follow_tables();
  loop_.after(kTablesStep, [this] { keep_tables(); });
}

void ProxyRole::follow_tables() {
  const auto& current = context_.tables.get();
  if (current == bound_) return;
  bool changed = bound_ == nullptr || current->generation() != bound_->generation();
  bound_ = current;
  bind_sites(current->wire(), tables_);
  if (changed && loader_ != nullptr) neighbours_.refresh(tables_);
}

std::size_t ProxyRole::mend() {
  std::size_t mended = bind_sites(context_.tables.get()->wire(), tables_);
  if (mended == 0) return 0;
  mended_.add(mended);
  if (loader_ != nullptr) neighbours_.refresh(tables_);
  if (std::exchange(watches_left_, kWatches) == 0) loop_.after(kWatchStep, [this] { watch(); });
  return mended;
}

// Who changes entries one after another may be in the midst of it when the first report comes; a site whose
// entry is changed after that may have no request, and so no report, for long.
void ProxyRole::watch() {
  std::size_t mended = mend();
  if (mended == 0) {
    --watches_left_;
  } else if (misdirected_log_.allow()) {
    log_warning("entries were changed again after a report: entries_put_right={}", mended);
  }
  if (watches_left_ > 0) loop_.after(kWatchStep, [this] { watch(); });
}

// Either an entry is not what the tables say (then it is put right at once), or the tables are old, the
// reporter's or these: the manager knows. What the reporter has is its own to bring up to date.
void ProxyRole::misdirected(const wire::MisdirectedArgs& report) {
  reports_.add();
  std::size_t mended = mend();
  if (misdirected_log_.allow()) {
    log_warning(
        "a request for {} site {} came to a server that does not own it: entries_put_right={} generation={} "
        "reporters_generation={}",
        wire::role_name(report.site_class), report.site.value, mended,
        context_.tables.get()->generation().value, report.generation.value);
  }
  spawn(refresh(*this));
}

Task<void> ProxyRole::refresh(ProxyRole& self) {
  co_await self.context_.refresh_tables();
  self.follow_tables();
}

Task<void> ProxyRole::fetch_piece(ProxyRole& self, routing::HandleBytes handle, FileId file,
                                  std::uint64_t stripe) {
  std::uint32_t site =
      slice_coordinator_site(file.value, self.tables_.config->site_mask[SLICE_CLASS_COORDINATOR]);
  auto coordinator = self.tables_.endpoint_of(SLICE_CLASS_COORDINATOR, site);
  Result<wire::MapResult> result = fail(Errc::kUnavailable, "no coordinator");
  if (coordinator) {
    result = co_await service::internal_call<wire::MapResult>(
        self.context_.channel, *coordinator, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMap,
        wire::MapArgs{handle, stripe});
  }
  if (result && result->status == nfs3::Status::kOk) {
    self.maps_->put(file, result->piece, self.loop_.now());
  } else {
    self.maps_->failed(file, wire::piece_of(stripe), self.loop_.now());
  }
}

void ProxyRole::keep_ways() {
  neighbours_.refresh(tables_);
  loop_.after(kWaysStep, [this] { keep_ways(); });
}

std::string ProxyRole::detail() const {
  return "xdp: " + (loader_ != nullptr ? loader_->describe() : xdp_reason_);
}

void ProxyRole::refresh_gauges() {
  if (loader_ != nullptr) loader_->export_outcomes(context_.metrics);
}

Task<void> ProxyRole::stop() {
  if (loader_ != nullptr) loader_->detach();
  if (at_rpcbind_) register_at_rpcbind(context_.config.proxy, false);
  co_await write_back_->finish(3s);
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kProxy,
          .make = [](service::ServiceContext& context) { return std::make_unique<ProxyRole>(context); }};
}

}  // namespace slice::proxy
