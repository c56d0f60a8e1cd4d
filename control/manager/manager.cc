#include "control/manager/manager.h"

#include <algorithm>
#include <utility>

namespace slice::manager {

Manager::Manager(service::ServiceContext& context)
    : context_(context),
      change_(context.loop),
      heard_(context.config.servers.size()),
      alive_gauge_(context.metrics.counter("manager_alive_processes")),
      drawn_gauge_(context.metrics.counter("manager_largest_verifier_drawn")) {}

Task<Status> Manager::start() {
  auto loaded = co_await load_state(context_.disk);
  ManagerState next;
  if (loaded) {
    SLICE_CO_RETURN_IF_ERROR(check_volume(context_.config, loaded->volume));
    auto tables = reconcile(context_.config, loaded->tables);
    if (!tables) co_return fail(std::move(tables).error());
    next = {.drawn = loaded->drawn, .volume = loaded->volume, .tables = std::move(*tables)};
    if (next.tables.generation != loaded->tables.generation) {
      log_info("the configuration changed: generation {} is published", next.tables.generation.value);
    }
  } else if (loaded.error().code == Errc::kNotFound) {
    next.volume = context_.config.volume;
    next.tables = routing::RoutingTables::initial(context_.config);
    next.tables.generation = Generation{1};
    log_info("first start: generation 1 is published");
  } else {
    co_return fail(std::move(loaded).error());
  }
  auto lock = co_await change_.lock();
  if (Status saved = co_await adopt(std::move(next)); !saved) co_return saved;
  watch();
  co_return Status{};
}

Task<void> Manager::stop() {
  stopped_ = true;
  co_return;
}

std::string Manager::detail() const {
  return fmt::format("{} of {} processes alive", count_alive(), heard_.size());
}

Task<rpc::Outcome> Manager::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.internal) co_return rpc::Outcome::kDenied;
  switch (static_cast<wire::ManagerProcedure>(call.procedure)) {
    case wire::ManagerProcedure::kNull:
      co_return rpc::Outcome::kReply;
    case wire::ManagerProcedure::kHeartbeat:
      co_return co_await heartbeat(call, results);
    case wire::ManagerProcedure::kDrawVerifier:
      co_return co_await draw(call, results);
    case wire::ManagerProcedure::kGetTables:
      if (!call.arguments.empty()) co_return rpc::Outcome::kGarbage;
      encode(results, state_.tables);
      co_return rpc::Outcome::kReply;
    case wire::ManagerProcedure::kMembers:
      if (!call.arguments.empty()) co_return rpc::Outcome::kGarbage;
      encode(results, members());
      co_return rpc::Outcome::kReply;
  }
  co_return rpc::Outcome::kNoProcedure;
}

Task<rpc::Outcome> Manager::heartbeat(const rpc::Call& call, rpc::XdrWriter& results) {
  wire::HeartbeatArgs args;
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  if (args.server < heard_.size()) {
    Heard& heard = heard_[args.server];
    const std::string& name = context_.config.servers[args.server].name;
    if (!alive(heard) || heard.last.pid != args.pid) {
      log_info("{} is alive pid={} state={} generation={}", name, args.pid, args.state,
               args.generation.value);
    }
    heard = {.last = args, .at = context_.loop.now()};
  } else if (unknown_log_.allow()) {
    log_warning("a heartbeat of server {}, of which this configuration knows nothing", args.server);
  }
  co_await catch_up(args);
  encode(results,
         wire::HeartbeatResult{.generation = state_.tables.generation, .largest_drawn = state_.drawn});
  co_return rpc::Outcome::kReply;
}

Task<rpc::Outcome> Manager::draw(const rpc::Call& call, rpc::XdrWriter& results) {
  wire::DrawVerifierArgs args;
  if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  auto lock = co_await change_.lock();
  ManagerState next = state_;
  ++next.drawn.value;
  if (Status saved = co_await adopt(std::move(next)); !saved) {
    log_error("a verifier cannot be drawn: {}", saved.error().message);
    co_return rpc::Outcome::kError;
  }
  encode(results, wire::DrawVerifierResult{state_.drawn});
  co_return rpc::Outcome::kReply;
}

Task<void> Manager::catch_up(const wire::HeartbeatArgs& args) {
  auto behind = [&] {
    return args.largest_seen > state_.drawn || args.generation > state_.tables.generation;
  };
  if (!behind()) co_return;
  auto lock = co_await change_.lock();
  if (!behind()) co_return;
  log_warning(
      "this manager's state is older than what server {} has: verifier {} here, {} there; generation {} "
      "here, {} there; going on behind the larger ones",
      args.server, state_.drawn.value, args.largest_seen.value, state_.tables.generation.value,
      args.generation.value);
  ManagerState next = state_;
  next.drawn = std::max(next.drawn, args.largest_seen);
  if (args.generation > next.tables.generation)
    next.tables.generation = Generation{args.generation.value + 1};
  if (Status saved = co_await adopt(std::move(next)); !saved) {
    log_error("the state cannot be kept: {}", saved.error().message);
  }
}

Task<Status> Manager::adopt(ManagerState next) {
  auto tables = routing::RoutingTables::make(context_.config, next.tables);
  if (!tables) co_return fail(std::move(tables).error());
  SLICE_CO_RETURN_IF_ERROR(co_await save_state(context_.disk, next));
  state_ = std::move(next);
  drawn_gauge_.set(state_.drawn.value);
  if (context_.tables.get()->generation() != state_.tables.generation)
    context_.tables.set(std::move(*tables));
  co_return Status{};
}

wire::MembersResult Manager::members() const {
  wire::MembersResult result;
  result.generation = state_.tables.generation;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    wire::Member member;
    member.entry = state_.tables.servers[i];
    member.last = heard_[i].last;
    member.last.server = member.entry.server;
    member.alive = alive(heard_[i]);
    Duration age = heard_[i].at ? context_.loop.now() - *heard_[i].at : Duration::max();
    member.age_ms =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(age).count());
    result.members.push_back(std::move(member));
  }
  return result;
}

bool Manager::alive(const Heard& heard) const {
  return heard.at && context_.loop.now() - *heard.at <= kPatience;
}

std::size_t Manager::count_alive() const {
  return static_cast<std::size_t>(
      std::count_if(heard_.begin(), heard_.end(), [this](const Heard& heard) { return alive(heard); }));
}

// Says once of each process that it fell silent.
void Manager::watch() {
  if (stopped_) return;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (!heard_[i].at || alive(heard_[i]) || std::exchange(heard_[i].said_dead, true)) continue;
    log_warning("{} has been silent for {} s", context_.config.servers[i].name,
                std::chrono::duration_cast<std::chrono::seconds>(kPatience).count());
  }
  alive_gauge_.set(count_alive());
  context_.loop.after(std::chrono::seconds(1), [this] { watch(); });
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kManager,
          .make = [](service::ServiceContext& context) { return std::make_unique<Manager>(context); }};
}

}  // namespace slice::manager
