#include "dirserver/across/peer_service.h"

#include <algorithm>

namespace slice::dirserver {
namespace {

using wire::PeerStatus;

// No more than a client's listing takes at once.
constexpr std::uint32_t kMaxPage = 64 << 10;

}  // namespace

PeerService::PeerService(NameSpace& names, DirectoryParts& parts, Participant& participant,
                         const Intentions& intentions, Peers& peers, TakeCells take_cells)
    : InternalProgram(wire::kDirectoryProgram),
      names_(names),
      peers_(peers),
      take_cells_(std::move(take_cells)),
      parts_(parts),
      participant_(participant),
      intentions_(intentions) {
  using Procedure = wire::DirectoryProcedure;
  on<wire::LockArgs>(Procedure::kLock, [this](const auto& args) { return participant_.lock(args); });
  on<wire::PrepareArgs>(Procedure::kPrepare, [this](const auto& args) { return prepare(args); });
  on<wire::FinishArgs>(Procedure::kFinish, [this](const auto& args) { return finish(args); });
  on<wire::OutcomeArgs>(Procedure::kOutcome, [this](const auto& args) { return outcome(args); });
  on<wire::CellReadArgs>(Procedure::kRead, [this](const auto& args) { return read(args); });
  on<wire::TouchArgs>(Procedure::kTouch, [this](const auto& args) { return touch(args); });
  on<wire::RevokeArgs>(Procedure::kRevoke, [this](const auto& args) { return revoke(args); });
  on<wire::ListArgs>(Procedure::kList, [this](const auto& args) { return list(args); });
  on<wire::OwnerArgs>(Procedure::kOwner, [this](const auto& args) { return owner(args); });
  on<wire::CellsArgs>(Procedure::kCells, [this](const auto& args) { return take_cells_(args); });
}

Task<wire::PeerResult> PeerService::prepare(const wire::PrepareArgs& args) {
  co_return wire::PeerResult{co_await participant_.prepare(args)};
}

Task<wire::PeerResult> PeerService::finish(const wire::FinishArgs& args) {
  co_return wire::PeerResult{co_await participant_.finish(args)};
}

Task<wire::OutcomeResult> PeerService::outcome(const wire::OutcomeArgs& args) {
  if (!co_await peers_.here(args.id.site)) co_return wire::OutcomeResult{.status = PeerStatus::kMisdirected};
  co_return wire::OutcomeResult{.outcome = intentions_.outcome(id_of(args.id))};
}

Task<wire::CellResult> PeerService::read(const wire::CellReadArgs& args) {
  if (!co_await peers_.here(args.cell.site)) co_return wire::CellResult{PeerStatus::kMisdirected, {}};
  CellRef ref = ref_of(args.cell);
  // A lease is given only while nobody is about to change what it promises.
  if (args.lease) {
    while (names_.held.stops_change({ref.fileid, {}}, LockMode::kShared, nullptr)) {
      co_await names_.held.changed({ref.fileid, {}}, std::chrono::seconds(1));
    }
    if (!names_.cells.owns(ref.site)) co_return wire::CellResult{PeerStatus::kMisdirected, {}};
    parts_.grant(ref.fileid);
  }
  storage::LogPosition shown;
  auto cell = co_await names_.read_cell(ref, shown);
  if (!cell) co_return wire::CellResult{PeerStatus::kFailed, {}};
  if (!co_await names_.cells.durable(shown)) co_return wire::CellResult{PeerStatus::kFailed, {}};
  if (!*cell) co_return wire::CellResult{PeerStatus::kStale, {}};
  co_return wire::CellResult{PeerStatus::kOk, encode(**cell)};
}

Task<wire::CellResult> PeerService::touch(const wire::TouchArgs& args) {
  co_return co_await parts_.touched(args);
}

wire::PeerResult PeerService::revoke(const wire::RevokeArgs& args) {
  parts_.forget(args.directory);
  return {};
}

Task<wire::ListResult> PeerService::list(const wire::ListArgs& args) {
  storage::LogPosition shown;
  auto page = co_await names_.list_here(
      ref_of(args.directory), decode_cookie(args.after),
      {.bytes = std::min(args.bytes, kMaxPage), .attributes = args.attributes}, shown);
  if (!page || !co_await names_.cells.durable(shown))
    co_return wire::ListResult{.status = PeerStatus::kFailed, .sites = {}, .names = {}};
  co_return wire::ListResult{
      .end = page->end, .sites = std::move(page->sites), .names = std::move(page->names)};
}

wire::OwnerResult PeerService::owner(const wire::OwnerArgs& args) {
  if (args.site.value >= names_.placement.sites()) return {.status = PeerStatus::kStale};
  return {.server = peers_.server_of(args.site)};
}

}  // namespace slice::dirserver
