#include "control/manager/moves.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "service/internal_call.h"

namespace slice::manager {

using NfsStatus = nfs3::Status;

namespace {

using wire::MovePhase;

constexpr Duration kTimeout = std::chrono::seconds(3);
constexpr Duration kAbortTimeout = std::chrono::seconds(15);
constexpr Duration kPreparePause = std::chrono::milliseconds(50);
constexpr int kPrepareTries = 40;
constexpr std::uint64_t kLeastRate = 1 << 10;  // bytes a second that a limit leaves to a move

std::uint64_t wall_ns(const Loop& loop) {
  return static_cast<std::uint64_t>(loop.wall().ns);
}

}  // namespace

Moves::Moves(service::ServiceContext& context, Hooks hooks)
    : context_(context),
      hooks_(std::move(hooks)),
      begun_(context.metrics.counter("manager_moves_begun_total", "moves of sites that were begun")),
      done_(context.metrics.counter("manager_moves_done_total",
                                    "moves of sites that have ended with their sites at the new owner")),
      aborted_(context.metrics.counter("manager_moves_aborted_total", "moves of sites that were given up")),
      under_way_(context.metrics.gauge("manager_moves", "moves of sites that go on")) {}

void Moves::run() {
  context_.loop.after(kInterval, [this] { work(); });
}

rpc::Endpoint Moves::endpoint_of(std::uint32_t server) const {
  return hooks_.state.tables.servers[server].endpoint;
}

const MoveRecord* Moves::find(wire::MoveId id) const {
  const auto& moves = hooks_.state.moves;
  auto found =
      std::find_if(moves.begin(), moves.end(), [&](const MoveRecord& each) { return each.move.id == id; });
  return found == moves.end() ? nullptr : &*found;
}

bool Moves::concerns(std::uint32_t server) const {
  const auto& moves = hooks_.state.moves;
  return std::any_of(moves.begin(), moves.end(), [&](const MoveRecord& each) {
    return each.move.from == server || each.move.to == server;
  });
}

bool Moves::given(wire::MoveId id) const {
  auto seen = seen_.find(id);
  return seen != seen_.end() && seen->second.last.phase == MovePhase::kGiven;
}

// ---- what operators ask ----

Status Moves::begin(const wire::StartMovesArgs& args, ManagerState& next,
                    std::vector<wire::MoveId>& begun) const {
  const wire::Tables& tables = next.tables;
  const std::string_view class_name = wire::role_name(args.site_class);
  if (args.to >= tables.servers.size() || tables.servers[args.to].role != args.site_class)
    return fail(Errc::kInvalid, "that is no {} server", class_name);
  if (!hooks_.alive(args.to))
    return fail(Errc::kUnavailable, "{} is not alive", tables.servers[args.to].name);
  const auto& owners = tables.sites[static_cast<std::size_t>(args.site_class)];
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_owner;
  for (std::uint32_t site : args.sites) {
    if (site >= owners.size()) return fail(Errc::kInvalid, "there is no {} site {}", class_name, site);
    for (const MoveRecord& each : next.moves) {
      if (each.move.site_class == args.site_class && each.move.has(site))
        return fail(Errc::kExists, "{} site {} is on its way already", class_name, site);
    }
    if (owners[site] != args.to) by_owner[owners[site]].push_back(site);
  }
  for (const auto& [owner, sites] : by_owner) {
    for (std::size_t at = 0; at < sites.size(); at += wire::kMaxSitesOfMove) {
      const auto end = std::min(at + wire::kMaxSitesOfMove, sites.size());
      MoveRecord record{.began_ns = wall_ns(context_.loop)};
      // Greater than any that a lost state has given.
      next.last_move.value = std::max(next.last_move.value + 1, record.began_ns / 1'000'000);
      record.move = {.id = next.last_move,
                     .site_class = args.site_class,
                     .from = owner,
                     .to = args.to,
                     .begun = tables.generation,
                     .sites = {sites.begin() + static_cast<std::ptrdiff_t>(at),
                               sites.begin() + static_cast<std::ptrdiff_t>(end)}};
      begun.push_back(record.move.id);
      next.moves.push_back(std::move(record));
    }
  }
  return {};
}

Task<wire::StartMovesResult> Moves::start(wire::StartMovesArgs args) {
  wire::StartMovesResult result;
  Status changed =
      co_await hooks_.change([&](ManagerState& next) { return begin(args, next, result.moves); });
  if (!changed) {
    const bool later = changed.error().code != Errc::kInvalid;
    co_return wire::StartMovesResult{.refused = changed.error().message, .later = later, .moves = {}};
  }
  begun_.add(result.moves.size());
  for (wire::MoveId id : result.moves) {
    const wire::SiteMove& move = find(id)->move;
    log_info("move {}: {} {} sites are to go from {} to {}", id.value, move.sites.size(),
             wire::role_name(move.site_class), hooks_.state.tables.servers[move.from].name,
             hooks_.state.tables.servers[move.to].name);
  }
  co_return result;
}

Task<wire::ChangeMovesResult> Moves::change(wire::ChangeMovesArgs args) {
  using Change = wire::ChangeMovesArgs::Field;
  Status changed = co_await hooks_.change([&](ManagerState& next) -> Status {
    if ((args.fields & Change::kPaused) != 0) next.settings.paused = args.settings.paused;
    if ((args.fields & Change::kRate) != 0) next.settings.bytes_per_second = args.settings.bytes_per_second;
    if ((args.fields & Change::kAbort) == 0) return {};
    auto found = std::find_if(next.moves.begin(), next.moves.end(),
                              [&](const MoveRecord& each) { return each.move.id == args.abort; });
    if (found == next.moves.end()) return fail(Errc::kNotFound, "no move {} goes on", args.abort.value);
    if (given(args.abort)) return fail(Errc::kInvalid, "its sites are given away: it is too late");
    found->aborting = true;
    return {};
  });
  co_return wire::ChangeMovesResult{.refused = changed ? "" : changed.error().message,
                                    .settings = hooks_.state.settings};
}

wire::MovesListResult Moves::list() const {
  wire::MovesListResult result{.settings = hooks_.state.settings, .moves = {}};
  for (const MoveRecord& each : hooks_.state.moves) {
    wire::MoveState state{
        .move = each.move, .last = {}, .aborting = each.aborting, .began_ns = each.began_ns};
    if (auto seen = seen_.find(each.move.id); seen != seen_.end()) {
      state.last = seen->second.last;
      state.bytes_a_second = seen->second.rate.bytes_a_second();
    }
    result.moves.push_back(std::move(state));
  }
  result.moves.insert(result.moves.end(), ended_.begin(), ended_.end());
  return result;
}

// ---- work ----

std::set<wire::MoveId> Moves::active() const {
  std::set<wire::MoveId> chosen;
  std::set<std::uint32_t> givers;
  for (const MoveRecord& each : hooks_.state.moves) {
    if (each.aborting || given(each.move.id) || chosen.size() == kAtOnce) continue;
    if (givers.insert(each.move.from).second) chosen.insert(each.move.id);
  }
  return chosen;
}

void Moves::work() {
  if (stopped_) return;
  run();
  under_way_.set(hooks_.state.moves.size());
  if (hooks_.surveys() || hooks_.state.moves.empty()) return;
  const std::set<wire::MoveId> copying = active();
  const wire::MoveSettings settings = hooks_.state.settings;
  std::uint64_t rate = settings.bytes_per_second;
  if (rate > 0 && !copying.empty()) rate = std::max<std::uint64_t>(rate / copying.size(), kLeastRate);
  std::vector<wire::MoveId> due;
  for (const MoveRecord& each : hooks_.state.moves) {
    const wire::MoveId id = each.move.id;
    if (each.aborting || given(id) || copying.contains(id)) due.push_back(id);
  }
  for (wire::MoveId id : due) {
    if (!std::exchange(seen_[id].busy, true)) spawn(step(id, rate, settings.paused));
  }
}

Task<void> Moves::step(wire::MoveId id, std::uint64_t bytes_per_second, bool paused) {
  if (const MoveRecord* record = find(id)) {
    if (record->aborting) {
      co_await give_up(*record);
    } else if (lost(record->move.from)) {
      co_await grant(*record);
    } else {
      co_await carry_on(*record, bytes_per_second, paused);
    }
  }
  if (find(id) == nullptr) {
    seen_.erase(id);
  } else {
    seen_[id].busy = false;
  }
}

void Moves::note(Seen& seen, const wire::MoveSitesResult& result) {
  seen.rate.note(context_.loop.now(), result.copied_bytes);
  seen.last = result;
}

Task<void> Moves::carry_on(MoveRecord record, std::uint64_t bytes_per_second, bool paused) {
  const wire::SiteMove& move = record.move;
  auto result = co_await service::internal_call<wire::MoveSitesResult>(
      context_.channel, endpoint_of(move.from), wire::kMovesProgram, wire::MovesProcedure::kMove,
      wire::MoveSitesArgs{move, bytes_per_second, paused}, kTimeout);
  if (stopped_ || find(move.id) == nullptr) co_return;
  Seen& seen = seen_[move.id];
  if (!result) {
    seen.last.trouble =
        fmt::format("{}: {}", hooks_.state.tables.servers[move.from].name, result.error().message);
    co_return;
  }
  note(seen, *result);
  switch (result->phase) {
    case MovePhase::kGiven:
      // The old owner frees what it has without the new one's word for it where that is lost.
      if (co_await publish(move) && lost(move.to)) co_await end(record, MovePhase::kDone);
      break;
    case MovePhase::kDone:
      if (co_await publish(move)) co_await end(record, MovePhase::kDone);
      break;
    case MovePhase::kAborted:
      log_warning("move {}: {} does not give its sites: {}", move.id.value,
                  hooks_.state.tables.servers[move.from].name, result->trouble);
      co_await set_aborting(move.id, true);
      break;
    default:
      break;
  }
}

// The old owner's record says so already, and servers go by it; the tables are for everybody else.
Task<bool> Moves::publish(wire::SiteMove move) {
  bool new_tables = false;
  Status published = co_await hooks_.change([&](ManagerState& next) -> Status {
    auto& owners = next.tables.sites[static_cast<std::size_t>(move.site_class)];
    for (std::uint32_t site : move.sites) new_tables = new_tables || owners.at(site) != move.to;
    if (!new_tables) return {};
    if (move.site_class == wire::Role::kStorage) wire::keep_layout_sites(next.tables);
    for (std::uint32_t site : move.sites) owners[site] = move.to;
    ++next.tables.generation.value;
    return {};
  });
  if (!published) {
    if (log_.allow())
      log_error("move {}: its tables cannot be published: {}", move.id.value, published.error().message);
    co_return false;
  }
  co_await context_.crash.reach("site.published");
  if (!new_tables) co_return true;
  hooks_.moved(move, hooks_.state.tables.generation);
  log_info("move {}: {} sites are at {}: generation {} is published", move.id.value, move.sites.size(),
           hooks_.state.tables.servers[move.to].name, hooks_.state.tables.generation.value);
  co_return true;
}

// The new owner gives back what it has of the sites, and has them from then on, empty; the verifier that was
// drawn when they were lost becomes its own.
Task<Status> Moves::offer_nothing(wire::SiteMove move) {
  auto ask = [&](wire::MovesProcedure procedure, auto args) -> Task<Result<wire::MovesResult>> {
    co_return co_await service::internal_call<wire::MovesResult>(
        context_.channel, endpoint_of(move.to), wire::kMovesProgram, procedure, std::move(args), kTimeout);
  };
  auto fine = [](const Result<wire::MovesResult>& result) -> Status {
    if (!result) return fail(result.error().code, "{}", result.error().message);
    if (result->status != NfsStatus::kOk) return fail(Errc::kUnavailable, "{}", result->trouble);
    return {};
  };
  const Verifier verifier = hooks_.state.tables.servers[move.from].lost;
  std::uint64_t attempt = wall_ns(context_.loop);
  Result<wire::MovesResult> prepared = wire::MovesResult{.status = NfsStatus::kJukebox};
  for (int tries = 0; prepared && tries < kPrepareTries; ++tries) {
    if (tries > 0) co_await context_.loop.sleep(kPreparePause);
    prepared = co_await ask(wire::MovesProcedure::kPrepare, wire::PrepareSitesArgs{move, attempt});
    if (prepared && prepared->status == NfsStatus::kStale) attempt = prepared->attempt + 1;
    const bool later =
        prepared && (prepared->status == NfsStatus::kStale || prepared->status == NfsStatus::kJukebox);
    if (!later) break;
  }
  // Its sites are there already where the manager has died in between.
  const bool there = prepared && prepared->status == NfsStatus::kInval;
  if (!there) {
    SLICE_CO_RETURN_IF_ERROR(fine(prepared));
    SLICE_CO_RETURN_IF_ERROR(fine(
        co_await ask(wire::MovesProcedure::kOffer, wire::OfferSitesArgs{move.id, attempt, true, verifier})));
  }
  co_return fine(co_await ask(wire::MovesProcedure::kTake, wire::TakeSitesArgs{move}));
}

Task<void> Moves::grant(MoveRecord record) {
  const wire::SiteMove& move = record.move;
  Status offered = co_await offer_nothing(move);
  if (stopped_ || find(move.id) == nullptr) co_return;
  if (!offered) {
    seen_[move.id].last.trouble =
        fmt::format("{}: {}", hooks_.state.tables.servers[move.to].name, offered.error().message);
    co_return;
  }
  if (co_await publish(move)) co_await end(record, MovePhase::kDone);
}

Task<void> Moves::give_up(MoveRecord record) {
  const wire::SiteMove& move = record.move;
  Result<wire::AbortMoveResult> aborted =
      wire::AbortMoveResult{.attempt = std::numeric_limits<std::uint64_t>::max()};
  if (!lost(move.from)) {
    aborted = co_await service::internal_call<wire::AbortMoveResult>(
        context_.channel, endpoint_of(move.from), wire::kMovesProgram, wire::MovesProcedure::kAbort,
        wire::AbortMoveArgs{move}, kAbortTimeout);
  }
  if (stopped_ || find(move.id) == nullptr) co_return;
  if (!aborted || aborted->phase == MovePhase::kWaiting) {
    seen_[move.id].last.trouble =
        aborted ? "its old owner is about to leave off"
                : fmt::format("{}: {}", hooks_.state.tables.servers[move.from].name, aborted.error().message);
    co_return;
  }
  if (aborted->phase == MovePhase::kGiven) {
    log_warning("move {}: it cannot be given up, since its sites are given away", move.id.value);
    co_return co_await set_aborting(move.id, false);
  }
  if (lost(move.to)) co_return co_await end(record, MovePhase::kAborted);
  auto withdrawn = co_await service::internal_call<wire::MovesResult>(
      context_.channel, endpoint_of(move.to), wire::kMovesProgram, wire::MovesProcedure::kWithdraw,
      wire::WithdrawSitesArgs{move, aborted->attempt}, kTimeout);
  if (stopped_ || find(move.id) == nullptr) co_return;
  if (withdrawn && withdrawn->status == nfs3::Status::kOk) {
    seen_[move.id].last.trouble.clear();
    co_return co_await end(record, MovePhase::kAborted);
  }
  seen_[move.id].last.trouble = withdrawn ? withdrawn->trouble : withdrawn.error().message;
}

Task<void> Moves::set_aborting(wire::MoveId id, bool aborting) {
  (void)co_await hooks_.change([&](ManagerState& next) -> Status {
    for (MoveRecord& each : next.moves) {
      if (each.move.id == id) each.aborting = aborting;
    }
    return {};
  });
}

Task<void> Moves::end(MoveRecord record, MovePhase phase) {
  const wire::MoveId id = record.move.id;
  Status forgotten = co_await hooks_.change([&](ManagerState& next) -> Status {
    std::erase_if(next.moves, [&](const MoveRecord& each) { return each.move.id == id; });
    return {};
  });
  if (!forgotten) co_return;  // it ends the next time
  (phase == MovePhase::kDone ? done_ : aborted_).add();
  log_info("move {}: it is {}", id.value, wire::phase_name(phase));
  wire::MoveState state{.move = record.move,
                        .last = seen_[id].last,
                        .began_ns = record.began_ns,
                        .ended_ns = wall_ns(context_.loop)};
  state.last.phase = phase;
  if (phase == MovePhase::kDone) state.last.trouble.clear();
  ended_.push_back(std::move(state));
  if (ended_.size() > kRemembered) ended_.pop_front();
}

}  // namespace slice::manager
