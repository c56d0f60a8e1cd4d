#include "control/manager/members.h"

#include <algorithm>

#include "rpc/endpoint.h"

namespace slice::manager {
namespace {

using wire::ServerChange;
using wire::ServerEntry;
using Field = wire::ChangeServerArgs::Field;

// Of a host or a rack; empty: it is not said.
Status check_place(std::string_view what, const std::string& name) {
  if (name.empty() || is_server_name(name)) return {};
  return fail(Errc::kInvalid, "a {}'s name is 1 to 63 letters, digits, '-', '_' or '.'", what);
}

// What `fields` names of `from` becomes `to`'s. True: that changes it.
bool take_fields(const ServerEntry& from, std::uint32_t fields, ServerEntry& to) {
  bool changed = false;
  auto take = [&](Field field, const auto& wanted, auto& now) {
    if ((fields & field) == 0 || wanted == now) return;
    now = wanted;
    changed = true;
  };
  take(Field::kEndpoint, from.endpoint, to.endpoint);
  take(Field::kWeight, from.weight, to.weight);
  take(Field::kHost, from.host, to.host);
  take(Field::kRack, from.rack, to.rack);
  return changed;
}

Status add(const EnsembleConfig& config, const wire::ChangeServerArgs& args, ManagerState& next) {
  const ServerEntry& wanted = args.entry;
  wire::Tables& tables = next.tables;
  if (!is_server_name(wanted.name))
    return fail(Errc::kInvalid, "a name is 1 to 63 letters, digits, '-', '_' or '.'");
  if (wanted.role == wire::Role::kManager && !config.managers.shared())
    return fail(Errc::kInvalid, "the manager is where every process's configuration says");
  if (wanted.role > wire::Role::kProxy) return fail(Errc::kInvalid, "that is no role of a member");
  if (const ServerEntry* known = wire::find_member(tables, wanted.name)) {
    ServerEntry same = *known;
    if (known->role != wanted.role)
      return fail(Errc::kExists, "server '{}' is a {}", wanted.name, wire::role_name(known->role));
    if (known->endpoint != wanted.endpoint)
      return fail(Errc::kExists, "server '{}' is at {} (slicectl server set)", wanted.name,
                  rpc::to_string(known->endpoint));
    if (take_fields(wanted, args.fields, same))
      return fail(Errc::kExists, "server '{}' has another weight, host or rack (slicectl server set)",
                  wanted.name);
    return {};  // it is so
  }
  SLICE_RETURN_IF_ERROR(check_endpoint(config, tables, wanted));
  if (wanted.role == wire::Role::kManager &&
      std::count_if(tables.servers.begin(), tables.servers.end(), [](const ServerEntry& each) {
        return each.role == wire::Role::kManager;
      }) >= static_cast<std::ptrdiff_t>(kMaxManagers))
    return fail(Errc::kTooLarge, "an ensemble has {} managers at most", kMaxManagers);
  if (tables.servers.size() >= kMaxServers)
    return fail(Errc::kTooLarge, "an ensemble has {} servers at most, with those that were removed",
                kMaxServers);
  ++tables.generation.value;
  ServerEntry entry = wanted;
  entry.server = static_cast<std::uint32_t>(tables.servers.size());
  entry.drained = false;
  entry.since = tables.generation;
  tables.servers.push_back(std::move(entry));
  return {};
}

Status set(const EnsembleConfig& config, const wire::ChangeServerArgs& args, ServerEntry& known,
           wire::Tables& tables) {
  if ((args.fields & Field::kEndpoint) != 0) {
    if (known.role == wire::Role::kManager)
      return fail(Errc::kInvalid, "the manager is where every process's configuration says");
    SLICE_RETURN_IF_ERROR(check_endpoint(config, tables, args.entry));
  }
  if (take_fields(args.entry, args.fields, known)) ++tables.generation.value;
  return {};
}

// All that is left of it is at others, or nowhere. Its moves end; a later verifier than any that it gave is
// drawn.
Status lose(ServerEntry& known, ManagerState& next) {
  if (known.role != wire::Role::kStorage)
    return fail(
        Errc::kInvalid,
        "{} is a {} server: what it has no other has, so it cannot be done without. It comes back by its "
        "name, with its data or from a backup that has it, on another host after slicectl server set {} "
        "--address",
        known.name, wire::role_name(known.role), known.name);
  if (known.lost.value != 0) return {};  // it is so
  known.drained = true;
  known.lost = Verifier{++next.drawn.value};
  for (MoveRecord& each : next.moves) {
    if (each.move.from == known.server || each.move.to == known.server) each.aborting = true;
  }
  ++next.tables.generation.value;
  return {};
}

Status remove(const EnsembleConfig& config, ServerEntry& known, ManagerState& next) {
  if (known.role == wire::Role::kManager && !config.managers.shared())
    return fail(Errc::kInvalid, "the manager cannot be removed");
  const auto& servers = next.tables.servers;
  const bool last = std::none_of(servers.begin(), servers.end(), [&](const ServerEntry& each) {
    return each.role == known.role && each.server != known.server;
  });
  if (last) return fail(Errc::kInvalid, "{} is the last {} server", known.name, wire::role_name(known.role));
  if (std::string left = what_keeps(next, known); !left.empty())
    return fail(Errc::kInvalid, "{} cannot be removed: it {}", known.name, left);
  next.recorded.erase(known.name);
  std::erase_if(next.backing_sets, [&](const wire::BackingSet& each) { return each.server == known.server; });
  known = {.server = known.server,
           .role = wire::Role::kRemoved,
           .endpoint = {},
           .name = known.name,
           .since = known.since,
           .lost = known.lost};
  ++next.tables.generation.value;
  return {};
}

}  // namespace

Status check_endpoint(const EnsembleConfig& config, const wire::Tables& tables, const ServerEntry& wanted) {
  for (const ServerEntry& entry : tables.servers) {
    const bool other = entry.role != wire::Role::kRemoved && entry.name != wanted.name;
    if (other && entry.endpoint == wanted.endpoint)
      return fail(Errc::kInvalid, "{} is at {}", entry.name, rpc::to_string(entry.endpoint));
  }
  if (config.proxy.is_virtual(wanted.endpoint.address) || wanted.endpoint.port == 0)
    return fail(Errc::kInvalid, "{} is no address of a server", rpc::to_string(wanted.endpoint));
  if (!config.network.takes(wanted.endpoint.address))
    return fail(Errc::kInvalid, "{} is in no network of [network] internal", rpc::to_string(wanted.endpoint));
  return {};
}

std::string what_keeps(const ManagerState& state, const ServerEntry& server) {
  std::string text;
  auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", and ") + what; };
  const auto moves = std::count_if(state.moves.begin(), state.moves.end(), [&](const MoveRecord& each) {
    return each.move.from == server.server || each.move.to == server.server;
  });
  const std::string_view role = wire::role_name(server.role);
  const auto sites = wire::sites_of(state.tables, server.name);
  if (!sites.empty()) add(fmt::format("has {} {} sites (slicectl server drain)", sites.size(), role));
  if (moves > 0)
    add(moves == 1 ? "is part of a move that goes on (slicectl moves)"
                   : fmt::format("is part of {} moves that go on (slicectl moves)", moves));
  for (const wire::BackingSet& each : state.backing_sets) {
    if (std::find(each.members.begin(), each.members.end(), server.server) != each.members.end())
      add(fmt::format("has a copy of the backing set of {} (slicectl backing)",
                      state.tables.servers.at(each.server).name));
  }
  return text;
}

Status change_members(const EnsembleConfig& config, const wire::ChangeServerArgs& args, ManagerState& next) {
  SLICE_RETURN_IF_ERROR(check_place("host", args.entry.host));
  SLICE_RETURN_IF_ERROR(check_place("rack", args.entry.rack));
  if (args.change == ServerChange::kAdd) return add(config, args, next);
  wire::Tables& tables = next.tables;
  ServerEntry* known = wire::find_member(tables, args.entry.name);
  if (known == nullptr) {
    const bool removed = std::any_of(tables.servers.begin(), tables.servers.end(),
                                     [&](const ServerEntry& each) { return each.name == args.entry.name; });
    const bool goes = args.change == ServerChange::kRemove || args.change == ServerChange::kLose;
    if (removed && goes) return {};  // it is so
    return fail(Errc::kNotFound, "no server has the name '{}'{}", args.entry.name,
                removed ? ": it was removed" : "");
  }
  const bool drained = args.change == ServerChange::kDrain;
  switch (args.change) {
    case ServerChange::kSet:
      return set(config, args, *known, tables);
    case ServerChange::kRemove:
      return remove(config, *known, next);
    case ServerChange::kLose:
      return lose(*known, next);
    default:
      if (known->lost.value != 0) return fail(Errc::kInvalid, "{} was declared lost", known->name);
      if (std::exchange(known->drained, drained) != drained) ++tables.generation.value;
      return {};
  }
}

}  // namespace slice::manager
