#include "control/manager/backing_sets.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "common/log.h"

namespace slice::manager {
namespace {

using wire::BackingSet;
using wire::ServerEntry;

bool in_use(const ServerEntry& entry) {
  return entry.role == wire::Role::kStorage && !entry.drained && entry.lost.value == 0;
}

// What fails together, as far as it is said.
std::string host_of(const ServerEntry& entry) {
  return entry.host.empty() ? "at " + address_text(entry.endpoint.address) : entry.host;
}

auto place_of(auto& sets, std::uint32_t server) {
  return std::lower_bound(sets.begin(), sets.end(), server,
                          [](const BackingSet& set, std::uint32_t of) { return set.server < of; });
}

std::string names(const ManagerState& state, const std::vector<std::uint32_t>& servers) {
  std::string text;
  for (std::uint32_t each : servers)
    text += fmt::format("{}{}", text.empty() ? "" : ",", state.tables.servers.at(each).name);
  return text;
}

std::size_t copies_on(const ManagerState& state, std::uint32_t storage) {
  return static_cast<std::size_t>(
      std::count_if(state.backing_sets.begin(), state.backing_sets.end(), [storage](const BackingSet& set) {
        return std::find(set.members.begin(), set.members.end(), storage) != set.members.end();
      }));
}

Status check_members(const std::vector<std::uint32_t>& members, const ManagerState& state) {
  const auto& servers = state.tables.servers;
  for (std::uint32_t each : members) {
    const bool good =
        each < servers.size() && servers[each].role == wire::Role::kStorage && servers[each].lost.value == 0;
    if (!good)
      return fail(Errc::kInvalid, "server {} is no storage server of the ensemble, or was lost", each);
  }
  const std::set<std::uint32_t> distinct(members.begin(), members.end());
  if (distinct.empty() || distinct.size() != members.size() || distinct.size() > wire::kMaxBackingMembers)
    return fail(Errc::kInvalid, "a set has 1 to {} members, each once", wire::kMaxBackingMembers);
  return {};
}

// One that was not known, or not so.
Status put(const BackingSet& set, ManagerState& next) {
  const auto& servers = next.tables.servers;
  if (set.server >= servers.size() || !may_have_set(servers[set.server]))
    return fail(Errc::kInvalid, "server {} is no member that may have a backing set", set.server);
  SLICE_RETURN_IF_ERROR(check_members(set.members, next));
  auto place = place_of(next.backing_sets, set.server);
  if (place != next.backing_sets.end() && place->server == set.server) {
    *place = set;
  } else {
    next.backing_sets.insert(place, set);
  }
  return {};
}

}  // namespace

bool may_have_set(const ServerEntry& server) {
  return server.role == wire::Role::kDirectory || server.role == wire::Role::kSmallFile ||
         server.role == wire::Role::kCoordinator;
}

const BackingSet* find_set(const ManagerState& state, std::uint32_t server) {
  auto found = place_of(state.backing_sets, server);
  return found == state.backing_sets.end() || found->server != server ? nullptr : &*found;
}

std::optional<std::uint32_t> spare_for(const ManagerState& state, const std::vector<std::uint32_t>& members,
                                       const std::function<bool(std::uint32_t server)>& alive) {
  const auto& servers = state.tables.servers;
  std::set<std::string> taken;
  for (std::uint32_t each : members) taken.insert(host_of(servers.at(each)));
  auto on_member = [&](const ServerEntry& entry) { return taken.contains(host_of(entry)); };
  // A silent one comes back: rather one copy less until then than two that fail together.
  const bool other_hosts = std::any_of(servers.begin(), servers.end(), [&](const ServerEntry& entry) {
    return in_use(entry) && !on_member(entry);
  });
  std::optional<std::tuple<std::size_t, std::uint32_t>> best;
  for (const ServerEntry& each : servers) {
    const bool is_member = std::find(members.begin(), members.end(), each.server) != members.end();
    if (!in_use(each) || is_member || !alive(each.server) || (other_hosts && on_member(each))) continue;
    const std::tuple found{copies_on(state, each.server), each.server};
    if (!best || found < *best) best = found;
  }
  if (!best) return std::nullopt;
  return std::get<1>(*best);
}

BackingSets::BackingSets(Metrics& metrics, Hooks hooks)
    : hooks_(std::move(hooks)),
      claims_(metrics.counter("manager_backing_claims_total", "epochs of backing sets that were given")),
      changes_(metrics.counter("manager_backing_changes_total", "changes of backing sets' members")),
      refused_(metrics.counter("manager_backing_refused_total",
                               "claims of backing sets, and changes of their members, that were refused")),
      found_(metrics.counter("manager_backing_found_total",
                             "backing sets that the manager's state did not know, or not as they are, and "
                             "that were taken over from their owners or storage servers")) {}

Task<wire::BackingClaimResult> BackingSets::claim(wire::BackingClaimArgs args) {
  const BackingSet* known = find_set(hooks_.state, args.server);
  const bool again = known != nullptr && known->instance == args.instance;
  const bool answered = again && known->copies == args.copies;
  Result<BackingSet> lost = fail(Errc::kNotFound, "none is looked for");
  if (may_be_lost(args.server))
    lost = find_set_in(co_await hooks_.ask_nodes(args.server), hooks_.state.tables);
  Status claimed{};
  if (!answered)
    claimed = co_await hooks_.change([&](ManagerState& next) { return claim_in(args, lost, next); });
  wire::BackingClaimResult result;
  if (!claimed) {
    refused_.add();
    log_warning("server {} gets no epoch of its backing set: {}", args.server, claimed.error().message);
    result.refused = claimed.error().message;
    co_return result;
  }
  if (lost) found_.add();
  result.set = *find_set(hooks_.state, args.server);
  // The first epoch's owner is told so each time that it asks.
  result.made = result.set.epoch == BackingEpoch{1};
  if (!again) {
    claims_.add();
    log_info("the backing set of {} has another owner epoch={} instance={:x} copies={} members={}",
             hooks_.state.tables.servers.at(args.server).name, result.set.epoch.value, args.instance,
             result.set.copies, names(hooks_.state, result.set.members));
    if (result.made && result.set.members.size() < args.copies)
      log_warning("the backing set of {} is to have {} copies, and has {}: no more storage servers are there",
                  hooks_.state.tables.servers.at(args.server).name, args.copies, result.set.members.size());
  }
  co_return result;
}

// While another process is heard of under the same name, a run of it may not take its set away. Which of the
// two has the set is not known here; but it is soon known whether the other one has ended, and until its
// session is over storage nodes would not take another owner either. The run that has the lock of the former
// one's data directory knows that it has ended. A failover is what this one is for: who stood by, and is to
// serve, gets the set, and the nodes let the other one's session end first.
Status BackingSets::claim_in(const wire::BackingClaimArgs& args, const Result<BackingSet>& lost,
                             ManagerState& next) const {
  const auto& servers = next.tables.servers;
  if (args.server >= servers.size()) return fail(Errc::kInvalid, "server {} is no member", args.server);
  const ServerEntry& entry = servers[args.server];
  if (!may_have_set(entry))
    return fail(Errc::kInvalid, "server {} ({}) is {}: it has no backing set", args.server, entry.name,
                wire::role_name(entry.role));
  if (args.instance == 0 || args.copies < 1 || args.copies > wire::kMaxBackingMembers)
    return fail(Errc::kInvalid, "a backing set has 1 to {} copies", wire::kMaxBackingMembers);
  auto set = place_of(next.backing_sets, args.server);
  if (set == next.backing_sets.end() || set->server != args.server) {
    if (!lost && lost.error().code == Errc::kNotFound) return make(args, next);
    if (!lost) return fail(Errc::kUnavailable, "the backing set of {}: {}", entry.name, lost.error().message);
    SLICE_RETURN_IF_ERROR(put(*lost, next));
    set = place_of(next.backing_sets, args.server);
  }
  set->copies = args.copies;
  if (set->instance == args.instance) return {};
  const bool may_take = set->instance == args.former || hooks_.is_to_serve(args.server, args.instance);
  if (!may_take && hooks_.is_twice(args.server))
    return fail(Errc::kUnavailable, "another run of {} is alive, which has its backing set of epoch {}",
                entry.name, set->epoch.value);
  ++set->epoch.value;
  set->instance = args.instance;
  set->change = 0;
  return {};
}

Status BackingSets::make(const wire::BackingClaimArgs& args, ManagerState& next) const {
  const ServerEntry& entry = next.tables.servers[args.server];
  // What it had would be there no more, and nothing would say so.
  if (next.recorded.contains(entry.name))
    return fail(Errc::kInvalid,
                "{} has served, and no backing set of it is known: it keeps what it has in its data "
                "directory, or the manager's state was lost",
                entry.name);
  BackingSet set{.server = args.server,
                 .epoch = BackingEpoch{1},
                 .instance = args.instance,
                 .copies = args.copies,
                 .change = 0,
                 .members = {}};
  while (set.members.size() < args.copies) {
    const auto storage = spare_for(next, set.members, hooks_.alive);
    if (!storage) break;
    set.members.push_back(*storage);
  }
  if (set.members.empty())
    return fail(Errc::kUnavailable, "no storage server that is in use is heard of: a set has one at least");
  next.backing_sets.insert(place_of(next.backing_sets, args.server), std::move(set));
  return {};
}

Task<wire::BackingMembersResult> BackingSets::set_members(wire::BackingMembersArgs args) {
  const Status changed =
      co_await hooks_.change([&](ManagerState& next) { return change_members(args, next); });
  wire::BackingMembersResult result;
  if (!changed) {
    refused_.add();
    log_warning("the backing set of server {} keeps its members: {}", args.owner.server,
                changed.error().message);
    result.refused = changed.error().message;
    if (const BackingSet* known = find_set(hooks_.state, args.owner.server)) result.set = *known;
    co_return result;
  }
  changes_.add();
  result.set = *find_set(hooks_.state, args.owner.server);
  log_info("the backing set of {} is on {} now epoch={}",
           hooks_.state.tables.servers.at(args.owner.server).name, names(hooks_.state, args.members),
           args.owner.epoch.value);
  co_return result;
}

Status BackingSets::change_members(const wire::BackingMembersArgs& args, ManagerState& next) const {
  auto set = place_of(next.backing_sets, args.owner.server);
  if (set == next.backing_sets.end() || set->server != args.owner.server)
    return fail(Errc::kNotFound, "server {} has no backing set", args.owner.server);
  if (set->epoch != args.owner.epoch || set->instance != args.owner.instance)
    return fail(Errc::kStale, "the set is of epoch {} and another run: epoch {} is over", set->epoch.value,
                args.owner.epoch.value);
  // Sent again, since the answer was lost.
  if (args.change == set->change && args.members == set->members) return {};
  if (args.change <= set->change)
    return fail(Errc::kStale, "a later change of its members, {}, has come before this one, {}", set->change,
                args.change);
  SLICE_RETURN_IF_ERROR(check_members(args.members, next));
  set->change = args.change;
  set->members = args.members;
  return {};
}

Task<wire::BackingKeepResult> BackingSets::keep(wire::BackingKeepArgs args) {
  const BackingSet& said = args.set;
  const auto has_it = [&said](const BackingSet* known) {
    if (known == nullptr || known->epoch < said.epoch) return false;
    // A later one is another owner's, whom this one's nodes tell of.
    return known->epoch > said.epoch || (known->instance == said.instance && known->change >= said.change);
  };
  wire::BackingKeepResult result;
  if (has_it(find_set(hooks_.state, said.server))) co_return result;
  const Status kept = co_await hooks_.change([&](ManagerState& next) -> Status {
    const BackingSet* known = find_set(next, said.server);
    if (known != nullptr && known->epoch == said.epoch && known->instance != said.instance)
      return fail(Errc::kStale, "epoch {} is another run's", said.epoch.value);
    return has_it(known) ? Status{} : put(said, next);
  });
  if (kept) {
    found_.add();
    log_warning("the backing set of {} was not known so: its owner says epoch={} members={}",
                hooks_.state.tables.servers.at(said.server).name, said.epoch.value,
                names(hooks_.state, said.members));
  } else {
    refused_.add();
    result.refused = kept.error().message;
  }
  co_return result;
}

Task<wire::BackingAdoptResult> BackingSets::adopt(wire::BackingAdoptArgs args) {
  BackingSet set{.server = args.server,
                 .epoch = epoch_behind(co_await hooks_.ask_nodes(args.server)),
                 .instance = 0,
                 .copies = static_cast<std::uint32_t>(args.members.size()),
                 .change = 0,
                 .members = std::move(args.members)};
  const Status adopted = co_await hooks_.change([&](ManagerState& next) -> Status {
    if (find_set(next, set.server) != nullptr)
      return fail(Errc::kExists, "who has it is known (slicectl backing)");
    return put(set, next);
  });
  wire::BackingAdoptResult result;
  if (adopted) {
    found_.add();
    log_warning("the backing set of {} has these members, an operator says: {}",
                hooks_.state.tables.servers.at(set.server).name, names(hooks_.state, set.members));
  } else {
    result.refused = adopted.error().message;
  }
  co_return result;
}

bool BackingSets::may_be_lost(std::uint32_t server) const {
  const auto& servers = hooks_.state.tables.servers;
  return server < servers.size() && find_set(hooks_.state, server) == nullptr &&
         hooks_.state.recorded.contains(servers[server].name);
}

wire::BackingSpareResult BackingSets::spare(const wire::BackingSpareArgs& args) const {
  const BackingSet* set = find_set(hooks_.state, args.server);
  if (set == nullptr) return {};
  const auto found = spare_for(hooks_.state, set->members, hooks_.alive);
  return {.found = found.has_value(), .storage = found.value_or(0)};
}

wire::BackingSetsResult BackingSets::list() const {
  return {hooks_.state.backing_sets};
}

}  // namespace slice::manager
