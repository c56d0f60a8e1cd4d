#include "control/manager/manager.h"

#include <algorithm>
#include <utility>

#include "control/manager/configuration.h"
#include "control/manager/members.h"
#include "service/internal_call.h"
#include "service/manager_session.h"
#include "service/settings_keeper.h"
#include "storage/durable_file.h"
#include "wire/coordinator.h"
#include "wire/layout.h"

namespace slice::manager {
namespace {

constexpr Duration kAnnounceTimeout = std::chrono::seconds(2);
constexpr Duration kEmptiedTimeout = std::chrono::seconds(2);  // who asks waits for it

}  // namespace

Manager::Manager(service::ServiceContext& context, StateStore& store)
    : InternalProgram(wire::kManagerProgram),
      context_(context),
      store_(store),
      change_(context.loop),
      state_{.drawn = {},
             .volume = {},
             .tables = {.generation = {}, .servers = routing::RoutingTables::initial(context.config).servers},
             .recorded = {}},
      records_(context.config, entries_),
      moves_(context, hooks_for_moves()),
      backing_sets_(context.metrics, hooks_for_backing()),
      failovers_(context, hooks_for_failovers()),
      settings_(
          context, store,
          {.members = entries_, .alive = [this](std::uint32_t server) { return alive(heard_.at(server)); }}),
      quotas_(context.loop, context.metrics,
              {.settings = context.settings, .tables = state_.tables, .change = settings_.changer()}),
      trees_({.settings = context.settings, .change = settings_.changer(), .random = context.random}),
      address_(context.loop, std::chrono::milliseconds(context.config.proxy.address_patience_ms), entries_,
               context.metrics),
      shares_(context.loop, std::chrono::milliseconds(context.config.proxy.address_patience_ms), entries_,
              context.metrics),
      heard_(entries_.size()),
      alive_gauge_(context.metrics.gauge("manager_alive_processes", "processes heard of within 5 s")),
      drawn_gauge_(context.metrics.gauge("manager_largest_verifier_drawn",
                                         "the last number of the sequence of write verifiers")),
      offers_taken_(context.metrics.counter(
          "manager_offers_taken_total",
          "tables that processes offered and that could be used: this manager had none, or older ones")),
      offers_refused_(
          context.metrics.counter("manager_offers_refused_total",
                                  "tables that processes offered and that do not fit the configuration")),
      differing_(context.metrics.counter(
          "manager_differing_tables_total",
          "heartbeats of processes with other tables than the manager's under the same generation")),
      conflicts_(context.metrics.counter(
          "manager_record_conflicts_total",
          "records of sites that another server has a record of as well: the tables stay as they are")),
      configurations_given_(context.metrics.counter(
          "manager_configurations_given_total",
          "times that a host which is to become one of the ensemble's got the configuration")),
      configurations_refused_(
          context.metrics.counter("manager_configurations_refused_total",
                                  "the same, where the manager's file could not be used any more")) {
  using Procedure = wire::ManagerProcedure;
  on<wire::HeartbeatArgs>(Procedure::kHeartbeat, [this](const auto& args) { return heartbeat(args); });
  on<wire::OfferTablesArgs>(Procedure::kOfferTables, [this](const auto& args) { return offer(args); });
  on<wire::ClaimArgs>(Procedure::kClaim,
                      [this](const auto& args, rpc::XdrWriter& results) { return claim(args, results); });
  on<wire::ChangeServerArgs>(Procedure::kChangeServer,
                             [this](const auto& args) { return change_server(args); });
  on<wire::DrawVerifierArgs>(Procedure::kDrawVerifier,
                             [this](const auto&, rpc::XdrWriter& results) { return draw(results); });
  on<service::NoArguments>(Procedure::kGetTables,
                           [this](const auto&, rpc::XdrWriter& results) { return tables(results); });
  on<wire::StartMovesArgs>(Procedure::kMoveSites, [this](const auto& args) { return moves_.start(args); });
  on<wire::ChangeMovesArgs>(Procedure::kChangeMoves,
                            [this](const auto& args) { return moves_.change(args); });
  on<service::NoArguments>(Procedure::kMoves, [this](const auto&) { return moves_.list(); });
  on<service::NoArguments>(Procedure::kMembers, [this](const auto&) { return members(); });
  on<service::NoArguments>(Procedure::kGetConfiguration, [this](const auto&) {
    wire::ConfigurationResult result = give_configuration(context_.config, context_.loop.wall());
    (result.refused.empty() ? configurations_given_ : configurations_refused_).add();
    return result;
  });
  on<wire::HoldAddressArgs>(Procedure::kHoldAddress, [this](const auto& args) { return address_.ask(args); });
  on<wire::ShareClientsArgs>(Procedure::kShareClients,
                             [this](const auto& args) { return shares_.ask(args); });
  on<wire::QuotaReportArgs>(Procedure::kQuotaReport,
                            [this](const auto& args) { return quotas_.report(args); });
  on<wire::ChangeQuotaArgs>(Procedure::kChangeQuota,
                            [this](const auto& args) { return quotas_.change(args); });
  on<wire::ChangeTreeArgs>(Procedure::kChangeTree, [this](const auto& args) { return trees_.change(args); });
  on<wire::QuotaUsageArgs>(Procedure::kQuotaUsage, [this](const auto& args) { return quotas_.usage(args); });
  on<service::NoArguments>(Procedure::kGetState, [this](const auto&) { return files_of_state(); });
  on<wire::BackingClaimArgs>(Procedure::kBackingClaim, [this](const auto& args) {
    failovers_.claims(args.server, args.instance);
    return backing_sets_.claim(args);
  });
  on<wire::BackingMembersArgs>(Procedure::kBackingMembers, [this](const auto& args, rpc::XdrWriter& results) {
    return change_backing_members(args, results);
  });
  on<wire::BackingKeepArgs>(Procedure::kBackingKeep,
                            [this](const auto& args) { return backing_sets_.keep(args); });
  on<wire::BackingAdoptArgs>(Procedure::kBackingAdopt,
                             [this](const auto& args) { return backing_sets_.adopt(args); });
  on<wire::BackingSpareArgs>(Procedure::kBackingSpare,
                             [this](const auto& args) { return backing_sets_.spare(args); });
  on<service::NoArguments>(Procedure::kBackingSets, [this](const auto&) { return backing_sets_.list(); });
  on<wire::StandbyArgs>(Procedure::kStandby, [this](const auto& args, rpc::XdrWriter& results) {
    return failovers_.standby(args, results);
  });
  on<wire::FailoverArgs>(Procedure::kFailover,
                         [this](const auto& args) { return failovers_.failover(args); });
  on<service::NoArguments>(Procedure::kStandbys, [this](const auto&) { return failovers_.list(); });
}

Task<Status> Manager::start() {
  SLICE_CO_RETURN_IF_ERROR(co_await settings_.start());
  auto loaded = co_await load_state(store_);
  if (loaded) {
    SLICE_CO_RETURN_IF_ERROR(check_volume(context_.config, loaded->volume));
    for (const ServerConfig& server : context_.config.servers) {
      if (server.role == ServerRole::kRemoved || wire::find_member(loaded->tables, server.name) != nullptr)
        continue;
      log_warning("server '{}' of {} is no member of the ensemble (slicectl server add)", server.name,
                  context_.config.path);
    }
    auto lock = co_await change_.lock();
    const wire::Tables known = loaded->tables;
    if (Status saved = co_await adopt(std::move(*loaded)); !saved) {
      co_await keep_copy(known);  // by which the next start knows the members
      co_return saved;
    }
  } else if (loaded.error().code == Errc::kNotFound) {
    survey_.emplace(context_.config, entries_, records_);
    waits_for_ = "until every server has told what it holds";
    log_info("there is no {}: no tables are dealt before every server has told what it holds", kStateFile);
  } else {
    co_return fail(std::move(loaded).error());
  }
  watch();
  moves_.run();
  failovers_.run();
  co_return Status{};
}

Moves::Hooks Manager::hooks_for_moves() {
  return {.state = state_,
          .change = [this](StateChange change_it) { return change(std::move(change_it)); },
          .moved = [this](const wire::SiteMove& move,
                          Generation generation) { records_.moved(move, generation); },
          .alive = [this](std::uint32_t server) { return alive(heard_.at(server)); },
          .surveys = [this] { return survey_.has_value(); }};
}

BackingSets::Hooks Manager::hooks_for_backing() {
  return {.state = state_,
          .change = [this](StateChange change_it) { return change(std::move(change_it)); },
          .alive = [this](std::uint32_t server) { return alive(heard_.at(server)); },
          .is_twice = [this](std::uint32_t server) { return is_twice(server); },
          .ask_nodes =
              [this](std::uint32_t server) { return ask_for_set(context_.channel, state_.tables, server); },
          .is_to_serve = [this](std::uint32_t server,
                                std::uint64_t instance) { return failovers_.is_to_serve(server, instance); }};
}

Failovers::Hooks Manager::hooks_for_failovers() {
  return {.state = state_,
          .change = [this](StateChange change_it) { return change(std::move(change_it)); },
          .tell = [this](rpc::Endpoint process) { tell(process); },
          .surveys = [this] { return survey_.has_value(); }};
}

Task<Status> Manager::change(StateChange change_it) {
  auto lock = co_await change_.lock();
  if (survey_) co_return fail(Errc::kUnavailable, "the manager is {}", state());
  ManagerState next = state_;
  SLICE_CO_RETURN_IF_ERROR(change_it(next));
  co_return co_await adopt(std::move(next));
}

void Manager::stop() {
  stopped_ = true;
  moves_.stop();
  failovers_.stop();
}

std::string Manager::detail() const {
  const auto removed = std::count_if(entries_.begin(), entries_.end(), [](const wire::ServerEntry& each) {
    return each.role == wire::Role::kRemoved;
  });
  return fmt::format("{} of {} processes alive", count_alive(),
                     heard_.size() - static_cast<std::size_t>(removed));
}

Task<rpc::Outcome> Manager::tables(rpc::XdrWriter& results) {
  if (survey_) co_return rpc::Outcome::kError;
  encode(results, state_.tables);
  co_return rpc::Outcome::kReply;
}

Task<wire::StateResult> Manager::files_of_state() {
  auto lock = co_await change_.lock();  // nobody replaces them meanwhile
  wire::StateResult result;
  for (const char* name : {kStateFile, service::kSettingsFile}) {
    auto contents = co_await store_.read(name);
    if (contents && contents->size() > wire::kMaxStateBytes) {
      log_warning("a backup lacks {}: {} bytes; at most {} are expected", name, contents->size(),
                  wire::kMaxStateBytes);
    } else if (contents) {
      result.files.push_back({name, std::string(as_text(contents->view()))});
    } else if (contents.error().code != Errc::kNotFound) {
      log_warning("a backup lacks {}: {}", name, contents.error().message);
    }
  }
  co_return result;
}

Task<wire::HeartbeatResult> Manager::heartbeat(const wire::HeartbeatArgs& args) {
  if (is_member(args.server) && entries_[args.server].lost.value != 0) {
    if (unknown_log_.allow())
      log_warning("a heartbeat of {}, which was declared lost: it is told to stop",
                  entries_[args.server].name);
  } else if (is_member(args.server)) {
    note(args);
    failovers_.heard(args);
  } else if (unknown_log_.allow()) {
    log_warning("a heartbeat of server {}, which {}", args.server,
                args.server < entries_.size()
                    ? fmt::format("was removed: it was {}", entries_[args.server].name)
                    : "is no member");
  }
  settings_.heard(args);
  const bool wanted = wants_tables(args), claim = wants_record(args);
  if (survey_) {
    co_await settle();
  } else {
    co_await catch_up(args);
  }
  co_return wire::HeartbeatResult{.generation = state_.tables.generation,
                                  .largest_drawn = state_.drawn,
                                  .offer = wanted,
                                  .claim = claim,
                                  .settings = settings_.generation()};
}

void Manager::note(const wire::HeartbeatArgs& args) {
  Heard& heard = heard_[args.server];
  if (!alive(heard) || heard.last.pid != args.pid) {
    log_info("{} is alive pid={} state={} generation={}", entries_[args.server].name, args.pid, args.state,
             args.generation.value);
  }
  const bool same = heard.last.pid == args.pid && heard.last.started_ns == args.started_ns;
  heard = {.last = args, .at = context_.loop.now(), .other_at = same ? heard.other_at : heard.at};
}

// One that has ended is one no more after the time in which each would have been heard again.
bool Manager::is_twice(std::uint32_t server) const {
  const Heard& heard = heard_.at(server);
  return heard.other_at &&
         context_.loop.now() - *heard.other_at <= std::chrono::milliseconds(wire::kMissedHeartbeatMs);
}

// Not refused before it is known what there is: an owner that is refused ends.
Task<rpc::Outcome> Manager::change_backing_members(const wire::BackingMembersArgs& args,
                                                   rpc::XdrWriter& results) {
  if (survey_) co_return rpc::Outcome::kError;
  encode(results, co_await backing_sets_.set_members(args));
  co_return rpc::Outcome::kReply;
}

Task<rpc::Outcome> Manager::draw(rpc::XdrWriter& results) {
  auto lock = co_await change_.lock();
  if (survey_) co_return rpc::Outcome::kError;  // which ones were drawn is not known
  ManagerState next = state_;
  ++next.drawn.value;
  if (Status saved = co_await adopt(std::move(next)); !saved) {
    log_error("a verifier cannot be drawn: {}", saved.error().message);
    co_return rpc::Outcome::kError;
  }
  encode(results, wire::DrawVerifierResult{state_.drawn});
  co_return rpc::Outcome::kReply;
}

bool Manager::wants_tables(const wire::HeartbeatArgs& args) {
  if (!is_member(args.server)) return false;
  if (survey_) {
    survey_->heard(args, context_.loop.now());
    return survey_->wants(args);
  }
  if (args.holding != wire::Holding::kTables) return false;
  const wire::Tables& own = state_.tables;
  if (args.generation == own.generation && args.tables_digest != digest_) {
    differing_.add();
    if (differ_log_.allow()) {
      log_error("{} has other tables of generation {} than this manager", entries_[args.server].name,
                own.generation.value);
    }
  }
  return args.generation > own.generation;
}

bool Manager::wants_record(const wire::HeartbeatArgs& args) {
  if (!is_member(args.server) || entries_[args.server].lost.value != 0) return false;
  records_.heard(args.server, args.record_digest);
  if (!records_.wants(args.server)) return false;
  const std::string& name = entries_[args.server].name;
  return survey_ || !state_.recorded.contains(name) ||
         args.record_digest != wire::digest(wire::sites_of(state_.tables, name));
}

Task<rpc::Outcome> Manager::claim(const wire::ClaimArgs& args, rpc::XdrWriter& results) {
  auto lock = co_await change_.lock();
  if (!is_member(args.server) || (survey_ && !args.has_record)) co_return rpc::Outcome::kError;
  if (!args.has_record) {
    encode(results, grant(args));
    co_return rpc::Outcome::kReply;
  }
  Status taken = records_.claimed(args);
  if (taken && !survey_) taken = co_await follow_record(args.server);
  if (!taken) {
    log_error("the record of {} is not taken: {}", entries_[args.server].name, taken.error().message);
    co_return rpc::Outcome::kError;
  }
  encode(results,
         wire::ClaimResult{.verdict = wire::ClaimVerdict::kTaken, .generation = state_.tables.generation});
  if (survey_) spawn(settle());
  co_return rpc::Outcome::kReply;
}

wire::ClaimResult Manager::grant(const wire::ClaimArgs& args) {
  const std::string& name = entries_[args.server].name;
  const auto sites = wire::sites_of(state_.tables, name);
  if (args.has_data || sites.empty() || !state_.recorded.contains(name)) {
    return {.verdict = wire::ClaimVerdict::kGrant, .generation = state_.tables.generation};
  }
  if (record_log_.allow()) {
    log_error("{} had {} sites, and has neither a record of them nor data: it may not serve", name,
              sites.size());
  }
  return {.verdict = wire::ClaimVerdict::kLost, .generation = state_.tables.generation};
}

Task<Status> Manager::follow_record(std::uint32_t server) {
  ManagerState next = state_;
  bool changed = next.recorded.insert(entries_[server].name).second;
  if (auto applied = records_.applied_to(state_.tables); !applied) {
    conflicts_.add();
    if (record_log_.allow()) log_error("the tables stay as they are: {}", applied.error().message);
  } else if (applied->generation != state_.tables.generation) {
    next.tables = std::move(*applied);
    log_warning("the record of {} says otherwise than this manager's tables: generation {} goes by it",
                entries_[server].name, next.tables.generation.value);
    changed = true;
  }
  changed = records_.note_started(next.tables) || changed;
  // A move gives sites away before the tables say so.
  const std::string missing = moves_.concerns(server) ? "" : records_.missing(next.tables);
  if (!missing.empty() && record_log_.allow()) {
    log_error("sites without a server that has them: {}", missing);
  }
  if (!changed) co_return Status{};
  co_return co_await adopt(std::move(next));
}

namespace {

// As operators read it in the log.
std::string said(const wire::ChangeServerArgs& args, const wire::ServerEntry& entry) {
  switch (args.change) {
    case wire::ServerChange::kAdd:
      return fmt::format("is a member at {}", rpc::to_string(entry.endpoint));
    case wire::ServerChange::kSet:
      return fmt::format("is at {} now, weight={} host={} rack={}", rpc::to_string(entry.endpoint),
                         entry.weight, entry.host, entry.rack);
    case wire::ServerChange::kDrain:
      return "is to have no sites";
    case wire::ServerChange::kUse:
      return "is in use again";
    case wire::ServerChange::kRemove:
      return "is no member any more";
    case wire::ServerChange::kLose:
      return "is lost, with all that it had";
  }
  return "?";
}

}  // namespace

// Stripes of files with a layout are where coordinators have put them, so they know.
Task<Result<std::vector<std::uint64_t>>> Manager::ask_emptied(std::string name) {
  const wire::Tables tables = state_.tables;
  std::vector<std::uint64_t> records;
  const wire::ServerEntry* known = wire::find_member(tables, name);
  const bool may_have = known != nullptr && (known->started || !wire::layout_sites_of(tables, name).empty());
  if (!may_have) co_return records;
  const wire::EmptiedArgs args{known->server, tables.generation};
  for (const wire::ServerEntry& each : tables.servers) {
    if (each.role != wire::Role::kCoordinator) continue;
    auto result = co_await service::internal_call<wire::EmptiedResult>(
        context_.channel, each.endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kEmptied,
        args, kEmptiedTimeout);
    if (!result)
      co_return fail(Errc::kUnavailable,
                     "{} cannot be removed: {} does not say whether stripes are left on it: {}", name,
                     each.name, result.error().message);
    if (result->status != nfs3::Status::kOk)
      co_return fail(
          Errc::kUnavailable,
          "{} cannot be removed: files with copies or block maps may have stripes on it, says {}: {}", name,
          each.name, result->left);
    records.push_back(result->record);
  }
  co_return records;
}

// Coordinator sites may go from one that is asked late to one that was asked early. All are asked twice: who
// has gained none from the first time to the second had none on their way when the last was asked the first
// time.
Task<Status> Manager::check_emptied(std::string name) {
  auto first = co_await ask_emptied(name);
  if (!first) co_return fail(std::move(first).error());
  auto second = co_await ask_emptied(name);
  if (!second) co_return fail(std::move(second).error());
  if (*first == *second) co_return Status{};
  co_return fail(Errc::kUnavailable, "{} cannot be removed now: coordinator sites are moving", name);
}

// One that lives would go on answering clients for as long as it does not hear of it.
Status Manager::check_silent(const std::string& name) const {
  const wire::ServerEntry* known = wire::find_member(state_.tables, name);
  if (known == nullptr || !alive(heard_.at(known->server))) return {};
  return fail(Errc::kInvalid, "{} is alive (slicectl server drain)", name);
}

Task<wire::ChangeServerResult> Manager::change_server(wire::ChangeServerArgs args) {
  const Generation before = state_.tables.generation;
  std::optional<wire::ServerEntry> was;
  Status changed{};
  if (args.change == wire::ServerChange::kLose) changed = check_silent(args.entry.name);
  const bool itself = args.entry.name == context_.self.name && context_.config.managers.shared();
  if (args.change == wire::ServerChange::kRemove && itself)
    changed = fail(Errc::kInvalid, "{} is the manager that leads: stop it first, so that another one does",
                   args.entry.name);
  if (changed && args.change == wire::ServerChange::kRemove) {
    ManagerState tried = state_;
    changed = change_members(context_.config, args, tried);
    if (changed) changed = co_await check_emptied(args.entry.name);
  }
  if (changed) {
    changed = co_await change([&](ManagerState& next) -> Status {
      if (const wire::ServerEntry* known = wire::find_member(next.tables, args.entry.name)) was = *known;
      // What coordinators have said is of the tables of then.
      if (args.change == wire::ServerChange::kRemove && next.tables.generation != before)
        return fail(Errc::kUnavailable, "the tables have changed meanwhile: try it again");
      return change_members(context_.config, args, next);
    });
  }
  wire::ChangeServerResult result{.generation = state_.tables.generation};
  if (!changed) {
    result.refused = changed.error().message;
    co_return result;
  }
  auto named = [&](const wire::ServerEntry& entry) { return entry.name == args.entry.name; };
  // The last one of the name: it may have been removed, and added again.
  result.entry = *std::find_if(entries_.rbegin(), entries_.rend(), named);
  if (result.generation != before)
    log_info("server {} {}: generation {} is published", args.entry.name, said(args, result.entry),
             result.generation.value);
  // Who is no member any more, or is to be elsewhere.
  if (was && was->endpoint != result.entry.endpoint) tell(was->endpoint);
  co_return result;
}

Task<wire::OfferTablesResult> Manager::offer(const wire::OfferTablesArgs& args) {
  Status taken = survey_ ? survey_->offered(args) : co_await take_over(args.tables);
  (taken ? offers_taken_ : offers_refused_).add();
  if (!taken && offer_log_.allow()) {
    log_warning("the tables of generation {} that server {} has cannot be used: {}",
                args.tables.generation.value, args.server, taken.error().message);
  }
  if (survey_) co_await settle();
  co_return wire::OfferTablesResult{taken.has_value()};
}

Task<Status> Manager::take_over(const wire::Tables& offered) {
  auto lock = co_await change_.lock();
  if (survey_ || offered.generation <= state_.tables.generation) co_return Status{};
  if (auto fitting = routing::RoutingTables::make(context_.config, offered); !fitting) {
    co_return fail(std::move(fitting).error());
  }
  auto tables = records_.applied_to(offered);
  if (!tables) co_return fail(std::move(tables).error());
  log_warning("this manager's tables were of generation {}, a process has those of {}: they are taken over",
              state_.tables.generation.value, offered.generation.value);
  ManagerState next = state_;
  next.tables = std::move(*tables);
  next.backing_sets.clear();  // found out anew (lost_sets.h)
  co_return co_await adopt(std::move(next));
}

Task<void> Manager::settle() {
  auto lock = co_await change_.lock();
  if (!survey_) co_return;
  Survey::Verdict verdict = survey_->verdict(context_.loop.now());
  ManagerState next{
      .drawn = survey_->largest_seen(), .volume = context_.config.volume, .tables = {}, .recorded = {}};
  switch (verdict.kind) {
    case Survey::Verdict::Kind::kWait:
      if (std::exchange(waits_for_, verdict.text) != verdict.text) log_warning("waiting: {}", verdict.text);
      co_return;
    case Survey::Verdict::Kind::kDeal:
      next.tables = routing::RoutingTables::initial(context_.config);
      next.tables.generation = Generation{1};
      log_info("the ensemble is new: generation 1 is published");
      break;
    case Survey::Verdict::Kind::kTakeOver:
      next.tables = std::move(verdict.tables);
      // Whose record is not known, or is none yet, must have kept its data.
      for (const wire::ServerEntry& entry : next.tables.servers) {
        if (!wire::sites_of(next.tables, entry.name).empty()) next.recorded.insert(entry.name);
      }
      (void)records_.note_started(next.tables);
      // Servers that have started since do not know what they had drawn before; the clock is beyond it.
      next.drawn = std::max(next.drawn, Verifier{static_cast<std::uint64_t>(context_.loop.wall().ns)});
      log_warning("{} was lost: made anew from what {} has, generation {} is published", kStateFile,
                  verdict.text, next.tables.generation.value);
  }
  if (Status saved = co_await adopt(std::move(next)); !saved) {
    log_error("the state cannot be kept: {}", saved.error().message);
    co_return;
  }
  survey_.reset();
}

Task<void> Manager::catch_up(const wire::HeartbeatArgs& args) {
  auto behind = [&] { return args.largest_seen > state_.drawn; };
  if (!behind()) co_return;
  auto lock = co_await change_.lock();
  if (!behind()) co_return;
  log_warning(
      "this manager's state is older than what server {} has: verifier {} here, {} there; going on "
      "behind the larger one",
      args.server, state_.drawn.value, args.largest_seen.value);
  ManagerState next = state_;
  next.drawn = args.largest_seen;
  next.backing_sets.clear();  // found out anew (lost_sets.h)
  if (Status saved = co_await adopt(std::move(next)); !saved) {
    log_error("the state cannot be kept: {}", saved.error().message);
  }
}

Task<Status> Manager::adopt(ManagerState next) {
  auto tables = routing::RoutingTables::make(context_.config, next.tables);
  if (!tables) co_return fail(std::move(tables).error());
  SLICE_CO_RETURN_IF_ERROR(co_await save_state(store_, next));
  const bool published = next.tables.generation != state_.tables.generation;
  state_ = std::move(next);
  heard_.resize(entries_.size());
  for (const wire::ServerEntry& each : entries_) {
    if (each.role != wire::Role::kRemoved) continue;
    heard_[each.server] = {};
    records_.forget(each.server);
  }
  digest_ = wire::digest(state_.tables);
  drawn_gauge_.set(state_.drawn.value);
  if (wire::digest(context_.tables.get()->wire()) != digest_) context_.tables.set(std::move(*tables));
  if (published) announce();
  if (published) co_await keep_copy(state_.tables);
  co_return Status{};
}

// A start knows the members' numbers by the copy (service/membership.h), before it has read the state. With
// an older one those of the file that came since would get numbers of others.
Task<void> Manager::keep_copy(wire::Tables tables) {
  if (stopped_) co_return;
  if (Status kept = co_await service::keep_tables(context_.disk, std::move(tables)); !kept)
    log_warning("the copy of the tables cannot be kept: {}", kept.error().message);
}

void Manager::announce() {
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (alive(heard_[i]) && i != context_.self.index) tell(entries_[i].endpoint);
  }
}

void Manager::tell(rpc::Endpoint process) {
  spawn([](rpc::Channel& channel, rpc::Endpoint to, Generation generation) -> Task<void> {
    // Whom it does not reach, the answer to the next heartbeat does.
    (void)co_await service::internal_call<service::NoResults>(
        channel, to, wire::kAdminProgram, wire::AdminProcedure::kNewTables, wire::NewTablesArgs{generation},
        kAnnounceTimeout);
  }(context_.channel, process, state_.tables.generation));
}

wire::MembersResult Manager::members() const {
  wire::MembersResult result;
  result.generation = state_.tables.generation;
  result.settings = settings_.generation();
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    wire::Member member;
    member.entry = entries_[i];
    member.last = heard_[i].last;
    member.last.server = member.entry.server;
    member.alive = alive(heard_[i]);
    Duration age = heard_[i].at ? context_.loop.now() - *heard_[i].at : Duration::max();
    member.age_ms = in_milliseconds(age);
    result.members.push_back(std::move(member));
  }
  return result;
}

bool Manager::is_member(std::uint32_t server) const {
  return server < entries_.size() && entries_[server].role != wire::Role::kRemoved;
}

bool Manager::alive(const Heard& heard) const {
  return heard.at && context_.loop.now() - *heard.at <= kPatience;
}

std::size_t Manager::count_alive() const {
  return static_cast<std::size_t>(
      std::count_if(heard_.begin(), heard_.end(), [this](const Heard& heard) { return alive(heard); }));
}

// Says once of each process that it fell silent; and where some are waited for, looks whether that is over.
void Manager::watch() {
  if (stopped_) return;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (!heard_[i].at || alive(heard_[i]) || std::exchange(heard_[i].said_dead, true)) continue;
    log_warning("{} has been silent for {} s", entries_[i].name,
                std::chrono::duration_cast<std::chrono::seconds>(kPatience).count());
  }
  alive_gauge_.set(count_alive());
  if (survey_) spawn(settle());
  context_.loop.after(std::chrono::seconds(1), [this] { watch(); });
}

}  // namespace slice::manager
