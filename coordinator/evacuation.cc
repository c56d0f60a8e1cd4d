#include "coordinator/evacuation.h"

#include <algorithm>

#include "coordinator/placement.h"
#include "service/file_handles.h"
#include "service/object_source.h"
#include "wire/authority.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

constexpr std::size_t kFilePage = wire::kMaxHandles;  // of files that are looked at together
constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr Duration kFirstLookPause = std::chrono::milliseconds(20);
constexpr Duration kLongestLookPause = std::chrono::seconds(10);  // after passes that changed nothing
constexpr int kTries = 6;  // what the stripe before has left behind is given back meanwhile

}  // namespace

Evacuation::Evacuation(service::ServiceContext& context, Parts parts, Options options)
    : context_(context),
      parts_(parts),
      options_(options),
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
  for (std::uint32_t server : tables.layout_sites()) {
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
  auto maps = co_await pass_over_maps();
  if (!maps) co_return maps;
  nothing = nothing && *maps;
  const auto tables = context_.tables.get();
  for (const wire::ServerEntry* node : tables->servers(wire::Role::kStorage)) {
    if (tables->lost(node->server)) continue;
    auto objects = co_await pass_over_objects(*node);
    if (!objects) co_return objects;
    nothing = nothing && *objects;
  }
  const bool idle = parts_.move.idle();
  co_return nothing&& idle;
}

bool Evacuation::has_left_site(const routing::FileHandle& handle, const wire::MapPiece& piece) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  return std::any_of(piece.sites.begin(), piece.sites.end(), [&](std::uint16_t site) {
    return tables.is_left(SiteId{site}, routing::copies_of(handle));
  });
}

Task<Result<bool>> Evacuation::pass_over_maps() {
  bool nothing = true;
  BlockMaps::Page page;
  while (!page.end) {
    auto next =
        parts_.maps.list(page.last, kFilePage, [this](FileId file) { return parts_.gate.owns(file); });
    if (!next) co_return fail(std::move(next).error());
    page = std::move(*next);
    std::vector<FileId> files;
    for (const wire::MovedPiece& each : page.pieces) files.push_back(each.file);
    auto handles = co_await service::handles_of(context_, std::move(files));
    if (!handles) co_return fail(std::move(handles).error());
    for (std::size_t i = 0; i < page.pieces.size(); ++i) {
      const auto& handle = (*handles)[i];
      if (stopping_) co_return fail(Errc::kUnavailable, "it stops");
      if (!handle || !has_left_site(*handle, page.pieces[i].piece)) continue;
      nothing = false;
      co_await empty(*handle, page.pieces[i].piece.number);
    }
  }
  co_return nothing;
}

Task<Result<bool>> Evacuation::pass_over_objects(wire::ServerEntry node) {
  bool nothing = true;
  service::RemoteObjects objects(context_.channel, node, kTimeout);
  wire::ObjectListResult listed{.end = false};
  wire::ObjectListArgs args{.limit = kFilePage};
  while (!listed.end) {
    auto next = co_await objects.list(args);
    if (!next) co_return fail(next.error(), node.name);
    listed = std::move(*next);
    if (listed.objects.empty()) break;
    args.after = listed.objects.back();
    std::vector<FileId> files;
    for (const wire::ObjectName& name : listed.objects) {
      const bool ours = name.volume == context_.config.volume.id && name.kind == wire::ObjectKind::kFile;
      if (ours && parts_.gate.owns(name.fileid)) files.push_back(name.fileid);
    }
    auto handles = co_await service::handles_of(context_, files);
    if (!handles) co_return fail(std::move(handles).error());
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto& handle = (*handles)[i];
      if (stopping_) co_return fail(Errc::kUnavailable, "it stops");
      if (!handle || !routing::mirrored(*handle) || routing::block_mapped(*handle)) continue;
      auto stat = co_await objects.stat({context_.config.volume.id, files[i], wire::ObjectKind::kFile});
      if (!stat) co_return fail(stat.error(), node.name);
      if (stat->end == 0) continue;
      const std::uint64_t last = wire::piece_of((stat->end - 1) >> handle->stripe_shift);
      for (std::uint64_t number = 0; number <= last; ++number) {
        auto piece = parts_.maps.piece(files[i], number);
        if (!piece) co_return fail(std::move(piece).error());
        if (!piece->sites.empty()) continue;  // of pass_over_maps()
        nothing = false;
        co_await empty(*handle, number);
      }
    }
  }
  co_return nothing;
}

// What cannot be moved now is for the next pass.
Task<void> Evacuation::empty(routing::FileHandle handle, std::uint64_t number) {
  if (!parts_.gate.open(handle.fileid)) co_return;
  const std::uint32_t copies = routing::copies_of(handle);
  if (sites_instead_of(*context_.tables.get(), SiteId{0}, copies).empty()) {
    stuck_ = fmt::format(
        "for files with {} there are too few storage servers of the volume's birth that are not drained",
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
  const auto sites = sites_instead_of(*context_.tables.get(), from, routing::copies_of(handle));
  if (sites.empty()) co_return false;
  auto layout = parts_.layouts.of(handle, stripe);
  if (layout && routing::copies_of_stripe(*context_.tables.get(), *layout, handle, stripe).whole.empty()) {
    stuck_ = fmt::format("stripe {} of file {:#x} has no whole copy left: the file has to be removed", stripe,
                         handle.fileid.value);
    co_return false;
  }
  const SiteId to{sites[context_.random() % sites.size()]};
  Duration pause = kFirstLookPause;
  for (int i = 0; i < kTries; ++i, pause *= 2) {
    const NfsStatus status = co_await parts_.move.run(handle, stripe, to);
    if (status == NfsStatus::kOk) {
      moved_.add();
      co_await context_.crash.reach("evacuation.moved");
      const std::uint64_t unit = std::uint64_t{1} << handle.stripe_shift;
      co_return co_await parts_.gate.pause(
          handle.fileid, std::chrono::nanoseconds(unit * 1'000'000'000 / options_.bytes_per_second));
    }
    if (status != NfsStatus::kJukebox || !co_await parts_.gate.pause(handle.fileid, pause)) co_return false;
  }
  co_return false;
}

}  // namespace slice::coordinator
