#include "service/hosted_server.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/version.h"
#include "service/backing/announce.h"
#include "service/backing/look_ahead.h"
#include "storage/emulated_disk.h"
#include "storage/memory_disk.h"
#include "storage/posix_disk.h"
#include "storage/traced_disk.h"

namespace slice::service {
namespace {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // The system's pool is there long before any server starts; 8 bytes never come short then.
  [[maybe_unused]] ssize_t got = ::getrandom(&bits, sizeof bits, 0);
  return bits;
}

// Without the project's name.
std::string version_number() {
  const std::string_view version = kVersion;
  return std::string(version.substr(version.rfind(' ') + 1));
}

}  // namespace

std::string removed_text(std::string_view name) {
  return fmt::format(
      "server '{}' was removed from the ensemble, and serves nothing: its data directory is not used any "
      "more (docs/operations.md, \"Removing a server\")",
      name);
}

HostedServer::HostedServer(Host host, const ServerKind& kind, const ServerConfig& self)
    : host_(std::move(host)),
      kind_(kind),
      self_(self),
      handles_(host_.config),
      tables_(
          routing::RoutingTables::make(host_.config, routing::RoutingTables::initial(host_.config)).value()),
      settings_(settings_of(host_.config)),
      tracer_(self.name, self.data, metrics_),
      sockets_(host_.loop, {.keys = &host_.keys,
                            .sender = self.index,
                            .generation = [this] { return tables_.get()->generation(); }}),
      channel_(&sockets_),
      managers_(host_.config) {
  metrics_
      .gauge("configuration_warnings",
             "warnings of the configuration that the process started with; slicectl check shows them")
      .set(host_.config.warnings.size());
  metrics_.gauge("build_info", "1, and the version of the program", {{"version", version_number()}}).set(1);
  metrics_.gauge("server_info", "1, and the name of the server", {{"name", self.name}}).set(1);
  if (host_.first) process_figures_.emplace(metrics_);
  settings_.watch([this](const Settings& settings) { settings_changed(settings); });
  if (host_.crash_at) arm(crash_, *host_.crash_at);
  if (host_.local == nullptr) return;
  local_.emplace(*host_.local, rpc::Endpoint{self.address, self.port}, self.index);
  local_->set_generation([this] { return tables_.get()->generation(); });
  channel_ = &local_first_.emplace(*local_, sockets_);
}

Status HostedServer::claim_data() {
  if (self_.data.empty()) {
    local_disk_ = std::make_unique<storage::MemoryDisk>(host_.loop);
    disk_ = local_disk_.get();
    return {};
  }
  auto data = DataDirectory::claim(self_, host_.config.volume.id);
  if (!data) return fail(std::move(data).error());
  data_.emplace(std::move(*data));
  if (data_->is_new()) log_info("new data directory {}", self_.data);
  if (data_->free_bytes() < self_.reserve_bytes) {
    log_warning("data directory {} has {} bytes free, less than its reserve of {}: changes will be refused",
                self_.data, data_->free_bytes(), self_.reserve_bytes);
  }
  auto disk = storage::PosixDisk::open(host_.loop, self_.data, {.direct_reads = self_.direct_reads});
  if (!disk) return fail(std::move(disk).error());
  local_disk_ = std::move(*disk);
  emulate_disk();
  local_disk_ = traced(std::move(local_disk_));
  disk_ = local_disk_.get();
  if (self_.backing_copies > 0) make_backing();
  return {};
}

std::unique_ptr<storage::Disk> HostedServer::traced(std::unique_ptr<storage::Disk> disk) {
  return std::make_unique<storage::TracedDisk>(std::move(disk), [this] { return tracer_.on(); });
}

void HostedServer::emulate_disk() {
  if (!self_.emulated_disk) return;
  const EmulatedDiskConfig& emulated = *self_.emulated_disk;
  log_warning("emulated_disk: operations wait as for {} arms of {} us and {} bytes/s: for measuring only",
              emulated.arms, emulated.access_us, emulated.bytes_per_second);
  local_disk_ = std::make_unique<storage::EmulatedDisk>(
      host_.loop, std::move(local_disk_),
      storage::DiskModel::Options{.arms = emulated.arms,
                                  .access = std::chrono::microseconds(emulated.access_us),
                                  .bytes_per_second = emulated.bytes_per_second,
                                  .memory_bytes = emulated.memory_bytes},
      metrics_);
}

void HostedServer::make_backing() {
  backing_.emplace(
      BackingSet::Seams{.loop = host_.loop,
                        .channel = *channel_,
                        .metrics = metrics_,
                        .managers = managers_,
                        .server = self_.index,
                        .name = self_.name,
                        .at = {self_.address, self_.port},
                        .copies = self_.backing_copies,
                        .local = *local_disk_,
                        .random = random_bits,
                        .drained =
                            [this](std::uint32_t server) {
                              const auto& servers = tables_.get()->wire().servers;
                              return server < servers.size() && servers[server].drained;
                            },
                        .lost = [this](const std::string& why) { host_.end(kExitFailed, why); }});
  backed_disk_ = traced(std::make_unique<BackedDisk>(*backing_));
  disk_ = backed_disk_.get();
}

Status HostedServer::serve_metrics() {
  const MetricsConfig& config = host_.config.metrics;
  if (!config.served) return {};
  metrics_page_.emplace(
      host_.loop, metrics_,
      MetricsPage::Hooks{.takes = [&config](IpAddress address) { return config.takes(address); },
                         .refresh = [this] { refresh_gauges(); },
                         .waits_for = [this] { return serving_ ? "" : state(); }});
  auto bound = metrics_page_->listen({self_.address, host_.config.metrics_port_of(self_)});
  if (!bound) return fail(bound.error(), "metrics");
  log_info("metrics at http://{}/metrics name={}", rpc::to_string(*bound), self_.name);
  return {};
}

void HostedServer::begin() {
  std::function<std::optional<wire::Tables>()> hints;
  if (kind_.hints) hints = [this] { return kind_.hints(host_.config); };
  session_.emplace(ManagerSession::Seams{
      .loop = host_.loop,
      .channel = *channel_,
      .metrics = metrics_,
      .disk = *disk_,
      .config = host_.config,
      .self = self_,
      .tables = tables_,
      .settings = &settings_,
      .served_before = [this] { return backing_ ? !backing_->files().empty() : data_ && data_->served(); },
      .hints = hints,
      .removed =
          [this] {
            removed_ = true;
            host_.loop.post([this] { spawn(leave()); });
          },
      .moved = when_moved(),
      .other_moved = [this](rpc::Endpoint from, rpc::Endpoint to) { sockets_.moved(from, to); }});
  if (Status served = serve_metrics(); !served) {
    host_.end(kExitFailed, served.error().message);
    return;
  }
  spawn(start());
}

// Servers that keep what they have in their data directory are where that is, whatever the tables say.
std::function<void(rpc::Endpoint)> HostedServer::when_moved() {
  if (!backing_) return nullptr;
  return [this](rpc::Endpoint there) {
    host_.stands_by(fmt::format("{} is served at {} now: this process lets go of it, and ends", self_.name,
                                rpc::to_string(there)));
  };
}

Task<void> HostedServer::start() {
  if (backing_) {
    if (Status opened = co_await open_backing(); !opened) {
      host_.end(kExitFailed, fmt::format("{} does not start: {}", self_.name, opened.error().message));
      co_return;
    }
    if (stopping_) co_return;
  }
  // The manager may have to be told of these tables before it has a verifier or tables to give.
  if (Status kept = co_await session_->load_kept(); !kept) {
    const std::string why = fmt::format("{} does not start: {}", self_.name, kept.error().message);
    if (kept.error().code == Errc::kInvalid) {
      unfit_ = true;
      host_.left(why);  // its data is another server's
    } else {
      host_.end(kExitFailed, why);
    }
    co_return;
  }
  session_->start_heartbeats(verifier_, [this](wire::HeartbeatArgs& args) { describe(args); });
  if (kind_.draws_verifier) verifier_.see(co_await session_->draw_verifier());
  co_await session_->load_tables();
  if (stopping_ || removed_) co_return;
  context_.emplace(
      ServiceContext{.loop = host_.loop,
                     .channel = *channel_,
                     .metrics = metrics_,
                     .disk = *disk_,
                     .config = host_.config,
                     .self = self_,
                     .handles = handles_,
                     .tables = tables_,
                     .settings = settings_,
                     .verifier = verifier_,
                     .random = random_bits,
                     .crash = crash_,
                     .refresh_tables = [this] { return session_->refresh(); },
                     .ownership = Ownership::applies_to(self_.role) ? &session_->ownership() : nullptr,
                     .local = local_ ? &*local_ : nullptr,
                     .keys = &host_.keys,
                     .tracer = &tracer_});
  role_ = kind_.make(*context_);
  Status started = co_await role_->start();
  if (!started) {
    host_.end(started.error().code == Errc::kInvalid ? kExitBadUsage : kExitFailed,
              fmt::format("{} does not start: {}", self_.name, started.error().message));
    co_return;
  }
  if (stopping_ || removed_) co_return;
  admin_.emplace(self_.name, metrics_, admin_hooks());
  dispatcher_.emplace(metrics_);
  dispatcher_->add(*admin_);
  for (rpc::Program* program : role_->programs()) add_program(*program);
  server_.emplace(host_.loop, *dispatcher_, metrics_, server_options());
  auto bound = server_->listen({self_.address, self_.port});
  if (!bound) {
    host_.end(kExitFailed, bound.error().message);
    co_return;
  }
  if (local_) local_->attach(*bound, &*dispatcher_);
  serving_ = true;
  settings_changed(*settings_.get());  // they may have been changed while the role started
  log_info("serving as {} at {} name={} verifier={} generation={}", role_name(self_.role),
           rpc::to_string(*bound), self_.name, verifier_.largest().value, tables_.get()->generation().value);
  host_.phase_changed();
}

Task<Status> HostedServer::open_backing() {
  spawn(
      announce({.loop = host_.loop,
                .channel = *channel_,
                .managers = managers_,
                .set = *backing_,
                .first_place = self_.places.empty() || self_.places.front() == self_.address,
                .told = [this] { return session_->told(verifier_, [this](auto& args) { describe(args); }); },
                .over = [this] { return stopping_; }}));
  spawn(look_ahead({.loop = host_.loop,
                    .channel = *channel_,
                    .managers = managers_,
                    .metrics = metrics_,
                    .local = *local_disk_,
                    .set = *backing_,
                    .server = self_.index,
                    .name = self_.name,
                    .reserve = self_.reserve_bytes,
                    .over = [this] { return stopping_; }}));
  co_return co_await backing_->open();
}

void HostedServer::add_program(rpc::Program& program) {
  programs_.push_back(std::make_unique<TracedProgram>(program, tracer_, host_.loop, handles_));
  if (backing_) {
    programs_.push_back(std::make_unique<FencedProgram>(*programs_.back(), *backing_, metrics_));
  }
  dispatcher_->add(*programs_.back());
}

AdminProgram::Hooks HostedServer::admin_hooks() {
  return {.refresh = [this] { refresh_gauges(); },
          .misdirected = [this](const wire::MisdirectedArgs& report) { role_->misdirected(report); },
          .new_tables = [this](Generation generation) { return session_->catch_up(generation); },
          .settings = [this] { return *settings_.get(); },
          .new_settings = [this](SettingsGeneration generation) { return session_->catch_up(generation); },
          .reload = [this] { return role_->reload(); },
          .about = [this] { return about(); },
          .trace = [this](const wire::TraceArgs& args) { return tracer_.trace(args, host_.loop.now()); },
          .top = [this](const wire::TopArgs& args) { return tracer_.top(args, host_.loop.now()); }};
}

wire::AboutResult HostedServer::about() {
  wire::AboutResult result{.name = self_.name,
                           .version = version_number(),
                           .told = session_->told(verifier_, [this](auto& args) { describe(args); }),
                           .wall_ns = static_cast<std::uint64_t>(host_.loop.wall().ns),
                           .manager_silent_ms = in_milliseconds(session_->manager_silent()),
                           .late_ms = in_milliseconds(session_->late()),
                           .shared = wire::shared_keys(host_.config)};
  result.state_ms = in_milliseconds(host_.loop.now() - state_since_);
  return result;
}

rpc::Server::Options HostedServer::server_options() {
  rpc::Server::Options options;
  options.limits.is_peer = [this](IpAddress address) {
    const auto& servers = tables_.get()->wire().servers;
    return std::any_of(servers.begin(), servers.end(),
                       [address](const wire::ServerEntry& each) { return each.endpoint.address == address; });
  };
  options.keys = &host_.keys;
  options.internal = [&network = host_.config.network](IpAddress address) { return network.takes(address); };
  return options;
}

void HostedServer::settings_changed(const Settings& settings) {
  if (!host_.own_log_level) set_log_level(settings.log_level);
  tracer_.log_slower(std::chrono::milliseconds(settings.slow_operation_ms));
  if (!serving_) return;  // who starts looks at them then
  server_->limit_clients(settings.limits);
  role_->settings_changed();
}

void HostedServer::reload() {
  if (!serving_) {
    log_warning("SIGHUP: {} does not serve yet: its settings are not read again", self_.name);
    return;
  }
  spawn([](Role& role) -> Task<void> { (void)co_await role.reload(); }(*role_));  // which logs what it did
}

void HostedServer::read_files_again() {
  if (serving_) role_->read_files_again();
}

void HostedServer::keys_changed() {
  if (!server_) return;
  if (std::size_t ended = server_->end_sessions_of_other_keys(); ended > 0) {
    log_info("ended {} sessions under keys that are not valid any more name={}", ended, self_.name);
  }
}

Task<void> HostedServer::stop() {
  if (std::exchange(stopping_, true)) co_return;
  if (serving_) co_await role_->stop();
  if (backing_) co_await backing_->close();
}

Task<void> HostedServer::leave() {
  co_await stop();
  if (serving_) {
    if (local_) local_->attach({self_.address, self_.port}, nullptr);
    server_.reset();
  }
  metrics_page_.reset();
  serving_ = false;
  host_.left(removed_text(self_.name));
}

std::string HostedServer::waits_for() const {
  if (backing_ && !backing_->waits_for().empty()) return backing_->waits_for();
  return session_ ? session_->waits_for() : "";
}

HostedServer::Phase HostedServer::phase() const {
  if (removed_ || unfit_) return Phase::kGone;
  if (serving_) return Phase::kServing;
  return waits_for().empty() ? Phase::kStarting : Phase::kWaiting;
}

std::string HostedServer::state() const {
  if (removed_) return "removed";
  if (stopping_) return "stopping";
  switch (phase()) {
    case Phase::kGone:
      return "does not start";
    case Phase::kServing:
      return role_->state();
    case Phase::kWaiting:
      return "waiting: " + waits_for();
    case Phase::kStarting:
      break;
  }
  return "starting";
}

void HostedServer::describe(wire::HeartbeatArgs& args) {
  if (auto space = disk_->space(); space && !self_.data.empty()) {
    args.free_bytes = space->free_bytes;
    args.total_bytes = space->total_bytes;
  }
  args.state = state();
  // "waiting: ..." is one state, for whatever it waits.
  if (std::string kind = args.state.substr(0, args.state.find(':')); kind != state_was_) {
    state_was_ = std::move(kind);
    state_since_ = host_.loop.now();
  }
  if (!serving_) return;
  args.detail = role_->detail();
  args.objects = role_->objects();
}

void HostedServer::refresh_gauges() {
  if (process_figures_) process_figures_->refresh();
  if (serving_) role_->refresh_gauges();
  if (const rpc::Tls* tls = host_.keys.tls()) {
    metrics_
        .gauge("rpc_tls_certificate_ends_seconds",
               "until when this process's certificate among members counts, seconds since 1970")
        .set(tls->ends());
  }
  if (self_.data.empty() || !disk_) return;
  if (auto space = disk_->space()) {
    metrics_.gauge("data_free_bytes", "free space of the data directory's file system")
        .set(space->free_bytes);
    metrics_.gauge("data_total_bytes", "size of the data directory's file system").set(space->total_bytes);
  }
}

}  // namespace slice::service
