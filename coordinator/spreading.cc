#include "coordinator/spreading.h"

#include <utility>

#include "coordinator/spread_record.h"
#include "wire/listed_site.h"
#include "wire/nfs_status.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;
using wire::SpreadPhase;

namespace {

constexpr Duration kTablesPause = std::chrono::milliseconds(200);

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

Spreading::Spreading(service::ServiceContext& context, Parts parts, std::uint64_t bytes_per_second)
    : context_(context),
      parts_(parts),
      bytes_per_second_(bytes_per_second),
      pieces_(context, parts.gate, parts.maps),
      recording_(context.loop),
      moved_(context.metrics.counter("coordinator_spread_stripes_total",
                                     "stripes moved to even out what storage servers have")),
      moved_bytes_(context.metrics.counter("coordinator_spread_bytes_total",
                                           "bytes of stripes moved to even out what storage servers have")),
      failed_(
          context.metrics.counter("coordinator_spread_failures_total",
                                  "stripes that could not be moved to even out what storage servers have")),
      left_gauge_(context.metrics.gauge("coordinator_spread_left_bytes",
                                        "bytes that are to go still to even out what storage servers have")) {
}

Task<Status> Spreading::start() {
  auto recorded = co_await read_spread(context_.disk);
  if (!recorded) co_return fail(std::move(recorded).error());
  if (!*recorded) co_return Status{};
  wanted_ = std::move(**recorded);
  ++asked_;
  show_begun();
  log_info("files with a layout are evened out on, as was asked for before this start");
  working_ = true;
  spawn(work());
  co_return Status{};
}

Task<NfsStatus> Spreading::begin(wire::SpreadArgs args) {
  auto lock = co_await recording_.lock();
  if (stopping_ || context_.tables.get()->generation() < args.known) co_return NfsStatus::kJukebox;
  if (args.shares.empty() && !wanted_) co_return NfsStatus::kOk;
  Status recorded = args.shares.empty() ? co_await forget_spread(context_.disk)
                                        : co_await record_spread(context_.disk, args);
  if (!recorded) {
    log_error("what is to be evened out cannot be recorded: {}", recorded.error().message);
    co_return nfs3::status_of(recorded.error());
  }
  ++asked_;
  if (args.shares.empty()) {
    log_info("files with a layout are not evened out any more");
    wanted_.reset();
    show_ended(SpreadPhase::kGivenUp);
    co_return NfsStatus::kOk;
  }
  wanted_ = std::move(args);
  show_begun();
  co_await context_.crash.reach("spread.recorded");
  if (!std::exchange(working_, true)) spawn(work());
  co_return NfsStatus::kOk;
}

void Spreading::stop() {
  stopping_ = true;
  pieces_.stop();
}

void Spreading::show_begun() {
  rate_ = {};
  shown_ = {.phase = SpreadPhase::kWaiting, .began_ns = static_cast<std::uint64_t>(context_.loop.wall().ns)};
  show(0);
}

void Spreading::show_ended(SpreadPhase phase) {
  shown_.phase = phase;
  shown_.trouble.clear();
  shown_.ended_ns = static_cast<std::uint64_t>(context_.loop.wall().ns);
  show(0);
}

void Spreading::show(std::uint64_t left) {
  shown_.left_bytes = left;
  left_gauge_.set(left);
}

wire::SpreadingResult Spreading::state() const {
  wire::SpreadingResult state = shown_;
  // Also where a stripe takes long.
  service::ByteRate rate = rate_;
  rate.note(context_.loop.now(), shown_.moved_bytes);
  if (state.phase == SpreadPhase::kMoving) state.bytes_a_second = rate.bytes_a_second();
  return state;
}

std::string Spreading::detail() const {
  if (!goes_on()) return "";
  if (shown_.phase == SpreadPhase::kCounting) return "counts bytes, to even them out";
  if (shown_.phase == SpreadPhase::kMoving)
    return fmt::format("evens out files, {} to go", mebibytes(shown_.left_bytes));
  return "waits to even out files" + (shown_.trouble.empty() ? "" : ": " + shown_.trouble);
}

Task<void> Spreading::work() {
  while (wanted_ && !stopping_) {
    const std::uint64_t asked = asked_;
    const wire::SpreadArgs args = *wanted_;
    shown_.phase = SpreadPhase::kWaiting;
    while (context_.tables.get()->generation() < args.known && !leaves_off(asked))
      co_await context_.loop.sleep(kTablesPause);
    // After a start no node has a session yet.
    co_await parts_.sessions.settled();
    if (leaves_off(asked)) continue;
    Status passed = co_await pass(args.shares);
    if (leaves_off(asked)) continue;
    show(0);
    shown_.trouble = passed ? "" : passed.error().message;
    if (passed) {
      co_await done(asked);
      continue;
    }
    log_warning("files are not evened out yet: {}", shown_.trouble);
    shown_.phase = SpreadPhase::kWaiting;
    const MonoTime until = context_.loop.now() + kPause;
    while (context_.loop.now() < until && !leaves_off(asked)) co_await context_.loop.sleep(kTablesPause);
  }
  working_ = false;
}

Task<void> Spreading::done(std::uint64_t asked) {
  auto lock = co_await recording_.lock();
  if (leaves_off(asked)) co_return;
  co_await context_.crash.reach("spread.done");
  // Where that cannot be noted, it is found to be so once more.
  if (Status forgotten = co_await forget_spread(context_.disk); !forgotten)
    log_warning("that files are evened out cannot be recorded: {}", forgotten.error().message);
  wanted_.reset();
  show_ended(SpreadPhase::kDone);
}

Task<Status> Spreading::pass(std::vector<wire::ServerShare> shares) {
  const std::uint64_t asked = asked_;
  shown_.phase = SpreadPhase::kCounting;
  // It may be long since they were found.
  const auto tables = context_.tables.get();
  std::erase_if(shares, [&](const wire::ServerShare& each) {
    const wire::ServerEntry* server = tables->server(each.server);
    return server == nullptr || server->role != wire::Role::kStorage || server->drained ||
           server->lost.value != 0;
  });
  Balance balance(shares);
  SLICE_CO_RETURN_IF_ERROR(co_await each_piece(
      [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t end) -> Task<void> {
        for (const Balance::Stripe& each : stripes_of(handle, piece, end)) balance.count(each);
        co_return;
      }));
  if (leaves_off(asked) || !balance.plan()) co_return Status{};
  shown_.phase = SpreadPhase::kMoving;
  show(balance.left());
  rate_.note(context_.loop.now(), shown_.moved_bytes);
  log_info("files with a layout are not where they should be by the servers' shares: {} go",
           mebibytes(shown_.left_bytes));
  const std::uint64_t moved = moved_.value(), bytes = moved_bytes_.value(), failed = failed_.value();
  Status gone = co_await each_piece(
      [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t end) -> Task<void> {
        co_await spread(handle, std::move(piece), end, balance, asked);
        if (!leaves_off(asked)) show(balance.left());
      });
  log_info("{} stripes of {} were moved, {} were not", moved_.value() - moved,
           mebibytes(moved_bytes_.value() - bytes), failed_.value() - failed);
  co_return gone;
}

Task<Status> Spreading::each_piece(Pieces::Visit visit) {
  SLICE_CO_RETURN_IF_ERROR(co_await pieces_.recorded(visit));
  const auto tables = context_.tables.get();
  for (const wire::ServerEntry* node : tables->servers(wire::Role::kStorage)) {
    if (!parts_.sessions.live(node->server)) continue;
    Status there = co_await pieces_.by_hash(
        *node, [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t end) -> Task<void> {
          const auto first = routing::copies_of_stripe(*context_.tables.get(), {.piece = piece}, handle,
                                                       piece.number * wire::kStripesOfPiece);
          if (first.all.front() == node->server) co_await visit(handle, std::move(piece), end);
        });
    if (!there && stopping_) co_return there;
    if (!there)
      log_warning("what the hash has placed on {} stays there: {}", node->name, there.error().message);
  }
  co_return Status{};
}

std::vector<Balance::Stripe> Spreading::stripes_of(const routing::FileHandle& handle,
                                                   const wire::MapPiece& piece, std::uint64_t end) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  const wire::FileLayout layout{.piece = piece};
  // What is below is at a small-file server.
  const std::uint64_t begin = routing::mirrored(handle) ? 0 : context_.config.volume.threshold;
  std::vector<Balance::Stripe> stripes;
  for (std::uint64_t i = 0; i < wire::kStripesOfPiece; ++i) {
    const std::uint64_t stripe = piece.number * wire::kStripesOfPiece + i;
    const std::uint64_t first = stripe << handle.stripe_shift;
    if (first >= end) break;
    const std::uint64_t last = std::min(end, first + (std::uint64_t{1} << handle.stripe_shift));
    stripes.push_back({.copies = routing::copies_of_stripe(tables, layout, handle, stripe).all,
                       .bytes = last - std::min(last, std::max(first, begin))});
  }
  return stripes;
}

// A stripe was moved, or could not be.
void Spreading::note(bool moved, std::uint64_t bytes) {
  if (moved) {
    shown_.moved_bytes += bytes;
    rate_.note(context_.loop.now(), shown_.moved_bytes);
  } else {
    ++shown_.failed_stripes;
  }
  // The balance has told of all of the piece's at once.
  show(shown_.left_bytes - std::min(shown_.left_bytes, bytes));
}

// What cannot be moved now is for another time.
Task<void> Spreading::spread(routing::FileHandle handle, wire::MapPiece piece, std::uint64_t end,
                             Balance& balance, std::uint64_t asked) {
  if (leaves_off(asked)) co_return;
  const auto stripes = stripes_of(handle, piece, end);
  const auto moves = balance.moves_of(stripes, *context_.tables.get(), context_.random);
  auto pass = parts_.gate.enter(handle.fileid);
  co_await parts_.sessions.settled();
  for (const auto& [i, servers] : moves) {
    if (leaves_off(asked) || !parts_.gate.open(handle.fileid)) co_return;
    const std::uint64_t bytes = stripes[i].bytes;
    const bool moved =
        co_await parts_.move.run_at_pace(handle, piece.number * wire::kStripesOfPiece + i,
                                         SiteId{wire::listed_site(servers)}, bytes, bytes_per_second_);
    (moved ? moved_ : failed_).add();
    if (moved) moved_bytes_.add(bytes);
    if (!leaves_off(asked)) note(moved, bytes);
    co_await context_.crash.reach("spread.moved");
  }
}

}  // namespace slice::coordinator
