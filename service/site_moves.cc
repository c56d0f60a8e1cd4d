#include "service/site_moves.h"

#include <algorithm>
#include <set>
#include <utility>

#include "service/internal_call.h"

namespace slice::service {

using NfsStatus = nfs3::Status;

namespace {

using wire::MovePhase;
using wire::MovesProcedure;
using wire::MovesResult;

constexpr Duration kMoveCallTimeout = std::chrono::seconds(10);
// For which requests are held, at most: at the first try, and at the last ones.
constexpr Duration kFirstSwitchPatience = std::chrono::milliseconds(125);
constexpr Duration kSwitchPatience = std::chrono::seconds(2);
constexpr Duration kTakePatience = std::chrono::seconds(4);  // likewise, once the sites are given away
constexpr Duration kPoll = std::chrono::milliseconds(100);
constexpr Duration kSwitchPause = std::chrono::milliseconds(500);  // between two tries to switch
constexpr Duration kFirstPause = std::chrono::seconds(1), kLongestPause = std::chrono::seconds(10);
constexpr int kSwitches = 10;

MovesResult refused(NfsStatus status, std::string trouble) {
  return {.status = status, .attempt = 0, .trouble = std::move(trouble)};
}

std::string sites_text(const wire::SiteMove& move) {
  return move.sites.size() == 1 ? fmt::format("site {}", move.sites.front())
                                : fmt::format("{} sites", move.sites.size());
}

bool ended(MovePhase phase) {
  return phase == MovePhase::kDone || phase == MovePhase::kAborted;
}

}  // namespace

Task<bool> LeavingSites::copied(std::uint64_t bytes) {
  copied_ += bytes;
  if (bytes_per_second_ > 0) {
    const auto cost = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(bytes_per_second_)));
    next_ = std::max(next_, loop_.now()) + cost;
    while (live() && loop_.now() < next_) {
      co_await loop_.sleep(std::min<Duration>(next_ - loop_.now(), kPoll));
    }
  }
  while (live() && paused_) co_await loop_.sleep(kPoll);
  co_return live();
}

SiteMoves::SiteMoves(ServiceContext& context, wire::Role site_class, SiteGate& gate, SiteData& data)
    : InternalProgram(wire::kMovesProgram),
      context_(context),
      site_class_(site_class),
      gate_(gate),
      data_(data),
      given_total_(context.metrics.counter("moves_sites_given_total", "sites that were given away")),
      taken_total_(context.metrics.counter("moves_sites_taken_total", "sites that came from another server")),
      failed_total_(
          context.metrics.counter("moves_failed_attempts_total",
                                  "attempts to move sites away that came to nothing: the log says why")) {
  on<wire::MoveSitesArgs>(MovesProcedure::kMove, [this](const auto& args) { return move(args); });
  on<wire::AbortMoveArgs>(MovesProcedure::kAbort, [this](const auto& args) { return abort(args); });
  on<wire::PrepareSitesArgs>(MovesProcedure::kPrepare, [this](const auto& args) { return prepare(args); });
  on<wire::OfferSitesArgs>(MovesProcedure::kOffer, [this](const auto& args) { return offer(args); });
  on<wire::TakeSitesArgs>(MovesProcedure::kTake, [this](const auto& args) { return take(args); });
  on<wire::WithdrawSitesArgs>(MovesProcedure::kWithdraw, [this](const auto& args) { return withdraw(args); });
  on<wire::LateWritesArgs>(MovesProcedure::kLateWrites,
                           [this](const auto& args) { return late_writes(args); });
}

void SiteMoves::start() {
  if (context_.ownership == nullptr || !context_.ownership->known()) return;
  std::map<wire::MoveId, Moving> unfinished;
  for (const auto& [site, given] : context_.ownership->given()) {
    if (given.freed) continue;
    Moving& moving = unfinished[given.move];
    if (moving == nullptr) {
      moving = std::make_shared<Outgoing>();
      moving->move = {.id = given.move,
                      .site_class = site_class_,
                      .from = context_.self.index,
                      .to = given.to,
                      .begun = {},
                      .sites = {}};
      moving->asked = context_.loop.now();
    }
    moving->move.sites.push_back(site);
  }
  for (auto& [id, moving] : unfinished) {
    outgoing_[id] = moving;
    spawn(drive(moving));
  }
}

Task<void> SiteMoves::stop() {
  stopping_ = true;
  for (auto& [id, moving] : outgoing_) {
    if (moving->leaving) moving->leaving->fail("the server stops");
  }
  while (running_ > 0) co_await context_.loop.sleep(std::chrono::milliseconds(10));
}

wire::Also SiteMoves::also(Generation known) const {
  if (context_.ownership == nullptr || !context_.ownership->known()) return {};
  std::set<std::uint32_t> servers;
  for (const auto& [id, moving] : outgoing_) {
    if (moving->leaving) servers.insert(moving->move.to);
  }
  const routing::RoutingTables& tables = *context_.tables.get();
  // Who knows only of times before this server was a member means one that was at its address then.
  if (const wire::ServerEntry* self = tables.server(context_.self.index);
      self != nullptr && known < self->since) {
    const auto& owners = tables.wire().sites[static_cast<std::size_t>(site_class_)];
    servers.insert(owners.begin(), owners.end());
  }
  for (const auto& [site, given] : context_.ownership->given()) {
    if (given.shown.value != 0 && known >= given.shown) continue;
    servers.insert(tables.server_of(site_class_, SiteId{site}).server);
  }
  servers.erase(context_.self.index);
  return {servers.begin(), servers.end()};
}

std::optional<std::uint32_t> SiteMoves::given_to(SiteId site) const {
  const Ownership* record = context_.ownership;
  if (record == nullptr || !record->known() || !record->given().contains(site.value)) return std::nullopt;
  return context_.tables.get()->server_of(site_class_, site).server;
}

// ---- as the old owner ----

wire::MoveSitesResult SiteMoves::move(const wire::MoveSitesArgs& args) {
  const MonoTime now = context_.loop.now();
  std::erase_if(outgoing_, [&](const auto& each) {
    return ended(each.second->told.phase) && now - each.second->asked > kForgotten;
  });
  auto found = outgoing_.find(args.move.id);
  const bool begins = found == outgoing_.end();
  if (begins) {
    if (auto why_not = not_begun(args.move)) return std::move(*why_not);
    found = outgoing_.emplace(args.move.id, std::make_shared<Outgoing>()).first;
    found->second->move = args.move;
  }
  const Moving moving = found->second;
  moving->asked = now;
  moving->bytes_per_second = args.bytes_per_second;
  moving->paused = args.paused;
  if (begins) spawn(drive(moving));
  if (moving->leaving) {
    moving->leaving->set_pace(args.bytes_per_second, args.paused);
    moving->told.copied_bytes = moving->leaving->copied_bytes();
    moving->told.expected_bytes = std::max(moving->told.expected_bytes, moving->told.copied_bytes);
  }
  return moving->told;
}

std::optional<wire::MoveSitesResult> SiteMoves::not_begun(const wire::SiteMove& move) const {
  const Ownership* record = context_.ownership;
  if (record != nullptr && record->has_given(move))
    return wire::MoveSitesResult{.phase = MovePhase::kDone, .trouble = {}};
  if (record == nullptr || move.site_class != site_class_ || move.from != context_.self.index ||
      !record->owns_all(move.sites) || context_.tables.get()->server(move.to) == nullptr) {
    return wire::MoveSitesResult{.phase = MovePhase::kAborted,
                                 .trouble = "these sites are not this server's to give"};
  }
  for (const auto& [id, other] : outgoing_) {
    if (ended(other->told.phase)) continue;
    auto shared = std::find_if(move.sites.begin(), move.sites.end(),
                               [&](std::uint32_t site) { return other->move.has(site); });
    if (shared == move.sites.end()) continue;
    return wire::MoveSitesResult{.phase = MovePhase::kWaiting,
                                 .trouble = fmt::format("site {} is on its way", *shared)};
  }
  return std::nullopt;
}

Task<wire::AbortMoveResult> SiteMoves::abort(wire::AbortMoveArgs args) {
  if (context_.ownership != nullptr && context_.ownership->has_given(args.move))
    co_return wire::AbortMoveResult{MovePhase::kGiven};
  auto found = outgoing_.find(args.move.id);
  if (found == outgoing_.end()) co_return wire::AbortMoveResult{.attempt = next_attempt()};
  const Moving moving = found->second;
  moving->stop = true;
  if (moving->leaving) moving->leaving->fail("it was given up");
  if (moving->told.phase < MovePhase::kGiven) {
    OneShot<bool> ended;
    moving->ended.push_back(ended);
    context_.loop.after(kMoveCallTimeout, [ended] { ended.set(false); });
    if (!co_await ended) co_return wire::AbortMoveResult{MovePhase::kWaiting};
  }
  const bool given = moving->told.phase == MovePhase::kGiven || moving->told.phase == MovePhase::kDone;
  co_return wire::AbortMoveResult{given ? MovePhase::kGiven : MovePhase::kAborted, next_attempt()};
}

bool SiteMoves::wanted(const Outgoing& moving) const {
  return !stopping_ && !moving.stop && context_.loop.now() - moving.asked < kForgotten;
}

Task<void> SiteMoves::pause(const Outgoing& moving, Duration duration) {
  const MonoTime until = context_.loop.now() + duration;
  while (wanted(moving) && context_.loop.now() < until) co_await context_.loop.sleep(kPoll);
}

Task<void> SiteMoves::drive(Moving moving) {
  ++running_;
  Duration longer = kFirstPause;
  auto given = [&] { return context_.ownership->has_given(moving->move); };
  while (!given() && wanted(*moving)) {
    if (moving->paused) {
      co_await pause(*moving, kPoll);
      continue;
    }
    Result<void> done = co_await attempt(moving);
    if (given()) break;
    failed_total_.add();
    moving->told.phase = MovePhase::kWaiting;
    moving->told.trouble = done ? "" : done.error().message;
    ++moving->told.tries;
    if (log_.allow()) {
      log_warning("move {}: {} stay here for now: {}", moving->move.id.value, sites_text(moving->move),
                  moving->told.trouble);
    }
    co_await pause(*moving, longer);
    longer = std::min(longer * 2, kLongestPause);
  }
  if (given()) {
    moving->told.phase = MovePhase::kGiven;
    for (const OneShot<bool>& each : std::exchange(moving->ended, {})) each.set(true);
    co_await finish(moving);
  } else {
    moving->told.phase = MovePhase::kAborted;
    // The manager has it withdrawn as well, and goes on until that is done.
    if (!stopping_)
      (void)co_await ask(moving->move.to, MovesProcedure::kWithdraw,
                         wire::WithdrawSitesArgs{moving->move, next_attempt()});
    for (const OneShot<bool>& each : std::exchange(moving->ended, {})) each.set(true);
    // A manager that comes back may go on with what it did not give up; a late copy of its call does not.
    if (!moving->stop) outgoing_.erase(moving->move.id);
  }
  --running_;
}

// Greater than those of a run before, too; where the clock was set back, the new owner says.
std::uint64_t SiteMoves::next_attempt() {
  attempt_ = std::max(attempt_ + 1, static_cast<std::uint64_t>(context_.loop.wall().ns));
  return attempt_;
}

Task<slice::Status> SiteMoves::attempt(Moving moving) {
  auto leaving = std::make_shared<LeavingSites>(context_.loop, moving->move, next_attempt());
  leaving->set_pace(moving->bytes_per_second, moving->paused);
  moving->told.phase = MovePhase::kPreparing;
  moving->told.copied_bytes = 0;
  SLICE_CO_RETURN_IF_ERROR(co_await prepare_there(moving, leaving));
  auto expected = co_await data_.count(moving->move.sites);
  if (!expected) co_return fail(std::move(expected).error());
  moving->told.expected_bytes = *expected;
  co_await context_.crash.reach("site.prepared");
  moving->leaving = leaving;
  slice::Status done = co_await data_.join(leaving);
  if (done) done = co_await copy_and_switch(moving, leaving);
  moving->told.copied_bytes = leaving->copied_bytes();
  if (!done) leaving->fail(done.error().message);
  data_.leave(*leaving);
  moving->leaving = nullptr;
  co_return done;
}

Task<slice::Status> SiteMoves::prepare_there(Moving moving, std::shared_ptr<LeavingSites> leaving) {
  while (wanted(*moving)) {
    auto ready = co_await ask(moving->move.to, MovesProcedure::kPrepare,
                              wire::PrepareSitesArgs{moving->move, leaving->attempt()});
    if (!ready) co_return fail(std::move(ready).error());
    if (ready->status == NfsStatus::kOk) co_return slice::Status{};
    if (ready->status == NfsStatus::kStale) attempt_ = std::max(attempt_, ready->attempt);
    if (ready->status != NfsStatus::kJukebox) co_return fail(Errc::kInvalid, "{}", ready->trouble);
    co_await pause(*moving, kPoll);
  }
  co_return fail(Errc::kUnavailable, "nobody wants it any more");
}

Task<slice::Status> SiteMoves::copy_and_switch(Moving moving, std::shared_ptr<LeavingSites> leaving) {
  moving->told.phase = MovePhase::kCopying;
  co_await context_.crash.reach("site.joined");
  SLICE_CO_RETURN_IF_ERROR(co_await data_.copy(leaving));
  co_await context_.crash.reach("site.copied");
  // Most of it is durable there before anybody is made to wait.
  SLICE_CO_RETURN_IF_ERROR(co_await have(
      moving->move.to, MovesProcedure::kOffer,
      wire::OfferSitesArgs{moving->move.id, leaving->attempt(), false, context_.verifier.largest()}));
  for (int tries = 0;; ++tries) {
    while (leaving->live() && moving->paused) co_await context_.loop.sleep(kPoll);
    if (!leaving->live() || !wanted(*moving)) co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
    const Duration patience = std::min(kFirstSwitchPatience * (1 << tries), kSwitchPatience);
    if (auto switched = co_await switch_over(moving, leaving, patience)) co_return std::move(*switched);
    if (tries == kSwitches) co_return fail(Errc::kUnavailable, "requests under way do not end");
    co_await context_.loop.sleep(kSwitchPause);
  }
}

Task<std::optional<slice::Status>> SiteMoves::switch_over(Moving moving,
                                                          std::shared_ptr<LeavingSites> leaving,
                                                          Duration patience) {
  const MonoTime began = context_.loop.now();
  gate_.hold(moving->move.sites);
  std::optional<slice::Status> done;
  if (co_await gate_.drained(moving->move.sites, patience)) done = co_await hand_over(moving, leaving);
  const bool given = done && *done;
  if (given) (void)co_await tell_taken(moving, kTakePatience);
  gate_.release(moving->move.sites);
  if (!given) data_.go_on();
  moving->told.pause_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(context_.loop.now() - began).count());
  if (given) {
    log_info("move {}: {} are given to {}, requests were held for {} us", moving->move.id.value,
             sites_text(moving->move), context_.tables.get()->server(moving->move.to)->name,
             moving->told.pause_us);
  }
  co_return done;
}

Task<slice::Status> SiteMoves::hand_over(Moving moving, std::shared_ptr<LeavingSites> leaving) {
  const wire::SiteMove& move = moving->move;
  SLICE_CO_RETURN_IF_ERROR(co_await data_.copy_rest(leaving));
  SLICE_CO_RETURN_IF_ERROR(
      co_await have(move.to, MovesProcedure::kLateWrites,
                    wire::LateWritesArgs{move.id, leaving->attempt(), data_.late_writes(move.sites)}));
  co_await context_.crash.reach("site.offering");
  SLICE_CO_RETURN_IF_ERROR(
      co_await have(move.to, MovesProcedure::kOffer,
                    wire::OfferSitesArgs{move.id, leaving->attempt(), true, context_.verifier.largest()}));
  co_await context_.crash.reach("site.offered");
  if (!leaving->live() || !wanted(*moving)) co_return fail(Errc::kUnavailable, "{}", leaving->trouble());
  co_await give(moving);
  co_await context_.crash.reach("site.given");
  given_total_.add(move.sites.size());
  co_return slice::Status{};
}

// From here on there is no way back: of a record that could not be written it is not known which one the disk
// has, so nothing may be done by the old one.
Task<void> SiteMoves::give(Moving moving) {
  while (true) {
    slice::Status given = co_await context_.ownership->give(moving->move);
    if (given) co_return;
    if (log_.allow()) {
      log_error("move {}: that the sites are given away cannot be recorded, and they wait: {}",
                moving->move.id.value, given.error().message);
    }
    co_await context_.loop.sleep(kSwitchPause);
  }
}

Task<bool> SiteMoves::tell_taken(Moving moving, Duration patience) {
  const MonoTime deadline = context_.loop.now() + patience;
  while (!stopping_) {
    if (context_.tables.get()->gone(moving->move.to)) co_return true;  // nobody is left who could be told
    slice::Status taken =
        co_await have(moving->move.to, MovesProcedure::kTake, wire::TakeSitesArgs{moving->move});
    if (taken) co_return true;
    moving->told.trouble = taken.error().message;
    if (log_.allow()) {
      log_warning("move {}: the new owner is not told that the sites are its own: {}", moving->move.id.value,
                  taken.error().message);
    }
    if (context_.loop.now() >= deadline) co_return false;
    co_await context_.loop.sleep(kPoll);
  }
  co_return false;
}

Task<void> SiteMoves::finish(Moving moving) {
  constexpr Duration kForEver = std::chrono::hours(24 * 365);
  if (!co_await tell_taken(moving, kForEver)) co_return;
  moving->told.trouble.clear();
  co_await context_.crash.reach("site.taken");
  while (!stopping_) {
    slice::Status freed = co_await data_.clear(moving->move.sites);
    co_await context_.crash.reach("site.freed");
    if (freed) freed = co_await context_.ownership->freed(moving->move.id);
    if (freed) break;
    moving->told.trouble = freed.error().message;
    if (log_.allow()) {
      log_warning("move {}: what was here is not freed yet: {}", moving->move.id.value,
                  freed.error().message);
    }
    co_await context_.loop.sleep(kFirstPause);
  }
  if (stopping_) co_return;
  moving->told.phase = MovePhase::kDone;
  moving->told.trouble.clear();
  co_await context_.crash.reach("site.done");
}

template <class Args>
Task<Result<MovesResult>> SiteMoves::ask(std::uint32_t server, MovesProcedure procedure, Args args) {
  const wire::ServerEntry* entry = context_.tables.get()->server(server);
  if (entry == nullptr) co_return fail(Errc::kNotFound, "server {} is no member", server);
  const std::string name = entry->name;
  auto result = co_await internal_call<MovesResult>(context_.channel, entry->endpoint, wire::kMovesProgram,
                                                    procedure, args, kMoveCallTimeout);
  if (!result) co_return fail(result.error(), name);
  if (!result->trouble.empty()) result->trouble = fmt::format("{}: {}", name, result->trouble);
  co_return result;
}

template <class Args>
Task<slice::Status> SiteMoves::have(std::uint32_t server, MovesProcedure procedure, Args args) {
  auto result = co_await ask(server, procedure, std::move(args));
  if (!result) co_return fail(std::move(result).error());
  if (result->status != NfsStatus::kOk) co_return fail(Errc::kInvalid, "{}", result->trouble);
  co_return slice::Status{};
}

// ---- as the new owner ----

std::string SiteMoves::refusal(const wire::SiteMove& move) const {
  const Ownership* record = context_.ownership;
  if (record == nullptr || !record->known()) return "this server has no record of its sites";
  if (move.to != context_.self.index || move.site_class != site_class_) return "this is another server";
  for (std::uint32_t site : move.sites) {
    if (record->owns_all({site})) return fmt::format("site {} is here", site);
    if (site >= context_.config.site_counts[static_cast<std::size_t>(site_class_)])
      return fmt::format("there is no site {}", site);
  }
  return "";
}

SiteMoves::Coming SiteMoves::coming(wire::MoveId move, std::uint64_t attempt) const {
  auto found = incoming_.find(move);
  if (found == incoming_.end() || found->second->attempt != attempt) return nullptr;
  return found->second->state == Incoming::State::kOpen ? found->second : nullptr;
}

MovesResult SiteMoves::prepare(const wire::PrepareSitesArgs& args) {
  if (std::string why = refusal(args.move); !why.empty()) return refused(NfsStatus::kInval, why);
  for (std::uint32_t site : args.move.sites) {
    auto given = context_.ownership->given().find(site);
    if (given != context_.ownership->given().end() && !given->second.freed) {
      return refused(NfsStatus::kJukebox, fmt::format("site {} was here, and is not freed yet", site));
    }
  }
  if (const std::uint64_t last = last_attempt(args.move.id); args.attempt < last)
    return {.status = NfsStatus::kStale, .attempt = last, .trouble = "a later attempt was prepared"};
  Coming& now = incoming_[args.move.id];
  if (now != nullptr && now->attempt == args.attempt) {
    switch (now->state) {
      case Incoming::State::kOpen:
        return {};
      case Incoming::State::kClearing:
        return refused(NfsStatus::kJukebox, "it gives back what it has of them");
      default:
        return refused(NfsStatus::kIo, now->trouble);
    }
  }
  if (now != nullptr && now->state == Incoming::State::kClearing)
    return refused(NfsStatus::kJukebox, "it gives back what it has of them");
  now = std::make_shared<Incoming>();
  now->move = args.move;
  now->attempt = args.attempt;
  spawn(clear_for(now, Incoming::State::kOpen));
  return refused(NfsStatus::kJukebox, "it gives back what it has of them");
}

std::uint64_t SiteMoves::last_attempt(wire::MoveId move) const {
  auto found = incoming_.find(move);
  return std::max(found == incoming_.end() || found->second == nullptr ? 0 : found->second->attempt,
                  context_.ownership->offered_by(move));
}

// An offer is taken back before what it offers goes.
Task<void> SiteMoves::clear_for(Coming coming, Incoming::State then) {
  ++running_;
  coming->state = Incoming::State::kClearing;
  const wire::MoveId id = coming->move.id;
  co_await data_.close(id);
  slice::Status cleared = co_await context_.ownership->withdraw(id, coming->attempt);
  if (cleared) {
    co_await context_.crash.reach("site.withdrawn");
    cleared = co_await data_.clear(coming->move.sites);
    co_await context_.crash.reach("site.cleared");
  }
  if (!cleared) {
    coming->trouble = cleared.error().message;
    if (log_.allow()) log_warning("move {}: {}", id.value, coming->trouble);
  } else if (then == Incoming::State::kOpen) {
    data_.open(coming->move, coming->attempt);
  }
  coming->state = cleared ? then : Incoming::State::kFailed;
  --running_;
}

Task<MovesResult> SiteMoves::offer(wire::OfferSitesArgs args) {
  const Coming open = coming(args.move, args.attempt);
  if (open == nullptr) co_return refused(NfsStatus::kStale, "the attempt is over here");
  context_.verifier.see(args.verifier);
  if (args.final) co_await data_.close(args.move);
  slice::Status done = co_await data_.sync();
  // Another attempt may have begun meanwhile.
  if (done && coming(args.move, args.attempt) != open) co_return refused(NfsStatus::kStale, "it is over");
  if (done && args.final) {
    open->state = Incoming::State::kOffered;
    co_await context_.crash.reach("site.recording");
    done = co_await context_.ownership->offer(open->move, open->attempt);
    co_await context_.crash.reach("site.recorded");
  }
  if (!done) co_return refused(NfsStatus::kIo, done.error().message);
  co_return MovesResult{};
}

Task<MovesResult> SiteMoves::take(wire::TakeSitesArgs args) {
  Ownership* record = context_.ownership;
  if (record == nullptr || args.move.to != context_.self.index || args.move.site_class != site_class_)
    co_return refused(NfsStatus::kInval, "this is another server");
  // An old owner that has started again tells once more; by now they may have gone on.
  auto came = [&](std::uint32_t site) { return record->owns_all({site}) || record->given().contains(site); };
  const bool had = record->owns_all(args.move.sites);
  if (slice::Status taken = co_await record->take(args.move.id); !taken)
    co_return refused(NfsStatus::kIo, taken.error().message);
  co_await context_.crash.reach("site.took");
  if (!std::all_of(args.move.sites.begin(), args.move.sites.end(), came)) {
    log_error("move {}: its sites were given to this server, which was offered others", args.move.id.value);
    co_return refused(NfsStatus::kServerFault, "they were not offered");
  }
  incoming_.erase(args.move.id);
  if (!had) taken_total_.add(args.move.sites.size());
  data_.go_on();
  co_return MovesResult{};
}

MovesResult SiteMoves::withdraw(const wire::WithdrawSitesArgs& args) {
  // What is this server's own, by another move, is not touched.
  wire::SiteMove move = args.move;
  if (context_.ownership != nullptr)
    std::erase_if(move.sites, [&](std::uint32_t site) { return context_.ownership->owns_all({site}); });
  if (std::string why = refusal(move); !why.empty()) return refused(NfsStatus::kInval, why);
  if (args.attempt < last_attempt(move.id)) return {};
  Coming& now = incoming_[move.id];
  if (now != nullptr && now->state == Incoming::State::kGone) return {};
  if (now == nullptr || now->state != Incoming::State::kClearing) {
    now = std::make_shared<Incoming>();
    now->move = move;
    now->attempt = args.attempt;
    spawn(clear_for(now, Incoming::State::kGone));
  }
  return refused(NfsStatus::kJukebox, "it gives back what it has of them");
}

MovesResult SiteMoves::late_writes(const wire::LateWritesArgs& args) {
  if (coming(args.move, args.attempt) == nullptr)
    return refused(NfsStatus::kStale, "the attempt is over here");
  data_.learn(args.writes);
  return {};
}

}  // namespace slice::service
