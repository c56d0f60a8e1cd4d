#include "coordinator/evacuation.h"

#include <algorithm>

#include "coordinator/placement.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

constexpr Duration kFirstLookPause = std::chrono::milliseconds(20);
constexpr Duration kLongestLookPause = std::chrono::seconds(10);  // after passes that changed nothing

}  // namespace

Evacuation::Evacuation(service::ServiceContext& context, Parts parts, Options options)
    : context_(context),
      parts_(parts),
      options_(options),
      pieces_(context, parts.gate, parts.maps),
      moved_(context.metrics.counter("coordinator_evacuated_stripes_total",
                                     "stripes moved off drained storage servers")),
      passes_(context.metrics.counter(
          "coordinator_evacuation_passes_total",
          "times that everything was looked through for stripes on drained storage servers")) {}

void Evacuation::start() {
  timer_ = context_.loop.after(options_.period, [this] {
    if (stopping_) return;
    if (!working_ && goes_on() && context_.loop.now() >= next_) spawn(work());
    start();
  });
}

std::set<std::uint32_t> Evacuation::leaving() const {
  const routing::RoutingTables& tables = *context_.tables.get();
  std::set<std::uint32_t> servers;
  if (!tables.some_are_left()) return servers;
  for (std::uint32_t server : tables.layout_servers()) {
    if (tables.server(server)->drained) servers.insert(server);
  }
  return servers;
}

void Evacuation::look() {
  if (looked_at_ == context_.tables.get()) return;
  looked_at_ = context_.tables.get();
  std::set<std::uint32_t> now = leaving(), lost;
  for (std::uint32_t server : now) {
    if (looked_at_->lost(server)) lost.insert(server);
  }
  if (now == leaving_ && lost == lost_) return;
  leaving_ = std::move(now);
  lost_ = std::move(lost);
  ++changes_;
  recalled_ = false;
  emptied_.reset();
  next_ = {};
  pause_ = {};
}

wire::EmptiedResult Evacuation::emptied(const wire::EmptiedArgs& args) {
  look();
  if (context_.tables.get()->generation() < args.known)
    return {.status = NfsStatus::kJukebox, .left = "it has older tables"};
  if (!leaving_.contains(args.server))
    return {.status = NfsStatus::kInval, .left = "it is not drained (slicectl server drain)"};
  if (holds()) return {.status = NfsStatus::kOk, .record = record(), .left = {}};
  return {.status = NfsStatus::kJukebox,
          .left = trouble_.empty() ? "it still moves stripes of files with copies or block maps" : trouble_};
}

bool Evacuation::some_come() const {
  const service::Ownership* record = context_.ownership;
  return record != nullptr && record->known() && !record->offered().empty();
}

Task<void> Evacuation::work() {
  working_ = true;
  passes_.add();
  stuck_.clear();
  const std::uint64_t moved = moved_.value();
  const std::uint64_t changes = changes_, before = record();
  // Whoever goes by a layout of before may write where the tables of before had a stripe.
  if (!recalled_) {
    co_await lost_sessions_ended();
    co_await parts_.layouts.recall(wire::sites_of(context_.tables.get()->wire(), context_.self.name));
    recalled_ = changes == changes_;
  }
  co_await parts_.layouts.placed();
  auto nothing = co_await pass();
  trouble_ = nothing ? stuck_ : nothing.error().message;
  if (!trouble_.empty() && log_.allow())
    log_warning("drained storage servers are not emptied of files with a layout yet: {}", trouble_);
  pause_ = moved_.value() == moved ? std::min(pause_ * 2 + options_.period, kLongestLookPause) : Duration(0);
  next_ = context_.loop.now() + pause_;
  look();
  if (nothing && *nothing && changes == changes_ && before == record() && !some_come()) {
    emptied_ = before;
    for (std::uint32_t server : leaving_) {
      log_info("nothing of files with a layout is left on {}, of those whose coordinator this is",
               context_.tables.get()->server(server)->name);
    }
  }
  working_ = false;
}

// It may have been declared lost while it had one, and then answers by layouts until that is over.
Task<void> Evacuation::lost_sessions_ended() {
  const std::set<std::uint32_t> lost = lost_;
  for (std::uint32_t server : lost) {
    while (parts_.sessions.live(server)) co_await context_.loop.sleep(kFirstLookPause);
  }
}

Task<Result<bool>> Evacuation::pass() {
  bool nothing = parts_.move.idle();
  auto take = [&](routing::FileHandle handle, wire::MapPiece piece, std::uint64_t) -> Task<void> {
    if (!piece.sites.empty() && !has_left_site(handle, piece)) co_return;
    nothing = false;
    co_await empty(handle, piece.number);
  };
  SLICE_CO_RETURN_IF_ERROR(co_await pieces_.recorded(take));
  const auto tables = context_.tables.get();
  for (const wire::ServerEntry* node : tables->servers(wire::Role::kStorage)) {
    if (!tables->lost(node->server)) SLICE_CO_RETURN_IF_ERROR(co_await pieces_.by_hash(*node, take));
  }
  const bool idle = parts_.move.idle();
  co_return nothing&& idle;
}

Placement Evacuation::placement(std::uint32_t copies) const {
  return {*context_.tables.get(), parts_.sessions.rooms(), copies, context_.random};
}

bool Evacuation::has_left_site(const routing::FileHandle& handle, const wire::MapPiece& piece) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  return std::any_of(piece.sites.begin(), piece.sites.end(), [&](std::uint32_t site) {
    return tables.is_left(SiteId{site}, routing::copies_of(handle));
  });
}

// What cannot be moved now is for the next pass.
Task<void> Evacuation::empty(routing::FileHandle handle, std::uint64_t number) {
  if (!parts_.gate.open(handle.fileid)) co_return;
  const std::uint32_t copies = routing::copies_of(handle);
  if (!placement(copies).enough()) {
    stuck_ = fmt::format("for files with {} there are too few storage servers that are not drained",
                         copies == 1 ? "one copy" : fmt::format("{} copies", copies));
    co_return;
  }
  auto pass = parts_.gate.enter(handle.fileid);
  co_await parts_.sessions.settled();
  if (co_await parts_.layouts.refit(handle, number) != NfsStatus::kOk) co_return;
  co_await context_.crash.reach("evacuation.refitted");
  auto piece = parts_.maps.piece(handle.fileid, number);
  if (!piece) co_return;
  for (std::uint64_t i = 0; i < piece->sites.size(); ++i) {
    const SiteId site{piece->sites[i]};
    if (!context_.tables.get()->is_left(site, copies)) continue;
    if (stopping_ || parts_.gate.held(handle.fileid)) co_return;
    if (!co_await move(handle, number * wire::kStripesOfPiece + i, site)) co_return;
  }
}

Task<bool> Evacuation::move(const routing::FileHandle& handle, std::uint64_t stripe, SiteId from) {
  const auto to = placement(routing::copies_of(handle)).instead_of(from);
  if (!to) co_return false;
  auto layout = parts_.layouts.of(handle, stripe);
  if (layout && routing::copies_of_stripe(*context_.tables.get(), *layout, handle, stripe).whole.empty()) {
    stuck_ = fmt::format("stripe {} of file {:#x} has no whole copy left: the file has to be removed", stripe,
                         handle.fileid.value);
    co_return false;
  }
  const std::uint64_t unit = std::uint64_t{1} << handle.stripe_shift;
  if (!co_await parts_.move.run_at_pace(handle, stripe, SiteId{*to}, unit, options_.bytes_per_second))
    co_return false;
  moved_.add();
  co_await context_.crash.reach("evacuation.moved");
  co_return true;
}

}  // namespace slice::coordinator
