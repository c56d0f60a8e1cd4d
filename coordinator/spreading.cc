#include "coordinator/spreading.h"

#include "wire/listed_site.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

Spreading::Spreading(service::ServiceContext& context, Parts parts, std::uint64_t bytes_per_second)
    : context_(context),
      parts_(parts),
      bytes_per_second_(bytes_per_second),
      pieces_(context, parts.gate, parts.maps),
      moved_(context.metrics.counter("coordinator_spread_stripes_total",
                                     "stripes moved to even out what storage servers have")),
      failed_(
          context.metrics.counter("coordinator_spread_failures_total",
                                  "stripes that could not be moved to even out what storage servers have")) {}

NfsStatus Spreading::begin(const wire::SpreadArgs& args) {
  if (stopping_ || context_.tables.get()->generation() < args.known) return NfsStatus::kJukebox;
  if (!working_) spawn(work(args.shares));
  return NfsStatus::kOk;
}

void Spreading::stop() {
  stopping_ = true;
  pieces_.stop();
}

std::string Spreading::detail() const {
  if (!working_) return "";
  return counting_ ? "counts stripes, to even them out" : fmt::format("evens out stripes, {} to go", left_);
}

Task<void> Spreading::work(std::vector<wire::ServerShare> shares) {
  working_ = counting_ = true;
  Balance balance(shares);
  auto counted = co_await each_piece(
      [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t stripes) -> Task<void> {
        for (const Balance::Servers& each : copies_of(handle, piece, stripes)) balance.count(each);
        co_return;
      });
  counting_ = false;
  const std::uint64_t moved = moved_.value(), failed = failed_.value();
  if (counted && balance.plan()) {
    left_ = balance.left();
    log_info(
        "files with a layout are not where they should be by the servers' shares: {} copies of stripes go",
        left_);
    counted = co_await each_piece(
        [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t stripes) -> Task<void> {
          co_await spread(handle, std::move(piece), stripes, balance);
          left_ = balance.left();
        });
    log_info("{} stripes were moved, {} were not", moved_.value() - moved, failed_.value() - failed);
  }
  if (!counted) log_warning("stripes are not evened out: {}", counted.error().message);
  working_ = false;
}

Task<Status> Spreading::each_piece(Pieces::Visit visit) {
  SLICE_CO_RETURN_IF_ERROR(co_await pieces_.recorded(visit));
  const auto tables = context_.tables.get();
  for (const wire::ServerEntry* node : tables->servers(wire::Role::kStorage)) {
    if (!parts_.sessions.live(node->server)) continue;
    Status there = co_await pieces_.by_hash(
        *node, [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t stripes) -> Task<void> {
          const auto copies = copies_of(handle, piece, 1);
          if (copies.front().front() == node->server) co_await visit(handle, std::move(piece), stripes);
        });
    if (!there && stopping_) co_return there;
    if (!there)
      log_warning("what the hash has placed on {} stays there: {}", node->name, there.error().message);
  }
  co_return Status{};
}

std::vector<Balance::Servers> Spreading::copies_of(const routing::FileHandle& handle,
                                                   const wire::MapPiece& piece, std::uint64_t stripes) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  const wire::FileLayout layout{.piece = piece};
  std::vector<Balance::Servers> copies;
  for (std::uint64_t i = 0; i < stripes; ++i) {
    const std::uint64_t stripe = piece.number * wire::kStripesOfPiece + i;
    copies.push_back(routing::copies_of_stripe(tables, layout, handle, stripe).all);
  }
  return copies;
}

// What cannot be moved now is for another time.
Task<void> Spreading::spread(routing::FileHandle handle, wire::MapPiece piece, std::uint64_t stripes,
                             Balance& balance) {
  const auto moves =
      balance.moves_of(copies_of(handle, piece, stripes), *context_.tables.get(), context_.random);
  auto pass = parts_.gate.enter(handle.fileid);
  co_await parts_.sessions.settled();
  for (const auto& [i, servers] : moves) {
    if (stopping_ || !parts_.gate.open(handle.fileid)) co_return;
    const bool moved =
        co_await parts_.move.run_at_pace(handle, piece.number * wire::kStripesOfPiece + i,
                                         SiteId{wire::listed_site(servers)}, bytes_per_second_);
    (moved ? moved_ : failed_).add();
  }
}

}  // namespace slice::coordinator
