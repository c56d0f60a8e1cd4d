#include "coordinator/ops/move.h"

#include <algorithm>

#include "service/internal_call.h"
#include "wire/listed_site.h"
#include "wire/object.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

constexpr Duration kCopyTimeout = std::chrono::seconds(5);
constexpr Duration kFirstMovePause = std::chrono::milliseconds(50),
                   kLongestMovePause = std::chrono::seconds(5);
constexpr Duration kFirstPaceNap = std::chrono::milliseconds(20);
constexpr int kPaceTries = 6;  // what the stripe before has left behind is given back meanwhile
constexpr int kCopyTries = 5;  // a truncation that passes, a layout that changes

std::vector<std::uint32_t> without(std::vector<std::uint32_t> servers,
                                   const std::vector<std::uint32_t>& others) {
  std::erase_if(servers, [&](std::uint32_t server) { return routing::has(others, server); });
  return servers;
}

}  // namespace

MoveOperation::MoveOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                             Sessions& sessions, Layouts& layouts)
    : context_(context),
      gate_(gate),
      intentions_(intentions),
      sessions_(sessions),
      layouts_(layouts),
      moved_(context.metrics.counter("coordinator_stripes_moved_total",
                                     "stripes of block-mapped files moved to another site")),
      given_up_(context.metrics.counter("coordinator_moves_given_up_total",
                                        "moves of stripes that ended where they began")) {}

MoveOperation::Move MoveOperation::plan(const routing::FileHandle& handle, std::uint64_t stripe, SiteId from,
                                        SiteId to) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  auto before = tables.copies_of(from, routing::copies_of(handle));
  auto after = tables.copies_of(to, routing::copies_of(handle));
  return {.handle = handle,
          .stripe = stripe,
          .to = to,
          .left = without(before, after),
          .come = without(after, before)};
}

bool MoveOperation::is_place(SiteId site, std::uint32_t copies) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  if (tables.is_left(site, copies)) return false;
  if (!wire::is_listed(site.value)) return site.value <= tables.core().site_mask[SLICE_CLASS_STORAGE];
  const auto listed = wire::listed_servers(site.value);
  return wire::is_good_site(site.value) && listed.size() == copies &&
         std::all_of(listed.begin(), listed.end(),
                     [&](std::uint32_t server) { return routing::has(tables.layout_servers(), server); });
}

Task<NfsStatus> MoveOperation::run(routing::FileHandle handle, std::uint64_t stripe, SiteId site) {
  bool sound = routing::has_layout(handle) && is_place(site, routing::copies_of(handle)) &&
               stripe <= wire::kAllStripes >> (handle.stripe_shift + 1);
  if (!sound) co_return NfsStatus::kInval;
  if (!busy_.insert(handle.fileid).second) co_return NfsStatus::kJukebox;
  co_return co_await run_alone(handle, stripe, site);
}

Task<bool> MoveOperation::run_at_pace(routing::FileHandle handle, std::uint64_t stripe, SiteId site,
                                      std::uint64_t bytes, std::uint64_t bytes_per_second) {
  Duration pause = kFirstPaceNap;
  for (int i = 0; i < kPaceTries; ++i, pause *= 2) {
    const NfsStatus status = co_await run(handle, stripe, site);
    if (status == NfsStatus::kOk) {
      const auto takes = std::chrono::nanoseconds(bytes * 1'000'000'000 / bytes_per_second);
      co_return co_await gate_.pause(handle.fileid, takes);
    }
    if (status != NfsStatus::kJukebox || !co_await gate_.pause(handle.fileid, pause)) break;
  }
  co_return false;
}

// Whoever ends it takes the file out of busy_: here, or when everything is given back.
Task<NfsStatus> MoveOperation::run_alone(routing::FileHandle handle, std::uint64_t stripe, SiteId site) {
  wire::LayoutResult now = co_await layouts_.give(handle, stripe, true);
  SiteId from = routing::site_of_stripe(*context_.tables.get(), now.layout, handle, stripe);
  Move move = plan(handle, stripe, from, site);
  NfsStatus status = now.status;
  if (status == NfsStatus::kOk && from != site && !ready(move)) status = NfsStatus::kJukebox;
  if (status != NfsStatus::kOk || from == site) {
    busy_.erase(handle.fileid);
    co_return status;
  }
  auto sequence = intentions_.begin({.operation = Operation::kMove,
                                     .handle = context_.handles.mint(handle),
                                     .stripe = stripe,
                                     .from_site = from.value,
                                     .to_site = site.value});
  if (!sequence) {
    busy_.erase(handle.fileid);
    co_return nfs3::status_of(sequence.error());
  }
  co_await context_.crash.reach("move.begun");
  if (auto durable = co_await intentions_.durable(*sequence); !durable) {
    intentions_.end(*sequence);
    busy_.erase(handle.fileid);
    co_return nfs3::status_of(durable.error());
  }
  co_await context_.crash.reach("move.durable");
  status = co_await carry_out(move);
  (status == NfsStatus::kOk ? moved_ : given_up_).add();
  // kIo: what is durable shows after the next start, which fulfils the intention.
  if (status != NfsStatus::kIo) {
    spawn(give_back(move, status == NfsStatus::kOk ? move.left : move.come, *sequence));
  }
  co_return status;
}

// A server that has missed something of the file, or is away, is nowhere to move to.
bool MoveOperation::ready(const Move& move) const {
  std::vector<wire::Missing> missing = layouts_.missing_of(move.handle.fileid);
  return std::all_of(move.come.begin(), move.come.end(), [&](std::uint32_t server) {
    return sessions_.live(server) && routing::find_missing(missing, server) == nullptr;
  });
}

Task<NfsStatus> MoveOperation::carry_out(const Move& move) {
  // What came there when the stripe was there before, and was not given back.
  for (std::uint32_t server : move.come) {
    if (co_await discard(move.handle, move.stripe, server) != NfsStatus::kOk) co_return NfsStatus::kJukebox;
  }
  if (!co_await layouts_.begin_move(move.handle, move.stripe, move.to)) co_return NfsStatus::kJukebox;
  bool copied = true;
  for (std::uint32_t server : move.come) copied = copied && co_await copy(move, server);
  co_await context_.crash.reach("move.copied");
  if (copied) {
    NfsStatus ended = co_await layouts_.end_move(move.handle, move.stripe);
    if (ended != NfsStatus::kJukebox) co_return ended;
  }
  co_await layouts_.give_up_move(move.handle);
  co_return NfsStatus::kJukebox;
}

Task<bool> MoveOperation::copy(const Move& move, std::uint32_t to) {
  routing::HandleBytes bytes = context_.handles.mint(move.handle);
  Duration pause = kFirstMovePause;
  for (int i = 0; i < kCopyTries; ++i, pause *= 2) {
    const routing::RoutingTables& tables = *context_.tables.get();
    auto layout = layouts_.of(move.handle, move.stripe);
    if (!layout || !layout->moving) co_return false;
    auto copies = routing::copies_of_stripe(tables, *layout, move.handle, move.stripe);
    if (copies.whole.empty()) co_return false;
    auto result = co_await gate_.unless_held(
        move.handle.fileid, service::internal_call<wire::ObjectStatusResult>(
                                context_.channel, tables.server(copies.whole.front())->endpoint,
                                wire::kObjectProgram, wire::ObjectProcedure::kCopy,
                                wire::CopyArgs{bytes, layout->version, move.stripe, to}, kCopyTimeout));
    if (!result) co_return false;
    if (*result && (*result)->status == NfsStatus::kOk) co_return true;
    if (!co_await gate_.pause(move.handle.fileid, pause)) co_return false;
  }
  co_return false;
}

Task<NfsStatus> MoveOperation::discard(routing::FileHandle handle, std::uint64_t stripe,
                                       std::uint32_t server) {
  const routing::RoutingTables& tables = *context_.tables.get();
  if (tables.server(server) == nullptr || tables.gone(server))
    co_return NfsStatus::kOk;  // with its disk it has left the ensemble
  auto layout = layouts_.of(handle, stripe);
  if (!layout) co_return nfs3::status_of(layout.error());
  routing::HandleBytes bytes = context_.handles.mint(handle);
  auto result = co_await ask_object<wire::ObjectStatusResult>(
      context_, gate_, handle.fileid, server, wire::ObjectProcedure::kDiscard,
      wire::DiscardArgs{bytes, layout->version, stripe});
  co_return result ? result->status : NfsStatus::kJukebox;
}

Task<void> MoveOperation::give_back(Move move, std::vector<std::uint32_t> servers,
                                    storage::LogSequence sequence) {
  const FileId file = move.handle.fileid;
  auto pass = gate_.enter(file);
  Duration pause = kFirstMovePause;
  while (!servers.empty() && !gate_.held(file)) {
    // It may have come there again since: where a piece is fitted anew, nobody waits for this.
    auto layout = layouts_.of(move.handle, move.stripe);
    const bool there =
        layout &&
        routing::has(
            routing::copies_of_stripe(*context_.tables.get(), *layout, move.handle, move.stripe).written,
            servers.back());
    NfsStatus status = there ? NfsStatus::kOk : co_await discard(move.handle, move.stripe, servers.back());
    co_await context_.crash.reach("move.given-back");
    if (status == NfsStatus::kOk) {
      servers.pop_back();
      continue;
    }
    if (log_.allow()) {
      log_warning("stripe {} of file {:#x} is not given back by server {} yet: {}", move.stripe,
                  move.handle.fileid.value, servers.back(), nfs3::status_name(status));
    }
    (void)co_await gate_.pause(file, pause);
    pause = std::min(pause * 2, kLongestMovePause);
  }
  busy_.erase(file);
  if (servers.empty()) {
    intentions_.end(sequence);
  } else {
    intentions_.leave(sequence);
  }
}

Task<void> MoveOperation::resume(storage::LogSequence sequence, const Intention& intention) {
  auto handle = context_.handles.open(intention.handle);
  if (!handle) {
    intentions_.end(sequence);
    co_return;
  }
  auto pass = gate_.enter(handle->fileid);
  busy_.insert(handle->fileid);
  auto layout = layouts_.of(*handle, intention.stripe);
  if (!layout) {
    log_error("a move of stripe {} of file {:#x} stays owed until the next start: {}", intention.stripe,
              handle->fileid.value, layout.error().message);
    co_return;
  }
  Move move = plan(*handle, intention.stripe, SiteId{intention.from_site}, SiteId{intention.to_site});
  SiteId now = routing::site_of_stripe(*context_.tables.get(), *layout, *handle, intention.stripe);
  // A removed file has no map any more, and nothing that could be given back; as one that is not block-mapped
  // and had nothing moved.
  bool removed = layout->piece.sites.empty() && routing::block_mapped(*handle);
  std::vector<std::uint32_t> servers = now == move.to ? move.left : move.come;
  if (removed) servers.clear();
  co_await sessions_.settled();
  co_await give_back(move, std::move(servers), sequence);
}

}  // namespace slice::coordinator
