#include "dirserver/peer_service.h"

#include <algorithm>

#include "dirserver/names_page.h"

namespace slice::dirserver {
namespace {

using wire::PeerStatus;

// No more than a client's listing takes at once.
constexpr std::uint32_t kMaxPage = 64 << 10;

}  // namespace

template <class Args>
Task<rpc::Outcome> PeerService::answer(const rpc::Call& call, rpc::XdrWriter& results) {
  Args args;
  if (!wire::decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
  encode(results, co_await serve(args));
  co_return rpc::Outcome::kReply;
}

Task<rpc::Outcome> PeerService::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  using Procedure = wire::DirectoryProcedure;
  if (!call.internal) co_return rpc::Outcome::kDenied;
  switch (static_cast<Procedure>(call.procedure)) {
    case Procedure::kNull:
      co_return rpc::Outcome::kReply;
    case Procedure::kLock:
      co_return co_await answer<wire::LockArgs>(call, results);
    case Procedure::kPrepare:
      co_return co_await answer<wire::PrepareArgs>(call, results);
    case Procedure::kFinish:
      co_return co_await answer<wire::FinishArgs>(call, results);
    case Procedure::kOutcome:
      co_return co_await answer<wire::OutcomeArgs>(call, results);
    case Procedure::kRead:
      co_return co_await answer<wire::CellReadArgs>(call, results);
    case Procedure::kTouch:
      co_return co_await answer<wire::TouchArgs>(call, results);
    case Procedure::kRevoke:
      co_return co_await answer<wire::RevokeArgs>(call, results);
    case Procedure::kList:
      co_return co_await answer<wire::ListArgs>(call, results);
  }
  co_return rpc::Outcome::kNoProcedure;
}

Task<wire::LockResult> PeerService::serve(const wire::LockArgs& args) {
  return volume_.participant.lock(args);
}

Task<wire::PeerResult> PeerService::serve(const wire::PrepareArgs& args) {
  co_return wire::PeerResult{co_await volume_.participant.prepare(args)};
}

Task<wire::PeerResult> PeerService::serve(const wire::FinishArgs& args) {
  co_return wire::PeerResult{co_await volume_.participant.finish(args)};
}

Task<wire::OutcomeResult> PeerService::serve(const wire::OutcomeArgs& args) {
  if (!volume_.peers.owns(args.id.site)) co_return wire::OutcomeResult{.status = PeerStatus::kMisdirected};
  co_return wire::OutcomeResult{.outcome = volume_.intentions.outcome(id_of(args.id))};
}

Task<wire::CellResult> PeerService::serve(const wire::CellReadArgs& args) {
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

Task<wire::CellResult> PeerService::serve(const wire::TouchArgs& args) {
  if (!volume_.peers.owns(args.directory.site)) co_return wire::CellResult{PeerStatus::kMisdirected, {}};
  co_return co_await volume_.parts.touched(args);
}

Task<wire::PeerResult> PeerService::serve(const wire::RevokeArgs& args) {
  volume_.parts.forget(args.directory);
  co_return wire::PeerResult{};
}

Task<wire::ListResult> PeerService::serve(const wire::ListArgs& args) {
  storage::LogPosition shown;
  auto page =
      co_await names_here(volume_, ref_of(args.directory), decode_cookie(args.after),
                          {.bytes = std::min(args.bytes, kMaxPage), .attributes = args.attributes}, shown);
  if (!page || !co_await volume_.cells.durable(shown))
    co_return wire::ListResult{.status = PeerStatus::kFailed, .names = {}};
  co_return wire::ListResult{.end = page->end, .names = std::move(page->names)};
}

}  // namespace slice::dirserver
