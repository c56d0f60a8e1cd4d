#include "control/slicectl/plans.h"

#include <algorithm>
#include <set>

#include "control/slicectl/rebalance.h"
#include "service/internal_call.h"
#include "wire/coordinator.h"
#include "wire/layout.h"

namespace slice::slicectl {
namespace {

// What every server that may have sites of the class is to have: by its weight, and where it has none by the
// size of its disk, if that has the bytes of files; those of the other classes, which move little, count 1.
std::vector<Share> shares_of(const wire::MembersResult& members, wire::Role site_class) {
  std::vector<Share> shares;
  for (const wire::Member& each : members.members) {
    const bool lost = each.entry.lost.value != 0;
    if (each.entry.role != site_class || (!each.alive && !lost)) continue;
    std::uint64_t weight = each.entry.weight;
    const bool has_bytes = site_class == wire::Role::kStorage || site_class == wire::Role::kSmallFile;
    if (weight == 0 && has_bytes) weight = each.last.total_bytes;
    shares.push_back({each.entry.server, each.entry.drained ? 0 : std::max<std::uint64_t>(weight, 1)});
  }
  return shares;
}

// Where sites are, and will be by the moves that go on; and which ones those are.
struct Owners {
  std::vector<std::uint32_t> servers;  // by site
  std::set<std::uint32_t> on_their_way;
};

Owners owners_of(const routing::RoutingTables& tables, const wire::MovesListResult& moves,
                 wire::Role site_class) {
  Owners owners{.servers = tables.wire().sites[static_cast<std::size_t>(site_class)], .on_their_way = {}};
  for (const wire::MoveState& each : moves.moves) {
    if (!going_on(each) || each.move.site_class != site_class) continue;
    for (std::uint32_t site : each.move.sites) {
      owners.on_their_way.insert(site);
      if (!each.aborting) owners.servers.at(site) = each.move.to;
    }
  }
  return owners;
}

}  // namespace

Task<Result<Known>> ask_known(const Seams& seams) {
  auto members = co_await ask_members(seams);
  if (!members) co_return fail(std::move(members).error());
  auto tables = co_await ask_tables(seams);
  if (!tables) co_return fail(std::move(tables).error());
  auto going = co_await ask_moves(seams);
  if (!going) co_return fail(std::move(going).error());
  co_return Known{std::move(*members), std::move(*tables), std::move(*going)};
}

Result<Plan> plan_of(const Known& known, wire::Role site_class) {
  const Owners owners = owners_of(*known.tables, known.going, site_class);
  auto moves = plan_rebalance(owners.servers, shares_of(known.members, site_class));
  if (!moves) return fail(std::move(moves).error());
  for (SitesToMove& each : *moves) {
    std::erase_if(each.sites, [&](std::uint32_t site) { return owners.on_their_way.contains(site); });
  }
  std::erase_if(*moves, [](const SitesToMove& each) { return each.sites.empty(); });
  return Plan{site_class, std::move(*moves)};
}

Result<std::vector<Plan>> plans_of(const Known& known) {
  std::vector<Plan> plans;
  for (wire::Role site_class : wire::kClassesOfSites) {
    if (known.tables->servers(site_class).empty()) continue;
    auto plan = plan_of(known, site_class);
    if (!plan) return fail(std::move(plan).error());
    plans.push_back(std::move(*plan));
  }
  return plans;
}

Result<Plan> plan_without(const Known& known, const wire::ServerEntry& server) {
  auto plan = plan_of(known, server.role);
  if (!plan) return plan;
  std::erase_if(plan->moves, [&](const SitesToMove& each) { return each.from != server.server; });
  return plan;
}

Task<Status> carry_out(const Seams& seams, Plan plan) {
  for (const SitesToMove& each : plan.moves) {
    auto begun = co_await ask_to_move(seams, {plan.site_class, each.to, each.sites});
    if (!begun) co_return fail(std::move(begun).error());
  }
  co_return Status{};
}

namespace {

Task<Status> ask_to_spread(const Seams& seams, const routing::RoutingTables& tables, wire::SpreadArgs args) {
  for (const wire::ServerEntry* each : tables.servers(wire::Role::kCoordinator)) {
    auto result = co_await service::internal_call<wire::CoordinatorResult>(
        seams.channel, each->endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kSpread, args,
        seams.timeout);
    if (!result) co_return fail(result.error(), each->name);
    if (result->status != nfs3::Status::kOk)
      co_return fail(Errc::kUnavailable, "{} answered {}", each->name, nfs3::status_name(result->status));
  }
  co_return Status{};
}

}  // namespace

Task<Status> spread_layouts(const Seams& seams, const Known& known) {
  wire::SpreadArgs args{.known = known.tables->generation(), .shares = {}};
  for (const Share& each : shares_of(known.members, wire::Role::kStorage))
    args.shares.push_back({each.server, each.weight});
  if (args.shares.empty()) co_return fail(Errc::kUnavailable, "no storage server is alive");
  co_return co_await ask_to_spread(seams, *known.tables, std::move(args));
}

Task<Status> stop_spreading(const Seams& seams, const routing::RoutingTables& tables) {
  co_return co_await ask_to_spread(seams, tables, {.known = tables.generation(), .shares = {}});
}

}  // namespace slice::slicectl
