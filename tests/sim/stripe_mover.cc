#include "tests/sim/stripe_mover.h"

#include "routing/copies.h"
#include "service/internal_call.h"
#include "wire/coordinator.h"
#include "wire/listed_site.h"

namespace slice::sim {
namespace {

constexpr rpc::Endpoint kStripeMover{0x0a4d01fe, 700};  // 10.77.1.254
constexpr std::uint32_t kNoServer = 0xffffffff;         // no server
constexpr Duration kMoveTimeout = std::chrono::seconds(10);
constexpr double kStops = 0.2;  // of what is told to a coordinator of evening out

}  // namespace

StripeMover::StripeMover(SimEnsemble& ensemble)
    : ensemble_(ensemble),
      random_(ensemble.random().fork("stripe mover")),
      loop_(ensemble.loop()),
      socket_(loop_, ensemble.network(),
              {.self = kStripeMover,
               .member = true,
               .sender = kNoServer,
               .first_xid = static_cast<std::uint32_t>(random_.next())}) {}

rpc::Endpoint StripeMover::coordinator_of(const routing::HandleBytes& handle) const {
  FileId file = ensemble_.handles().open(handle)->fileid;
  const routing::RoutingTables& tables = ensemble_.tables();
  return ensemble_.endpoint_of(
      tables.server_of(wire::Role::kCoordinator, tables.coordinator_site(file)).server);
}

std::vector<std::uint32_t> StripeMover::nodes() const {
  std::vector<std::uint32_t> servers;
  for (const ServerConfig& each : ensemble_.config().servers) {
    if (each.role == ServerRole::kStorage) servers.push_back(each.index);
  }
  return servers;
}

// A storage site, or any servers, be they members or not.
std::uint32_t StripeMover::any_site(const routing::HandleBytes& handle) {
  const std::uint32_t sites = ensemble_.tables().core().site_mask[SLICE_CLASS_STORAGE] + 1;
  if (random_.chance(0.5)) return static_cast<std::uint32_t>(random_.below(sites));
  std::vector<std::uint32_t> servers = nodes();
  for (std::size_t i = servers.size(); i > 1; --i) std::swap(servers[i - 1], servers[random_.below(i)]);
  servers.resize(routing::copies_of(*ensemble_.handles().open(handle)));
  return wire::listed_site(servers);
}

Task<void> StripeMover::move_one(routing::HandleBytes handle, std::uint64_t stripes) {
  wire::MoveArgs args{handle, random_.below(stripes), any_site(handle)};
  ensemble_.trace().note("stripe {} is to be moved to site {}", args.stripe, args.site);
  auto result = co_await service::internal_call<wire::CoordinatorResult>(
      socket_, coordinator_of(handle), wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMove, args,
      kMoveTimeout);
  ensemble_.trace().note("stripe {}: {}", args.stripe,
                         result ? nfs3::status_name(result->status) : "no answer");
}

Task<void> StripeMover::spread() {
  const auto coordinators = ensemble_.tables().servers(wire::Role::kCoordinator);
  const wire::ServerEntry& chosen = *coordinators[random_.below(coordinators.size())];
  wire::SpreadArgs args;
  const bool stops = random_.chance(kStops);
  for (std::uint32_t node : stops ? std::vector<std::uint32_t>() : nodes())
    args.shares.push_back({node, random_.below(4)});
  auto result = co_await service::internal_call<wire::CoordinatorResult>(
      socket_, ensemble_.endpoint_of(chosen.server), wire::kCoordinatorProgram,
      wire::CoordinatorProcedure::kSpread, args, kMoveTimeout);
  ensemble_.trace().note("{} {}: {}", chosen.name, stops ? "leaves off" : "evens out",
                         result ? nfs3::status_name(result->status) : "no answer");
}

Task<std::optional<wire::MapPiece>> StripeMover::map(routing::HandleBytes handle, std::uint64_t stripe) {
  auto result = co_await service::internal_call<wire::MapResult>(
      socket_, coordinator_of(handle), wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMap,
      wire::MapArgs{handle, stripe}, kMoveTimeout);
  if (!result || result->status != nfs3::Status::kOk) co_return std::nullopt;
  co_return std::move(result->piece);
}

}  // namespace slice::sim
