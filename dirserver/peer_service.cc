#include "dirserver/peer_service.h"

#include <algorithm>

#include "dirserver/names_page.h"

namespace slice::dirserver {
namespace {

using wire::PeerStatus;

// No more than a client's listing takes at once.
constexpr std::uint32_t kMaxPage = 64 << 10;

}  // namespace

PeerService::PeerService(Volume& volume) : InternalProgram(wire::kDirectoryProgram), volume_(volume) {
  using Procedure = wire::DirectoryProcedure;
  on<wire::LockArgs>(Procedure::kLock, [this](const auto& args) { return volume_.participant.lock(args); });
  on<wire::PrepareArgs>(Procedure::kPrepare, [this](const auto& args) { return prepare(args); });
  on<wire::FinishArgs>(Procedure::kFinish, [this](const auto& args) { return finish(args); });
  on<wire::OutcomeArgs>(Procedure::kOutcome, [this](const auto& args) { return outcome(args); });
  on<wire::CellReadArgs>(Procedure::kRead, [this](const auto& args) { return read(args); });
  on<wire::TouchArgs>(Procedure::kTouch, [this](const auto& args) { return touch(args); });
  on<wire::RevokeArgs>(Procedure::kRevoke, [this](const auto& args) { return revoke(args); });
  on<wire::ListArgs>(Procedure::kList, [this](const auto& args) { return list(args); });
}

Task<wire::PeerResult> PeerService::prepare(const wire::PrepareArgs& args) {
  co_return wire::PeerResult{co_await volume_.participant.prepare(args)};
}

Task<wire::PeerResult> PeerService::finish(const wire::FinishArgs& args) {
  co_return wire::PeerResult{co_await volume_.participant.finish(args)};
}

wire::OutcomeResult PeerService::outcome(const wire::OutcomeArgs& args) {
  if (!volume_.peers.owns(args.id.site)) return {.status = PeerStatus::kMisdirected};
  return {.outcome = volume_.intentions.outcome(id_of(args.id))};
}

Task<wire::CellResult> PeerService::read(const wire::CellReadArgs& args) {
  if (!volume_.peers.owns(args.cell.site)) co_return wire::CellResult{PeerStatus::kMisdirected, {}};
  CellRef ref = ref_of(args.cell);
  // A lease is given only while nobody is about to change what it promises.
  if (args.lease) {
    while (volume_.held.stops_change({ref.fileid, {}}, LockMode::kShared, nullptr)) {
      co_await volume_.held.changed({ref.fileid, {}}, std::chrono::seconds(1));
    }
    volume_.parts.grant(ref.fileid);
  }
  storage::LogPosition shown;
  auto cell = co_await read_cell(volume_, ref, shown);
  if (!cell) co_return wire::CellResult{PeerStatus::kFailed, {}};
  if (!co_await volume_.cells.durable(shown)) co_return wire::CellResult{PeerStatus::kFailed, {}};
  if (!*cell) co_return wire::CellResult{PeerStatus::kStale, {}};
  co_return wire::CellResult{PeerStatus::kOk, encode(**cell)};
}

Task<wire::CellResult> PeerService::touch(const wire::TouchArgs& args) {
  if (!volume_.peers.owns(args.directory.site)) co_return wire::CellResult{PeerStatus::kMisdirected, {}};
  co_return co_await volume_.parts.touched(args);
}

wire::PeerResult PeerService::revoke(const wire::RevokeArgs& args) {
  volume_.parts.forget(args.directory);
  return {};
}

Task<wire::ListResult> PeerService::list(const wire::ListArgs& args) {
  storage::LogPosition shown;
  auto page =
      co_await names_here(volume_, ref_of(args.directory), decode_cookie(args.after),
                          {.bytes = std::min(args.bytes, kMaxPage), .attributes = args.attributes}, shown);
  if (!page || !co_await volume_.cells.durable(shown))
    co_return wire::ListResult{.status = PeerStatus::kFailed, .names = {}};
  co_return wire::ListResult{.end = page->end, .names = std::move(page->names)};
}

}  // namespace slice::dirserver
