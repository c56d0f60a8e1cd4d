#include <utility>

#include "control/manager/role.h"
#include "control/manager/shared_store.h"
#include "coordinator/server.h"
#include "dirserver/server.h"
#include "service/backing/announce.h"
#include "service/backing/fenced_program.h"
#include "smallfile/server.h"
#include "storagenode/server.h"
#include "tests/sim/broken_fencing.h"
#include "tests/sim/machine.h"

namespace slice::sim {

SimEnsemble::Process::Process(SimEnsemble& ensemble, Machine& machine)
    : ensemble_(ensemble),
      machine_(machine),
      random_(ensemble.random_.fork(machine.config.name)),
      loop_(ensemble.loop_),
      socket_(loop_, ensemble.network_,
              {.self = machine.endpoint(),
               .member = true,
               .sender = machine.config.index,
               .first_xid = static_cast<std::uint32_t>(random_.next())}),
      local_disk_(machine.disk().session()),
      managers_(ensemble.config_),
      tables_(ensemble.tables_),
      settings_(ensemble.settings_),
      verifier_(Verifier{ensemble.has_manager() ? 0 : ++ensemble.next_verifier_}),
      context_{
          .loop = loop_,
          .channel = socket_,
          .metrics = metrics_,
          .disk = disk(),
          .config = machine.config.role == ServerRole::kManager ? ensemble.birth_config_ : ensemble.config_,
          .self = machine.config,
          .handles = ensemble.handles_,
          .tables = tables_,
          .settings = settings_,
          .verifier = verifier_,
          .random = [this] { return random_.next(); },
          .crash = crash_,
          .refresh_tables = ensemble.has_manager()
                                ? std::function<Task<void>()>([this] { return session_->refresh(); })
                                : nullptr},
      dispatcher_(metrics_),
      connections_(loop_, ensemble.network_, machine.endpoint(), dispatcher_),
      role_(make_role()) {
  loop_.set_wall_ahead(machine.wall_ahead);
  crash_.set([this, &ensemble](std::string_view point) {
    return !loop_.alive() || ensemble.dies_at(machine_, point);
  });
}

storage::Disk& SimEnsemble::Process::disk() {
  if (!machine_.backed()) return *local_disk_;
  backing_.emplace(service::BackingSet::Seams{.loop = loop_,
                                              .channel = socket_,
                                              .metrics = metrics_,
                                              .managers = managers_,
                                              .server = machine_.config.index,
                                              .name = machine_.config.name,
                                              .at = machine_.endpoint(),
                                              .copies = machine_.config.backing_copies,
                                              .local = *local_disk_,
                                              .random = [this] { return random_.next(); },
                                              .drained =
                                                  [this](std::uint32_t server) {
                                                    const auto& servers = tables_.get()->wire().servers;
                                                    return server < servers.size() && servers[server].drained;
                                                  },
                                              .lost =
                                                  [this](const std::string& why) {
                                                    if (loop_.alive()) ensemble_.kill(machine_, why);
                                                  }});
  return *(backed_disk_ = std::make_unique<service::BackedDisk>(*backing_));
}

Task<slice::Status> SimEnsemble::Process::start() {
  if (ensemble_.has_manager() && machine_.config.role != ServerRole::kManager) {
    SLICE_CO_RETURN_IF_ERROR(co_await join_manager());
  }
  SLICE_CO_RETURN_IF_ERROR(co_await role_->start());
  if (leaves_) co_return fail(Errc::kUnavailable, "it leaves");
  machine_.served = true;
  serve();
  co_return slice::Status{};
}

void SimEnsemble::Process::serve() {
  for (rpc::Program* program : role_->programs()) {
    if (backing_ && ensemble_.broken_ != BrokenFencing::kOwners) {
      programs_.push_back(std::make_unique<service::FencedProgram>(*program, *backing_, metrics_));
      program = programs_.back().get();
    }
    if (ensemble_.broken_ == BrokenFencing::kNodes && program->number() == wire::kBackingProgram) {
      programs_.push_back(std::make_unique<ForgetfulNode>(*program));
      program = programs_.back().get();
    }
    dispatcher_.add(*program);
  }
  socket_.serve(dispatcher_);
  if (!ensemble_.has_proxies() || machine_.config.role == ServerRole::kProxy) return;
  ensemble_.streams_.listen(machine_.endpoint(), loop_,
                            [this](std::unique_ptr<proxy::Stream> connection, rpc::Endpoint peer) {
                              connections_.take(std::move(connection), peer);
                            });
}

void SimEnsemble::Process::die(std::uint64_t survivors, std::uint64_t seed, bool silently) {
  loop_.die();
  socket_.close();
  ensemble_.streams_.die(loop_, silently);
  if (auto* proxy = dynamic_cast<SimProxy*>(role_.get())) proxy->close();
  if (own_store_ != nullptr) own_store_->kill(survivors);
  machine_.disk().crash(storage::MemoryDisk::Crash::kSeeded, seed);
}

Task<slice::Status> SimEnsemble::Process::open_backing() {
  const auto& places = machine_.config.places;
  spawn(service::announce({.loop = loop_,
                           .channel = socket_,
                           .managers = managers_,
                           .set = *backing_,
                           .first_place = places.empty() || places.front() == machine_.config.address,
                           .told = [this] { return told(); },
                           .over = [this] { return leaves_; }}));
  SLICE_CO_RETURN_IF_ERROR(co_await backing_->open());
  auto store = co_await LoggedMemory::open(loop_, *backed_disk_, metrics_, random_.next());
  if (!store) co_return fail(std::move(store).error());
  backed_store_ = std::move(*store);
  co_return slice::Status{};
}

wire::HeartbeatArgs SimEnsemble::Process::told() {
  return session_->told(verifier_, [this](wire::HeartbeatArgs& args) {
    args.state = machine_.serving ? "serving" : "waiting";
  });
}

Task<slice::Status> SimEnsemble::Process::join_manager() {
  session_.emplace(service::ManagerSession::Seams{
      .loop = loop_,
      .channel = socket_,
      .metrics = metrics_,
      .disk = context_.disk,
      .config = ensemble_.config_,
      .self = machine_.config,
      .tables = tables_,
      .served_before = [this] { return backing_ ? !backing_->files().empty() : machine_.served; },
      .pid = ++ensemble_.runs_,
      .removed =
          [this] {
            loop_.post([this] {
              if (loop_.alive()) ensemble_.end(machine_);
            });
          },
      .moved = backing_ ? std::function<void(rpc::Endpoint)>(
                              [this](rpc::Endpoint) { terminate("it is served elsewhere"); })
                        : nullptr,
      .other_moved = [this](rpc::Endpoint from, rpc::Endpoint to) { socket_.moved(from, to); }});
  if (backing_) SLICE_CO_RETURN_IF_ERROR(co_await open_backing());
  SLICE_CO_RETURN_IF_ERROR(co_await session_->load_kept());
  if (service::Ownership::applies_to(machine_.config.role)) context_.ownership = &session_->ownership();
  session_->start_heartbeats(verifier_, [](wire::HeartbeatArgs& args) { args.state = "serving"; });
  const bool draws =
      machine_.config.role == ServerRole::kSmallFile || machine_.config.role == ServerRole::kStorage;
  if (draws) verifier_.see(co_await session_->draw_verifier());
  co_await session_->load_tables();
  co_return slice::Status{};
}

Task<void> SimEnsemble::Process::end_cleanly(std::string why) {
  if (std::exchange(leaves_, true)) co_return;
  if (machine_.serving) co_await role_->stop();
  if (backing_) co_await backing_->close();
  if (loop_.alive()) ensemble_.kill(machine_, why);
}

Result<std::unique_ptr<storage::KvStore>> SimEnsemble::Process::open_store() {
  if (backing_) {
    store_ = backed_store_.get();
    return std::unique_ptr<storage::KvStore>(std::move(backed_store_));
  }
  storage::MemoryStore::Options options{
      .sync_time = random_.between(std::chrono::microseconds(100), std::chrono::milliseconds(8))};
  auto store = std::make_unique<storage::MemoryStore>(loop_, machine_.medium, options);
  store_ = own_store_ = store.get();
  return std::unique_ptr<storage::KvStore>(std::move(store));
}

std::unique_ptr<service::Role> SimEnsemble::Process::make_manager() {
  if (!ensemble_.shares_state(machine_)) return std::make_unique<manager::ManagerRole>(context_);
  auto registry = std::make_unique<manager::testing::MemoryRegistry>(ensemble_.registry_, loop_);
  registry->draw = [this] { return ensemble_.draw_registry_fault(machine_); };
  return std::make_unique<manager::ManagerRole>(
      context_,
      std::make_unique<manager::SharedStore>(
          manager::SharedStore::Seams{.loop = loop_,
                                      .metrics = metrics_,
                                      .self = machine_.config.name,
                                      .lease = std::chrono::seconds(ensemble_.config_.managers.lease_s),
                                      .random = [this] { return random_.next(); }},
          std::move(registry)));
}

std::unique_ptr<service::Role> SimEnsemble::Process::make_role() {
  auto open = [this](service::ServiceContext&) { return open_store(); };
  switch (machine_.config.role) {
    case ServerRole::kDirectory:
      return std::make_unique<dirserver::DirectoryServer>(context_, open);
    case ServerRole::kSmallFile:
      return std::make_unique<smallfile::SmallFileServer>(context_, open);
    case ServerRole::kStorage:
      return storagenode::make_storage_server(context_);
    case ServerRole::kManager:
      return make_manager();
    case ServerRole::kProxy:
      return std::make_unique<SimProxy>(context_, loop_, ensemble_.network_, ensemble_.streams_,
                                        machine_.front());
    default:
      return std::make_unique<coordinator::Coordinator>(context_, open);
  }
}

}  // namespace slice::sim
