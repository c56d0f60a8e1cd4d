#include "tests/sim/ensemble.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dirserver/cells/cells.h"
#include "dirserver/server.h"
#include "service/internal_program.h"
#include "service/testing/sample_config.h"
#include "smallfile/server.h"
#include "storagenode/server.h"
#include "tests/sim/machine.h"
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
// Where servers have two hosts: long enough for the other one to take over, now and then.
constexpr Duration kLongestWithStandby = std::chrono::seconds(12);
constexpr Duration kLargestJump = std::chrono::hours(1);  // of a wall clock
constexpr double kDiskLost = 0.3;                         // with a host that dies
constexpr double kManagerForgets = 0.3;                   // of ensembles with backing sets
constexpr double kRegistryFaults = 0.05;                  // of requests of several managers, in storms
constexpr QuotaId kClientsUser{QuotaKind::kUser, 0}, kClientsGroup{QuotaKind::kGroup, 0};
constexpr std::uint64_t kFarAway = std::uint64_t{1} << 50;
constexpr std::uint32_t kStandbyAddresses = 100 << 8;  // behind the servers' own

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

// By the attribute cells of a directory server.
QuotaUsage usage_stored(const storage::KvStore& store) {
  QuotaUsage usage;
  auto at = store.iterate("", std::string(8, '\xff'));
  for (at->seek(""); at->valid(); at->next()) {
    if (dirserver::kind_of_key(at->key()) != dirserver::CellKind::kAttributes) continue;
    const auto cell = dirserver::decode_attribute_cell(dirserver::site_of_key(at->key()), at->value());
    if (!cell) continue;  // what is stored is looked at elsewhere (store_check.h)
    usage.space += dirserver::used_by(*cell);
    ++usage.files;
  }
  return usage;
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
  for (unsigned i = 2; i <= options.managers; ++i) {
    service::testing::add_server(config, "manager" + std::to_string(i), ServerRole::kManager);
    config.managers.etcd = {"http://registry"};
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
  for (ServerConfig& each : config.servers) {
    const bool backed = each.role == ServerRole::kDirectory || each.role == ServerRole::kSmallFile ||
                        each.role == ServerRole::kCoordinator;
    if (!backed || options.backing == 0) continue;
    each.backing_copies = options.backing;
    each.places = {each.address, each.address.v4() + kStandbyAddresses};
  }
  return config;
}

rpc::Endpoint SimEnsemble::Machine::front() const {
  return {kFirstFront + number, config.port};
}

void give_standbys(EnsembleOptions& options) {
  options.managers = std::max(options.managers, 1u);
  options.backing = 2;
  options.proxies = std::max(options.proxies, 2u);
  options.storage_nodes = std::max(options.storage_nodes, 3u);
}

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
      managers_count_(options.managers),
      disk_errors_(options.disk_errors),
      moves_(options.moves),
      backing_(options.backing),
      manager_forgets_(backing_ > 0 && !moves_ && managers_count_ == 1 &&
                       Random(options.seed).fork("manager").chance(kManagerForgets)),
      broken_(options.broken),
      victims_(options.victims),
      dangerous_(options.dangerous),
      config_(make_config(options)),
      birth_config_(config_),
      settings_(settings_of(config_)),
      random_(options.seed),
      trace_(loop_, std::move(print)),
      network_(loop_, random_.fork("network"), trace_),
      streams_(loop_, network_, Random(options.seed).fork("streams"), trace_),
      registry_(loop_),
      handles_(config_) {
  const Quota far{.space = {.soft = kFarAway}, .files = {.soft = kFarAway}};
  if (options.quotas) settings_.quotas = {{kClientsUser, far}, {kClientsGroup, far}};
  registry_.forgets_who_leads = broken_ == BrokenFencing::kManagers;
  birth_config_.servers.resize(config_.servers.size() - options.later);
  tables_ = routing::RoutingTables::make(config_, routing::RoutingTables::initial(birth_config_)).value();
  std::uint32_t fronts = 0;
  for (const ServerConfig& server : config_.servers) {
    bool proxy = server.role == ServerRole::kProxy;
    if (proxy && proxies_ == 0) continue;
    if (server.role == ServerRole::kManager && !has_manager()) {
      draws_ = std::make_unique<Draws>(*this, rpc::Endpoint{server.address, server.port});
      continue;
    }
    add_machine(server, server.name);
    if (proxy) machines_.back()->number = fronts++;
    machines_.back()->comes = server.index >= birth_config_.servers.size();
    if (disk_errors_ && server.role == ServerRole::kStorage) let_disk_fail(*machines_.back());
    if (server.places.empty()) continue;
    ServerConfig elsewhere = server;
    elsewhere.address = server.places.back();
    add_machine(elsewhere, server.name + "'");
  }
}

void SimEnsemble::add_machine(const ServerConfig& server, std::string name) {
  machines_.push_back(std::make_unique<Machine>(loop_, server, random_.next()));
  machines_.back()->name = std::move(name);
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
  trace_.note("{} starts", machine.name);
  machine.ill_until = {};
  machine.had_errors = false;
  machine.process = std::make_unique<Process>(*this, machine);
  spawn([](SimEnsemble& self, Machine& on, Process& process) -> Task<void> {
    slice::Status started = co_await process.start();
    if (!process.alive()) co_return;
    if (started) {
      self.trace_.note("{} serves", on.name);
      on.serving = true;
    } else if (on.backed()) {
      self.kill(on, "does not start: " + started.error().message);  // and is started again, as by systemd
    } else {
      self.failure_ = fmt::format("{} does not start: {}", on.name, started.error().message);
    }
  }(*this, machine, *machine.process));
}

void SimEnsemble::kill(Machine& machine, std::string_view why) {
  ++kills_;
  trace_.note("{} dies: {}", machine.name, why);
  machine.serving = false;
  const std::uint64_t survivors = random_.below(kMostSurvivors), seed = random_.next();
  machine.process->die(survivors, seed, has_proxies() && random_.chance(kHostDies));
  dead_.push_back(std::move(machine.process));
  const bool short_absence = !machine.backed() || random_.chance(0.5);
  const bool forgets = manager_forgets_ && machine.config.role == ServerRole::kManager;
  if ((machine.backed() || forgets) && random_.chance(kDiskLost)) {
    trace_.note("{} loses its disk", machine.name);
    machine.lose_disk();
  }
  loop_.after(random_.between(kShortestAbsence, short_absence ? kLongestAbsence : kLongestWithStandby),
              [this, &machine] {
                if (!machine.process && !machine.gone) boot(machine);
              });
}

SimEnsemble::Machine& SimEnsemble::machine(std::uint32_t server) {
  return **std::find_if(machines_.begin(), machines_.end(),
                        [&](const auto& each) { return each->config.index == server; });
}

SimEnsemble::Machine* SimEnsemble::serving_machine(std::uint32_t server) const {
  auto found = std::find_if(machines_.begin(), machines_.end(),
                            [&](const auto& each) { return each->config.index == server && each->serving; });
  return found == machines_.end() ? nullptr : found->get();
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
    const bool forgets = manager_forgets_ && machine.config.role == ServerRole::kManager;
    if (any || moves_too || forgets || shares_state(machine) || machine.config.role == victims_)
      return machine;
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
    const bool one_way = backing_ > 0 && random_.chance(0.5);
    const auto ways = one_way ? SimNetwork::Ways::kThere : SimNetwork::Ways::kBoth;
    Duration time = random_.between(kShortestAbsence, backing_ > 0 ? kLongestWithStandby : kLongestAbsence);
    if (&one == &other || (backing_ > 0 && random_.chance(0.5))) {
      network_.isolate(one.endpoint(), time, ways);
    } else {
      network_.cut(one.endpoint(), other.endpoint(), time, ways);
    }
  });
}

// By SIGSTOP, and goes on.
void SimEnsemble::schedule_stop(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_) return;
    Machine& machine = any_machine();
    // A storage node goes on with what it was asked for long ago: others have its part by then.
    const bool replaceable =
        machine.backed() || shares_state(machine) || machine.config.role == ServerRole::kStorage;
    if (!replaceable || !machine.process || machine.process->stopped()) return;
    const Duration time = random_.between(kShortestAbsence, kLongestWithStandby);
    trace_.note("{} is stopped for {} ms", machine.name, in_milliseconds(time));
    machine.process->stop_for(time);
  });
}

// By SIGTERM.
void SimEnsemble::schedule_end(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_) return;
    Machine& machine = any_machine();
    if (!machine.serving || !machine.process) return;
    trace_.note("{} is to end", machine.name);
    machine.process->terminate("stopped");
  });
}

// Somebody sets it.
void SimEnsemble::schedule_clock(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_) return;
    Machine& machine = any_machine();
    // Whose state is lost goes on behind the wall clock (docs/operations.md).
    if (manager_forgets_ && machine.config.role == ServerRole::kManager) return;
    machine.wall_ahead = random_.between(-kLargestJump, kLargestJump);
    trace_.note("the clock of {} jumps: {} ms ahead", machine.name,
                machine.wall_ahead / std::chrono::milliseconds(1));
    if (machine.process) machine.process->set_wall_ahead(machine.wall_ahead);
  });
}

bool SimEnsemble::shares_state(const Machine& machine) const {
  return managers_count_ > 1 && machine.config.role == ServerRole::kManager;
}

// A manager does not reach what they share.
void SimEnsemble::schedule_silence(Duration within) {
  loop_.after(random_.between({}, within), [this, storm = storms_] {
    if (!stormy_ || storm != storms_) return;
    Machine& machine = any_machine();
    if (!shares_state(machine)) return;
    const Duration time = random_.between(kShortestAbsence, kLongestWithStandby);
    trace_.note("{} does not reach the registry for {} ms", machine.name, in_milliseconds(time));
    machine.silent_until = loop_.now() + time;
  });
}

manager::testing::MemoryRegistry::Fault SimEnsemble::draw_registry_fault(const Machine& machine) {
  using Fault = manager::testing::MemoryRegistry::Fault;
  if (loop_.now() < machine.silent_until) return Fault::kLost;
  if (!stormy_ || !random_.chance(kRegistryFaults)) return Fault::kNone;
  constexpr std::array kFaults{Fault::kLost, Fault::kUnanswered, Fault::kLate};
  return kFaults[random_.below(kFaults.size())];
}

// Reads, writes and syncs fail now and then while it is ill; a sync that fails loses what it was to make
// durable.
void SimEnsemble::let_disk_fail(Machine& machine) {
  using Operation = storage::MemoryDisk::Operation;
  machine.disk().set_fault(
      [this, &machine](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
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
  if (random_.chance(0.3)) schedule_end(soon);
  if (random_.chance(backing_ > 0 ? 0.7 : 0.3)) schedule_cut(soon);
  if ((backing_ > 0 || managers_count_ > 1) && random_.chance(0.7)) schedule_stop(soon);
  if (managers_count_ > 1 && random_.chance(0.7)) schedule_silence(soon);
  if (backing_ > 0 && random_.chance(0.3)) schedule_clock(soon);
  for (unsigned i = 0; disk_errors_ && i < 2; ++i) schedule_disk_errors(soon);
}

void SimEnsemble::calm() {
  stormy_ = false;
  network_.set_faults({});
  streams_.set_faults({});
  network_.heal();
  for (auto& machine : machines_) {
    machine->ill_until = machine->silent_until = {};
    // What could not be healed stays an error until then.
    if (machine->had_errors && machine->process) kill(*machine, "started anew after disk errors");
    if (!machine->process && !machine->gone && !machine->comes) boot(*machine);
  }
}

bool SimEnsemble::all_serving() const {
  return std::all_of(machines_.begin(), machines_.end(), [this](const auto& each) {
    return each->gone || each->comes || serving_machine(each->config.index) != nullptr;
  });
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

rpc::Endpoint SimEnsemble::endpoint_of(std::uint32_t server) const {
  if (const Machine* machine = serving_machine(server)) return machine->endpoint();
  return {config_.servers[server].address, config_.servers[server].port};
}

Task<std::optional<std::string>> SimEnsemble::object_bytes(std::uint32_t server, FileId file,
                                                           std::uint64_t offset, std::size_t count) {
  Machine* on = serving_machine(server);
  if (on == nullptr) co_return std::nullopt;
  auto& node = dynamic_cast<storagenode::StorageServer&>(on->process->role()).node();
  Buffer bytes(count);
  auto read =
      co_await node.store.read({config_.volume.id, file, wire::ObjectKind::kFile}, offset, bytes.span());
  if (!read) co_return std::nullopt;
  co_return std::string(as_text(bytes.view().first(read->bytes)));
}

std::vector<const ServerConfig*> SimEnsemble::servers_of(ServerRole role) const {
  std::vector<const ServerConfig*> servers;
  for (const ServerConfig& each : config_.servers) {
    if (each.role == role) servers.push_back(&each);
  }
  return servers;
}

std::string SimEnsemble::small_files_left(const routing::RoutingTables& tables,
                                          const std::vector<FileId>& removed) {
  const std::size_t sites = tables.wire().sites[static_cast<std::size_t>(wire::Role::kSmallFile)].size();
  for (const ServerConfig* server : servers_of(ServerRole::kSmallFile)) {
    const std::string& name = server->name;
    const Machine* machine = serving_machine(server->index);
    if (machine == nullptr) return name + " is away";
    auto& store = dynamic_cast<smallfile::SmallFileServer&>(machine->process->role()).store();
    for (std::uint32_t site = 0; site < sites; ++site) {
      if (tables.owns(server->index, wire::Role::kSmallFile, SiteId{site})) continue;
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
  for (const ServerConfig* server : servers_of(ServerRole::kCoordinator)) {
    const Machine* machine = serving_machine(server->index);
    if (machine == nullptr) return server->name + " is down";
    if (machine->process->metric("coordinator_open_intentions") > 0)
      return server->name + " has open intentions";
    auto at = machine->process->store()->iterate("", std::string(kPieceKey + 1, '\xff'));
    for (at->seek(""); at->valid(); at->next()) {
      if (at->key().size() != kPieceKey) continue;
      const FileId file{load_be<std::uint64_t>(as_bytes(at->key()).data())};
      const SiteId site = tables.coordinator_site(file);
      if (!tables.owns(server->index, wire::Role::kCoordinator, site)) {
        return fmt::format("{} has a piece of the map of file {:#x}, whose site {} is another's",
                           server->name, file.value, site.value);
      }
    }
  }
  return "";
}

std::string SimEnsemble::missed_by_copies() const {
  for (const ServerConfig* server : servers_of(ServerRole::kCoordinator)) {
    const Machine* machine = serving_machine(server->index);
    if (machine == nullptr) return server->name + " is down";
    if (const auto missing = machine->process->metric("coordinator_copies_missing_something"); missing > 0)
      return fmt::format("{} has {} copies that miss something", server->name, missing);
  }
  return "";
}

// All objects are the clients' user's and group's.
std::string SimEnsemble::miscounted_usage() const {
  for (const ServerConfig* server : servers_of(ServerRole::kDirectory)) {
    const Machine* machine = serving_machine(server->index);
    if (machine == nullptr) return server->name + " is down";
    const dirserver::UsageCount& usage =
        dynamic_cast<dirserver::DirectoryServer&>(machine->process->role()).usage();
    if (!usage.counted()) return server->name + " has not counted usage";
    const QuotaUsage stored = usage_stored(*machine->process->store());
    for (const QuotaId whose : {kClientsUser, kClientsGroup}) {
      const QuotaUsage counted = usage.of(whose);
      if (counted == stored) continue;
      return fmt::format("{} counts {} bytes of {} objects of {} {}, and has {} of {}", server->name,
                         counted.space, counted.files, quota_kind_name(whose.kind), whose.id, stored.space,
                         stored.files);
    }
  }
  return "";
}

std::vector<const storage::KvStore*> SimEnsemble::directory_stores() const {
  std::vector<const storage::KvStore*> stores;
  for (const ServerConfig* server : servers_of(ServerRole::kDirectory)) {
    stores.push_back(serving_machine(server->index)->process->store());
  }
  return stores;
}

}  // namespace slice::sim
