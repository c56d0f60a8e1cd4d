#include "control/manager/failovers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "control/manager/backing_sets.h"
#include "control/manager/members.h"
#include "service/internal_call.h"
#include "wire/about.h"

namespace slice::manager {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::seconds(1);
// Between two looks: a manager that did not run for so long has not read what was sent to it either.
constexpr Duration kLateLook = std::chrono::milliseconds(750);

}  // namespace

Failovers::Failovers(service::ServiceContext& context, Hooks hooks)
    : context_(context),
      hooks_(std::move(hooks)),
      asked_(context.metrics.counter("manager_failovers_total",
                                     "times that a server was made to be served by a run that stood by",
                                     {{"why", "asked"}})),
      silent_(context.metrics.counter("manager_failovers_total",
                                      "times that a server was made to be served by a run that stood by",
                                      {{"why", "silent"}})),
      refused_(context.metrics.counter("manager_standbys_refused_total",
                                       "questions of runs that cannot serve where they are, or not that "
                                       "server, or were too many")),
      standing_by_(context.metrics.gauge("manager_standbys", "runs of servers that stand by")) {}

void Failovers::run() {
  looked_ = context_.loop.now();
  since_ = looked_ + kHeadStart;
  context_.loop.after(kInterval, [this] { look(); });
}

void Failovers::heard(const wire::HeartbeatArgs& args) {
  if (!may_have_set(entry_of(args.server))) return;
  Watched& watched = watched_[args.server];
  const Process process{args.pid, args.started_ns};
  if (watched.former == process) return;
  watched.beats = process;
  watched.heard = context_.loop.now();
  watched.begins = false;
}

void Failovers::claims(std::uint32_t server, std::uint64_t instance) {
  if (is_to_serve(server, instance)) watched_[server].heard = context_.loop.now();
}

bool Failovers::is_to_serve(std::uint32_t server, std::uint64_t instance) const {
  const auto found = watched_.find(server);
  if (found == watched_.end() || !found->second.takes) return false;
  const Run& takes = *found->second.takes;
  return takes.instance == instance && takes.endpoint == entry_of(server).endpoint;
}

bool Failovers::stands_by(std::uint32_t server, const Run& run) const {
  return run.endpoint != entry_of(server).endpoint &&
         context_.loop.now() - run.asked <= wire::kStandbyPatience;
}

Task<rpc::Outcome> Failovers::standby(wire::StandbyArgs args, rpc::XdrWriter& results) {
  if (hooks_.surveys()) co_return rpc::Outcome::kError;
  const auto& servers = hooks_.state.tables.servers;
  if (args.server >= servers.size() || !may_have_set(servers[args.server])) {
    refused_.add();
    if (refused_log_.allow())
      log_warning(
          "a run at {} asks whether it is to serve as server {}, which is no member that can have a "
          "backing set",
          rpc::to_string(args.endpoint), args.server);
    co_return rpc::Outcome::kError;
  }
  const wire::StandbyResult result{.take = entry_of(args.server).endpoint == args.endpoint,
                                   .serves = entry_of(args.server).endpoint};
  if (result.take) {
    note_taker(watched_[args.server], args);
  } else if (Status noted = note_standby(args); !noted) {
    refused_.add();
    if (refused_log_.allow())
      log_warning("a run of {} at {} cannot stand by: {}", entry_of(args.server).name,
                  rpc::to_string(args.endpoint), noted.error().message);
  }
  encode(results, result);
  co_return rpc::Outcome::kReply;
}

void Failovers::note_taker(Watched& watched, const wire::StandbyArgs& args) {
  if (!watched.takes || !is_to_serve(args.server, args.instance)) {
    watched.begins = true;
    log_info("{} is to be served by the run that asks at {} instance={:x}", entry_of(args.server).name,
             rpc::to_string(args.endpoint), args.instance);
  }
  watched.heard = context_.loop.now();
  watched.takes = Run{args.endpoint, args.instance, context_.loop.now()};
}

Status Failovers::note_standby(const wire::StandbyArgs& args) {
  const wire::ServerEntry wanted{.endpoint = args.endpoint, .name = entry_of(args.server).name};
  SLICE_RETURN_IF_ERROR(check_endpoint(context_.config, hooks_.state.tables, wanted));
  auto& runs = watched_[args.server].standbys;
  std::erase_if(runs, [&](const Run& each) { return !stands_by(args.server, each); });
  auto place = std::lower_bound(runs.begin(), runs.end(), args.endpoint,
                                [](const Run& run, rpc::Endpoint of) { return run.endpoint < of; });
  const bool known = place != runs.end() && place->endpoint == args.endpoint;
  if (!known && runs.size() >= kMaxOfOne) return fail(Errc::kTooLarge, "{} others do", kMaxOfOne);
  if (!known) place = runs.insert(place, {.endpoint = args.endpoint});
  if (place->instance != args.instance)
    log_info("a run of {} stands by at {} instance={:x}", wanted.name, rpc::to_string(args.endpoint),
             args.instance);
  *place = {args.endpoint, args.instance, context_.loop.now()};
  return {};
}

std::size_t Failovers::members_at(IpAddress address) const {
  const auto& servers = hooks_.state.tables.servers;
  return static_cast<std::size_t>(
      std::count_if(servers.begin(), servers.end(), [address](const wire::ServerEntry& each) {
        return each.role != wire::Role::kRemoved && each.endpoint.address == address;
      }));
}

std::optional<rpc::Endpoint> Failovers::choose(std::uint32_t server, IpAddress address) const {
  const auto found = watched_.find(server);
  std::optional<std::tuple<std::size_t, rpc::Endpoint>> best;
  if (found == watched_.end()) return std::nullopt;
  for (const Run& each : found->second.standbys) {
    if (!stands_by(server, each) || (address != 0 && each.endpoint.address != address)) continue;
    const std::tuple candidate{members_at(each.endpoint.address), each.endpoint};
    if (!best || candidate < *best) best = candidate;
  }
  if (!best) return std::nullopt;
  return std::get<1>(*best);
}

Duration Failovers::silence(const Watched& watched) const {
  const MonoTime from = watched.heard ? std::max(*watched.heard, since_) : since_;
  return context_.loop.now() - from;
}

std::optional<Duration> Failovers::patience(const Watched& watched) const {
  const Duration least = std::chrono::milliseconds(context_.settings.get()->failover_ms);
  if (least == Duration(0)) return std::nullopt;
  return watched.begins ? std::max(least, kTakeOver) : least;
}

bool Failovers::is_silent(const Watched& watched) const {
  const auto longest = patience(watched);
  return longest && silence(watched) >= *longest;
}

void Failovers::look() {
  if (stopped_) return;
  const MonoTime now = context_.loop.now();
  if (hooks_.surveys()) since_ = now + kHeadStart;
  if (now - looked_ > kLateLook) since_ = std::max(since_, now);
  looked_ = now;
  const auto& servers = hooks_.state.tables.servers;
  std::erase_if(watched_, [&](const auto& each) {
    return each.first >= servers.size() || !may_have_set(servers[each.first]);
  });
  if (!hooks_.surveys()) {
    // A change may be over before look_at() returns, and then the state is another.
    std::vector<std::uint32_t> with_sets;
    for (const wire::BackingSet& each : hooks_.state.backing_sets) with_sets.push_back(each.server);
    for (std::uint32_t each : with_sets) look_at(each);
  }
  standing_by_.set(list().standbys.size());
  context_.loop.after(kInterval, [this] { look(); });
}

// Where nobody stands by there is nothing to decide.
void Failovers::look_at(std::uint32_t server) {
  Watched& watched = watched_[server];
  if (!patience(watched) || silence(watched) < kAskedAfter || watched.moving) return;
  const auto to = choose(server, 0);
  if (!to) return;
  const bool lately = watched.moved && context_.loop.now() - *watched.moved < kPause;
  if (is_silent(watched)) {
    if (!lately) spawn(replace_silent(server, *to));
  } else if (!watched.asked && !watched.begins) {
    spawn(ask(server));
  }
}

// A heartbeat may be lost, or late where a host is busy; who answers lives.
Task<void> Failovers::ask(std::uint32_t server) {
  const rpc::Endpoint endpoint = entry_of(server).endpoint;
  watched_[server].asked = true;
  auto about = co_await service::internal_call<wire::AboutResult>(
      context_.channel, endpoint, wire::kAdminProgram, wire::AdminProcedure::kAbout, service::NoArguments{},
      kAnswerTimeout);
  if (stopped_) co_return;
  const auto found = watched_.find(server);
  if (found == watched_.end()) co_return;
  found->second.asked = false;
  const bool lives = about && about->told.server == server && entry_of(server).endpoint == endpoint;
  if (!lives) co_return;
  found->second.heard = context_.loop.now();
  if (answers_log_.allow())
    log_warning("{} sends no heartbeats, but answers: it goes on", entry_of(server).name);
}

Task<void> Failovers::replace_silent(std::uint32_t server, rpc::Endpoint to) {
  const std::uint64_t silent_ms = in_milliseconds(silence(watched_[server]));
  const std::string name = entry_of(server).name;
  log_warning("{} at {} has been silent for {} ms: a run stands by at {}", name,
              rpc::to_string(entry_of(server).endpoint), silent_ms, rpc::to_string(to));
  Status moved = co_await move(server, to, false);
  if (!moved && !stopped_ && stays_log_.allow())
    log_warning("{} stays where it is: {}", name, moved.error().message);
}

Task<Status> Failovers::move(std::uint32_t server, rpc::Endpoint to, bool asked) {
  const wire::ServerEntry was = entry_of(server);
  watched_[server].moving = true;
  Status changed = co_await hooks_.change([&](ManagerState& next) -> Status {
    const wire::ServerEntry& now = next.tables.servers.at(server);
    if (now.endpoint != was.endpoint || now.role != was.role)
      return fail(Errc::kStale, "{} is at {} by now", was.name, rpc::to_string(now.endpoint));
    if (!asked && !is_silent(watched_[server])) return fail(Errc::kStale, "it was heard of again");
    return change_members(context_.config,
                          {.change = wire::ServerChange::kSet,
                           .entry = {.endpoint = to, .name = was.name},
                           .fields = wire::ChangeServerArgs::kEndpoint},
                          next);
  });
  Watched& watched = watched_[server];
  watched.moving = false;
  SLICE_CO_RETURN_IF_ERROR(changed);
  (asked ? asked_ : silent_).add();
  log_warning("{} is to be served at {}, and no more at {}: generation {} is published", was.name,
              rpc::to_string(to), rpc::to_string(was.endpoint), hooks_.state.tables.generation.value);
  watched.takes.reset();
  watched.former = watched.beats;
  watched.begins = true;
  watched.moved = watched.heard = context_.loop.now();
  hooks_.tell(was.endpoint);  // where it may live, and is to let go
  co_return Status{};
}

std::string Failovers::objection(const wire::FailoverArgs& args) const {
  if (hooks_.surveys()) return "the manager does not know the tables yet (slicectl status)";
  const wire::ServerEntry* known = wire::find_member(hooks_.state.tables, args.name);
  if (known == nullptr) return fmt::format("no server has the name '{}'", args.name);
  if (find_set(hooks_.state, known->server) == nullptr)
    return fmt::format("{} has no backing set: what it has is on its own host alone (docs/backing.md)",
                       known->name);
  if (args.address == known->endpoint.address)
    return fmt::format("{} is served at {} already", known->name, rpc::to_string(known->endpoint));
  if (choose(known->server, args.address)) return "";
  if (args.address == 0) return fmt::format("no run of {} stands by", known->name);
  return fmt::format("no run of {} stands by at {}", known->name, address_text(args.address));
}

Task<wire::FailoverResult> Failovers::failover(wire::FailoverArgs args) {
  wire::FailoverResult result{.refused = objection(args)};
  const wire::ServerEntry* known = wire::find_member(hooks_.state.tables, args.name);
  const std::uint32_t server = known == nullptr ? 0 : known->server;
  if (result.refused.empty()) {
    Status moved = co_await move(server, *choose(server, args.address), true);
    if (!moved) result.refused = moved.error().message;
  }
  if (!result.refused.empty())
    log_warning("'{}' is not made to be served elsewhere: {}", args.name, result.refused);
  if (known != nullptr) result.serves = entry_of(server).endpoint;
  result.generation = hooks_.state.tables.generation;
  co_return result;
}

wire::StandbysResult Failovers::list() const {
  wire::StandbysResult result;
  for (const auto& [server, watched] : watched_) {
    for (const Run& each : watched.standbys) {
      if (!stands_by(server, each) || result.standbys.size() >= wire::kMaxStandbys) continue;
      result.standbys.push_back({.server = server,
                                 .endpoint = each.endpoint,
                                 .age_ms = in_milliseconds(context_.loop.now() - each.asked)});
    }
  }
  return result;
}

}  // namespace slice::manager
