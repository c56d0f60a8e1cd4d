#include "tests/sim/ensemble.h"

#include <algorithm>
#include <utility>

#include "control/manager/role.h"
#include "coordinator/server.h"
#include "dirserver/server.h"
#include "service/internal_program.h"
#include "service/manager_session.h"
#include "service/testing/sample_config.h"
#include "smallfile/server.h"
#include "storagenode/server.h"
#include "tests/sim/sim_proxy.h"
#include "wire/manager.h"

namespace slice::sim {
namespace {

constexpr std::uint32_t kDirectorySites = 8;
// Where sites are moved: few, so that each has bytes, and several servers of each class.
constexpr std::uint32_t kMovedStorageSites = 16, kMovedSmallFileSites = 8, kMovedCoordinatorSites = 4;
constexpr unsigned kMovingSmallFileServers = 3;
constexpr std::uint64_t kMostSurvivors = 4;  // unsynced batches that a kill may leave
constexpr double kHotShare = 0.3;            // of the crash points, in one storm
constexpr double kDeathAtHotPoint = 0.25;    // each time it is reached
constexpr double kDeathAtChosenPoint = 0.7;
constexpr Duration kShortestAbsence = std::chrono::milliseconds(10);
constexpr Duration kLongestAbsence = std::chrono::seconds(3);
constexpr Duration kShortestIllness = std::chrono::milliseconds(5);  // of a disk
constexpr Duration kLongestIllness = std::chrono::milliseconds(500);
constexpr double kErrors = 0.3;    // of what an ill disk is asked for
constexpr double kHostDies = 0.3;  // of processes that die, where there are connections: nobody is told
constexpr std::uint32_t kFirstFront = 0x0a4d0001;  // 10.77.0.1: a front each proxy

double one_of(Random& random, std::initializer_list<double> values) {
  return values.begin()[random.below(values.size())];
}

// Every storm has faults of its own: some are calm, some lose every tenth datagram.
SimNetwork::Faults draw_faults(Random random) {
  SimNetwork::Faults faults;
  faults.most_delay = std::chrono::microseconds(random.chance(0.5) ? 500 : 20'000);
  faults.loss = one_of(random, {0, 0.01, 0.1});
  faults.duplication = one_of(random, {0, 0.05, 0.3});
  faults.straggling = one_of(random, {0, 0.01, 0.1});
  return faults;
}

SimStreams::Faults draw_stream_faults(Random random) {
  return {.breaks = one_of(random, {0, 0.001, 0.01}),
          .most_cut = static_cast<std::size_t>(one_of(random, {0, 100, 5000}))};
}

}  // namespace

EnsembleConfig make_config(const EnsembleOptions& options) {
  EnsembleConfig config = service::testing::sample_config();
  for (unsigned i = 2; i <= options.directory_servers; ++i) {
    service::testing::add_server(config, "dir" + std::to_string(i), ServerRole::kDirectory);
  }
  for (unsigned i = 3; i <= options.storage_nodes; ++i) {
    service::testing::add_server(config, "store" + std::to_string(i), ServerRole::kStorage);
  }
  // Sites move between two at least.
  for (unsigned i = 2; i <= std::max(options.coordinators, options.moves ? 2u : 1u); ++i) {
    service::testing::add_server(config, "coord" + std::to_string(i), ServerRole::kCoordinator);
  }
  for (unsigned i = 2; i <= options.proxies; ++i) {
    service::testing::add_server(config, "proxy" + std::to_string(i), ServerRole::kProxy);
  }
  config.volume.copies = options.copies;
  config.volume.placement = options.placement;
  config.volume.policy = options.policy;
  config.volume.mkdir_probability = options.mkdir_probability;
  config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)] = kDirectorySites;
  if (options.moves) {
    for (unsigned i = 2; i <= kMovingSmallFileServers; ++i) {
      service::testing::add_server(config, "small" + std::to_string(i), ServerRole::kSmallFile);
    }
    config.site_counts[static_cast<std::size_t>(ServerRole::kStorage)] = kMovedStorageSites;
    config.site_counts[static_cast<std::size_t>(ServerRole::kSmallFile)] = kMovedSmallFileSites;
    config.site_counts[static_cast<std::size_t>(ServerRole::kCoordinator)] = kMovedCoordinatorSites;
  }
  for (unsigned i = 1; i <= options.later; ++i)
    service::testing::add_server(config, "later" + std::to_string(i), ServerRole::kStorage);
  return config;
}

// What outlives a process.
struct SimEnsemble::Machine {
  Machine(ManualLoop& loop, const ServerConfig& server, std::uint64_t seed)
      : config(server), disk(loop, storage::MemoryDisk::Options{.seed = seed}) {}
  rpc::Endpoint endpoint() const { return {config.address, config.port}; }
  // Of a proxy.
  rpc::Endpoint front() const { return {kFirstFront + number, config.port}; }

  const ServerConfig& config;
  storage::MemoryMedium medium;
  storage::MemoryDisk disk;
  std::unique_ptr<Process> process;
  bool serving = false;
  bool gone = false;         // for good: it was lost, or removed from the ensemble
  bool comes = false;        // later
  std::uint32_t number = 0;  // among the proxies
  std::uint64_t runs = 0;    // of its process
  bool served = false;       // ever
  MonoTime ill_until{};      // its disk
  bool had_errors = false;   // since the process started
};

class SimEnsemble::Process {
 public:
  Process(SimEnsemble& ensemble, Machine& machine)
      : ensemble_(ensemble),
        machine_(machine),
        random_(ensemble.random_.fork(machine.config.name)),
        loop_(ensemble.loop_),
        socket_(loop_, ensemble.network_,
                {.self = machine.endpoint(),
                 .member = true,
                 .sender = machine.config.index,
                 .first_xid = static_cast<std::uint32_t>(random_.next())}),
        disk_(machine.disk.session()),
        tables_(ensemble.tables_),
        settings_(settings_of(ensemble.config_)),
        verifier_(Verifier{ensemble.has_manager_ ? 0 : ++ensemble.next_verifier_}),
        context_{
            .loop = loop_,
            .channel = socket_,
            .metrics = metrics_,
            .disk = *disk_,
            .config = machine.config.role == ServerRole::kManager ? ensemble.birth_config_ : ensemble.config_,
            .self = machine.config,
            .handles = ensemble.handles_,
            .tables = tables_,
            .settings = settings_,
            .verifier = verifier_,
            .random = [this] { return random_.next(); },
            .crash = crash_,
            .refresh_tables = ensemble.has_manager_
                                  ? std::function<Task<void>()>([this] { return session_->refresh(); })
                                  : nullptr},
        dispatcher_(metrics_),
        connections_(loop_, ensemble.network_, machine.endpoint(), dispatcher_),
        role_(make_role()) {
    crash_.set([this, &ensemble](std::string_view point) {
      return !loop_.alive() || ensemble.dies_at(machine_, point);
    });
  }

  Task<slice::Status> start() {
    if (ensemble_.has_manager_ && machine_.config.role != ServerRole::kManager) {
      SLICE_CO_RETURN_IF_ERROR(co_await join_manager());
    }
    SLICE_CO_RETURN_IF_ERROR(co_await role_->start());
    machine_.served = true;
    for (rpc::Program* program : role_->programs()) dispatcher_.add(*program);
    socket_.serve(dispatcher_);
    if (ensemble_.has_proxies() && machine_.config.role != ServerRole::kProxy) {
      ensemble_.streams_.listen(machine_.endpoint(), loop_,
                                [this](std::unique_ptr<proxy::Stream> connection, rpc::Endpoint peer) {
                                  connections_.take(std::move(connection), peer);
                                });
    }
    co_return slice::Status{};
  }

  void die(std::uint64_t survivors, std::uint64_t seed, bool silently) {
    loop_.die();
    socket_.close();
    ensemble_.streams_.die(loop_, silently);
    if (auto* proxy = dynamic_cast<SimProxy*>(role_.get())) proxy->close();
    if (store_ != nullptr) store_->kill(survivors);
    machine_.disk.crash(storage::MemoryDisk::Crash::kSeeded, seed);
  }
  bool alive() const { return loop_.alive(); }
  const storage::KvStore* store() const { return store_; }
  std::uint64_t metric(std::string_view name) { return metrics_.counter(name).value(); }
  service::Role& role() { return *role_; }

 private:
  // As service::HostedServer does it.
  Task<slice::Status> join_manager() {
    session_.emplace(service::ManagerSession::Seams{.loop = loop_,
                                                    .channel = socket_,
                                                    .metrics = metrics_,
                                                    .disk = *disk_,
                                                    .config = ensemble_.config_,
                                                    .self = machine_.config,
                                                    .tables = tables_,
                                                    .served_before = [this] { return machine_.served; },
                                                    .pid = ++machine_.runs,
                                                    .removed = [this] { loop_.post([this] { leave(); }); }});
    SLICE_CO_RETURN_IF_ERROR(co_await session_->load_kept());
    if (service::Ownership::applies_to(machine_.config.role)) context_.ownership = &session_->ownership();
    session_->start_heartbeats(verifier_, [](wire::HeartbeatArgs& args) { args.state = "serving"; });
    bool draws =
        machine_.config.role == ServerRole::kSmallFile || machine_.config.role == ServerRole::kStorage;
    if (draws) verifier_.see(co_await session_->draw_verifier());
    co_await session_->load_tables();
    co_return slice::Status{};
  }
  void leave() {
    if (loop_.alive()) ensemble_.end(machine_);
  }
  Result<std::unique_ptr<storage::KvStore>> open_store() {
    storage::MemoryStore::Options options{
        .sync_time = random_.between(std::chrono::microseconds(100), std::chrono::milliseconds(8))};
    auto store = std::make_unique<storage::MemoryStore>(loop_, machine_.medium, options);
    store_ = store.get();
    return std::unique_ptr<storage::KvStore>(std::move(store));
  }
  std::unique_ptr<service::Role> make_role() {
    auto open = [this](service::ServiceContext&) { return open_store(); };
    switch (machine_.config.role) {
      case ServerRole::kDirectory:
        return std::make_unique<dirserver::DirectoryServer>(context_, open);
      case ServerRole::kSmallFile:
        return std::make_unique<smallfile::SmallFileServer>(context_, open);
      case ServerRole::kStorage:
        return storagenode::make_storage_server(context_);
      case ServerRole::kManager:
        return std::make_unique<manager::ManagerRole>(context_);
      case ServerRole::kProxy:
        return std::make_unique<SimProxy>(context_, loop_, ensemble_.network_, ensemble_.streams_,
                                          machine_.front());
      default:
        return std::make_unique<coordinator::Coordinator>(context_, open);
    }
  }

  SimEnsemble& ensemble_;
  Machine& machine_;
  Random random_;
  ProcessLoop loop_;
  Metrics metrics_;
  SimSocket socket_;
  std::unique_ptr<storage::Disk> disk_;
  routing::TableHolder tables_;
  LiveSettings settings_;
  service::VerifierClock verifier_;
  CrashPoints crash_;
  std::optional<service::ManagerSession> session_;
  service::ServiceContext context_;
  rpc::Dispatcher dispatcher_;
  StreamServer connections_;
  storage::MemoryStore* store_ = nullptr;  // the role's
  std::unique_ptr<service::Role> role_;
};

// What the manager would do for a server that is up: draw verifiers.
class SimEnsemble::Draws : public service::InternalProgram {
 public:
  Draws(SimEnsemble& ensemble, rpc::Endpoint at)
      : InternalProgram(wire::kManagerProgram),
        loop_(ensemble.loop_),
        socket_(loop_, ensemble.network_, {.self = at, .member = true}),
        dispatcher_(metrics_) {
    on<wire::DrawVerifierArgs>(wire::ManagerProcedure::kDrawVerifier,
                               [&ensemble](const auto&) -> Task<wire::DrawVerifierResult> {
                                 co_return wire::DrawVerifierResult{Verifier{++ensemble.next_verifier_}};
                               });
    dispatcher_.add(*this);
    socket_.serve(dispatcher_);
  }

 private:
  ProcessLoop loop_;
  Metrics metrics_;
  SimSocket socket_;
  rpc::Dispatcher dispatcher_;
};

SimEnsemble::SimEnsemble(const EnsembleOptions& options, Trace::Print print)
    : proxies_(options.proxies),
      has_manager_(options.manager),
      disk_errors_(options.disk_errors),
      moves_(options.moves),
      victims_(options.victims),
      dangerous_(options.dangerous),
      config_(make_config(options)),
      birth_config_(config_),
      random_(options.seed),
      trace_(loop_, std::move(print)),
      network_(loop_, random_.fork("network"), trace_),
      streams_(loop_, network_, Random(options.seed).fork("streams"), trace_),
      handles_(config_) {
  birth_config_.servers.resize(config_.servers.size() - options.later);
  tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(birth_config_)).value();
  std::uint32_t fronts = 0;
  for (const ServerConfig& server : config_.servers) {
    bool proxy = server.role == ServerRole::kProxy;
    if (proxy && proxies_ == 0) continue;
    if (server.role == ServerRole::kManager && !has_manager_) {
      draws_ = std::make_unique<Draws>(*this, rpc::Endpoint{server.address, server.port});
      continue;
    }
    machines_.push_back(std::make_unique<Machine>(loop_, server, random_.next()));
    if (proxy) machines_.back()->number = fronts++;
    machines_.back()->comes = server.index >= birth_config_.servers.size();
    if (disk_errors_ && server.role == ServerRole::kStorage) let_disk_fail(*machines_.back());
  }
}

SimEnsemble::~SimEnsemble() = default;

bool SimEnsemble::start() {
  for (auto& machine : machines_) {
    if (!machine->comes) boot(*machine);
  }
  bool up = loop_.run_until([&] { return !failure_.empty() || all_serving(); }, std::chrono::minutes(1));
  if (!up && failure_.empty()) failure_ = "not every process comes to serve";
  return failure_.empty();
}

void SimEnsemble::boot(Machine& machine) {
  trace_.note("{} starts", machine.config.name);
  machine.ill_until = {};
  machine.had_errors = false;
  machine.process = std::make_unique<Process>(*this, machine);
  spawn([](SimEnsemble& self, Machine& on, Process& process) -> Task<void> {
    slice::Status started = co_await process.start();
    if (!process.alive()) co_return;
    if (started) {
      self.trace_.note("{} serves", on.config.name);
      on.serving = true;
    } else {
      self.failure_ = fmt::format("{} does not start: {}", on.config.name, started.error().message);
    }
  }(*this, machine, *machine.process));
}

void SimEnsemble::kill(Machine& machine, std::string_view why) {
  ++kills_;
  trace_.note("{} dies: {}", machine.config.name, why);
  machine.serving = false;
  const std::uint64_t survivors = random_.below(kMostSurvivors), seed = random_.next();
  machine.process->die(survivors, seed, has_proxies() && random_.chance(kHostDies));
  dead_.push_back(std::move(machine.process));
  loop_.after(random_.between(kShortestAbsence, kLongestAbsence), [this, &machine] {
    if (!machine.process && !machine.gone) boot(machine);
  });
}

SimEnsemble::Machine& SimEnsemble::machine(std::uint32_t server) {
  return **std::find_if(machines_.begin(), machines_.end(),
                        [&](const auto& each) { return each->config.index == server; });
}

void SimEnsemble::lose(std::uint32_t server) {
  Machine& lost = machine(server);
  lost.gone = true;
  if (lost.process) kill(lost, "with its disk");
}

void SimEnsemble::end(Machine& machine) {
  machine.gone = true;
  kill(machine, "it was removed from the ensemble");
}

void SimEnsemble::come(std::uint32_t server) {
  Machine& more = machine(server);
  more.comes = false;
  boot(more);
}

std::vector<std::uint32_t> SimEnsemble::to_come() const {
  std::vector<std::uint32_t> servers;
  for (const auto& each : machines_) {
    if (each->comes) servers.push_back(each->config.index);
  }
  return servers;
}

bool SimEnsemble::dies_at(Machine& machine, std::string_view point) {
  PointCount& count = points_.try_emplace(std::string(point)).first->second;
  ++count.reached;
  if (!stormy_ || crashes_left_ == 0 || !machine.process) return false;
  bool hot =
      dangerous_.empty() ? Random(mix_text(point, hot_points_)).chance(kHotShare) : point == dangerous_;
  if (!hot || !random_.chance(dangerous_.empty() ? kDeathAtHotPoint : kDeathAtChosenPoint)) return false;
  --crashes_left_;
  ++count.died;
  kill(machine, point);
  return true;
}

// Rather one of the role that is to suffer most.
SimEnsemble::Machine& SimEnsemble::any_machine() {
  bool any = !random_.chance(0.7);
  for (;;) {
    Machine& machine = *machines_[random_.below(machines_.size())];
    const bool moves_too = moves_ && machine.config.role == ServerRole::kSmallFile;
    if (any || moves_too || machine.config.role == victims_) return machine;
  }
}

void SimEnsemble::schedule_kill(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_ || crashes_left_ == 0) return;
    Machine& machine = any_machine();
    if (!machine.process) return;
    --crashes_left_;
    kill(machine, "killed");
  });
}

void SimEnsemble::schedule_cut(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_) return;
    const Machine& one = any_machine();
    const Machine& other = any_machine();
    Duration time = random_.between(kShortestAbsence, kLongestAbsence);
    if (&one == &other) {
      network_.isolate(one.endpoint(), time);
    } else {
      network_.cut(one.endpoint(), other.endpoint(), time);
    }
  });
}

// Reads, writes and syncs fail now and then while it is ill; a sync that fails loses what it was to make
// durable.
void SimEnsemble::let_disk_fail(Machine& machine) {
  using Operation = storage::MemoryDisk::Operation;
  machine.disk.set_fault([this, &machine](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
    bool fails = access.operation == Operation::kRead || access.operation == Operation::kWrite ||
                 access.operation == Operation::kSync;
    if (!fails || !machine.process || loop_.now() >= machine.ill_until || !random_.chance(kErrors))
      return std::nullopt;
    ++disk_errors_so_far_;
    machine.had_errors = true;
    trace_.note("{}: a disk error at {}", machine.config.name, access.path);
    return Error{Errc::kIo, "a simulated disk error"};
  });
}

void SimEnsemble::schedule_disk_errors(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_) return;
    Machine& machine = any_machine();
    if (machine.config.role == ServerRole::kStorage && machine.serving)
      machine.ill_until = loop_.now() + random_.between(kShortestIllness, kLongestIllness);
  });
}

void SimEnsemble::storm(Duration soon, unsigned crashes) {
  ++storms_;
  stormy_ = true;
  crashes_left_ = crashes;
  hot_points_ = random_.next();
  faults_ = draw_faults(random_.fork("faults"));
  network_.set_faults(faults_);
  if (has_proxies()) streams_.set_faults(draw_stream_faults(random_.fork("stream faults")));
  for (unsigned i = 0; i < crashes; ++i) {
    if (random_.chance(0.5)) schedule_kill(soon);
  }
  if (random_.chance(0.3)) schedule_cut(soon);
  for (unsigned i = 0; disk_errors_ && i < 2; ++i) schedule_disk_errors(soon);
}

void SimEnsemble::calm() {
  stormy_ = false;
  network_.set_faults({});
  streams_.set_faults({});
  network_.heal();
  for (auto& machine : machines_) {
    machine->ill_until = {};
    // What could not be healed stays an error until then.
    if (machine->had_errors && machine->process) kill(*machine, "started anew after disk errors");
    if (!machine->process && !machine->gone && !machine->comes) boot(*machine);
  }
}

bool SimEnsemble::all_serving() const {
  return std::all_of(machines_.begin(), machines_.end(),
                     [](const auto& each) { return each->serving || each->gone || each->comes; });
}

rpc::Endpoint SimEnsemble::any_proxy(Random& random) const {
  std::vector<rpc::Endpoint> all, serving;
  for (const auto& machine : machines_) {
    if (machine->config.role != ServerRole::kProxy) continue;
    all.push_back(machine->front());
    if (machine->serving) serving.push_back(machine->front());
  }
  const auto& choice = serving.empty() ? all : serving;
  return choice[random.below(choice.size())];
}

Task<std::optional<std::string>> SimEnsemble::object_bytes(std::uint32_t server, FileId file,
                                                           std::uint64_t offset, std::size_t count) {
  Machine& on = machine(server);
  if (!on.serving) co_return std::nullopt;
  auto& node = dynamic_cast<storagenode::StorageServer&>(on.process->role()).node();
  Buffer bytes(count);
  auto read =
      co_await node.store.read({config_.volume.id, file, wire::ObjectKind::kFile}, offset, bytes.span());
  if (!read) co_return std::nullopt;
  co_return std::string(as_text(bytes.view().first(read->bytes)));
}

std::string SimEnsemble::small_files_left(const routing::RoutingTables& tables,
                                          const std::vector<FileId>& removed) {
  const std::size_t sites = tables.wire().sites[static_cast<std::size_t>(wire::Role::kSmallFile)].size();
  for (const auto& machine : machines_) {
    if (machine->config.role != ServerRole::kSmallFile) continue;
    const std::string& name = machine->config.name;
    if (!machine->serving) return name + " is away";
    auto& store = dynamic_cast<smallfile::SmallFileServer&>(machine->process->role()).store();
    for (std::uint32_t site = 0; site < sites; ++site) {
      if (tables.owns(machine->config.index, wire::Role::kSmallFile, SiteId{site})) continue;
      auto saved = store.with_record(SiteId{site}, FileId{}, 1);
      const auto* zone = store.checkpointer().zone(SiteId{site});
      if (!saved || !saved->files.empty() || !store.without_record({site}).empty())
        return fmt::format("{} has files of site {}", name, site);
      if (zone != nullptr && zone->end() > 0) return fmt::format("{} has room of site {}", name, site);
    }
    for (FileId file : removed) {
      if (store.stat(file))
        return fmt::format("{} has bytes of file {:#x}, which was removed", name, file.value);
    }
  }
  return "";
}

std::string SimEnsemble::left_at_coordinators(const routing::RoutingTables& tables) const {
  constexpr std::size_t kPieceKey = 16;  // docs/formats/block-map.md
  for (const auto& machine : machines_) {
    if (machine->config.role != ServerRole::kCoordinator) continue;
    if (!machine->serving) return machine->config.name + " is down";
    if (machine->process->metric("coordinator_open_intentions") > 0)
      return machine->config.name + " has open intentions";
    auto at = machine->process->store()->iterate("", std::string(kPieceKey + 1, '\xff'));
    for (at->seek(""); at->valid(); at->next()) {
      if (at->key().size() != kPieceKey) continue;
      const FileId file{load_be<std::uint64_t>(as_bytes(at->key()).data())};
      const SiteId site = tables.coordinator_site(file);
      if (!tables.owns(machine->config.index, wire::Role::kCoordinator, site)) {
        return fmt::format("{} has a piece of the map of file {:#x}, whose site {} is another's",
                           machine->config.name, file.value, site.value);
      }
    }
  }
  return "";
}

std::string SimEnsemble::missed_by_copies() const {
  for (const auto& machine : machines_) {
    if (machine->config.role != ServerRole::kCoordinator) continue;
    if (!machine->serving) return machine->config.name + " is down";
    if (const auto missing = machine->process->metric("coordinator_copies_missing_something"); missing > 0)
      return fmt::format("{} has {} copies that miss something", machine->config.name, missing);
  }
  return "";
}

std::vector<const storage::KvStore*> SimEnsemble::directory_stores() const {
  std::vector<const storage::KvStore*> stores;
  for (const auto& machine : machines_) {
    if (machine->config.role == ServerRole::kDirectory) stores.push_back(machine->process->store());
  }
  return stores;
}

}  // namespace slice::sim
