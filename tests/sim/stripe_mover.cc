#include "tests/sim/stripe_mover.h"

#include "service/internal_call.h"
#include "wire/coordinator.h"

namespace slice::sim {
namespace {

constexpr rpc::Endpoint kStripeMover{0x0a4d01fe, 700};  // 10.77.1.254
constexpr std::uint32_t kNoServer = 0xffffffff;         // no server
constexpr Duration kMoveTimeout = std::chrono::seconds(10);

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
  return tables.server_of(wire::Role::kCoordinator, tables.coordinator_site(file)).endpoint;
}

Task<void> StripeMover::move_one(routing::HandleBytes handle, std::uint64_t stripes) {
  const std::uint32_t sites = ensemble_.tables().core().site_mask[SLICE_CLASS_STORAGE] + 1;
  wire::MoveArgs args{handle, random_.below(stripes), static_cast<std::uint32_t>(random_.below(sites))};
  ensemble_.trace().note("stripe {} is to be moved to site {}", args.stripe, args.site);
  auto result = co_await service::internal_call<wire::CoordinatorResult>(
      socket_, coordinator_of(handle), wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMove, args,
      kMoveTimeout);
  ensemble_.trace().note("stripe {}: {}", args.stripe,
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
