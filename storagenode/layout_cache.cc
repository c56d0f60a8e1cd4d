#include "storagenode/layout_cache.h"

#include <algorithm>
#include <functional>

#include "service/internal_call.h"
#include "wire/coordinator.h"
#include "wire/listed_site.h"

namespace slice::storagenode {
namespace {

// An answer that has been on its way this long still makes a session longer, if not by much.
constexpr Duration kSessionTimeout = std::chrono::seconds(2);
constexpr Duration kPause = std::chrono::milliseconds(20);
constexpr Duration kLayoutTimeout = std::chrono::seconds(8);  // a session may have to end meanwhile
constexpr int kTriesAtOnce = 5;
constexpr int kMostOwners = 3;  // that one is sent to in turn, without a pause

// The coordinator may know of a server before this process does.
bool names_members(const wire::FileLayout& layout, std::size_t members) {
  auto names = [members](std::uint32_t site) {
    const auto servers = wire::listed_servers(site);
    return std::all_of(servers.begin(), servers.end(), [&](std::uint32_t each) { return each < members; });
  };
  const auto& sites = layout.piece.sites;
  return std::all_of(sites.begin(), sites.end(), names) && (!layout.moving || names(layout.moving->site));
}

}  // namespace

LayoutCache::LayoutCache(service::ServiceContext& context)
    : context_(context),
      fetched_(context.metrics.counter("mirror_layouts_fetched_total", "layouts asked for at coordinators")),
      recalled_(
          context.metrics.counter("mirror_layouts_recalled_total", "layouts that a coordinator took back")),
      lost_(context.metrics.counter("mirror_sessions_lost_total",
                                    "sessions with a coordinator that had to begin anew")) {}

void LayoutCache::start() {
  const routing::RoutingTables& tables = *context_.tables.get();
  std::erase_if(sessions_,
                [&](const auto& each) { return tables.removed(each.first) && !each.second.asking; });
  for (const wire::ServerEntry* server : context_.tables.get()->servers(wire::Role::kCoordinator)) {
    spawn(renew(server->server));
  }
  timer_ = context_.loop.after(kRenew, [this] {
    if (!ended_) start();
  });
}

bool LayoutCache::live(std::uint32_t coordinator) const {
  auto found = sessions_.find(coordinator);
  return found != sessions_.end() && context_.loop.now() < found->second.until;
}

std::uint32_t LayoutCache::coordinator_of(FileId file) const {
  const auto& tables = *context_.tables.get();
  const SiteId site = tables.coordinator_site(file);
  if (!owners_.empty() && owners_known_ == tables.generation()) {
    if (auto found = owners_.find(site.value); found != owners_.end()) return found->second;
  }
  return tables.server_of(wire::Role::kCoordinator, site).server;
}

void LayoutCache::told(FileId file, std::uint32_t coordinator) {
  const auto& tables = *context_.tables.get();
  if (tables.server(coordinator) == nullptr) return;
  if (owners_known_ != tables.generation()) owners_.clear();
  owners_known_ = tables.generation();
  owners_[tables.coordinator_site(file).value] = coordinator;
}

void LayoutCache::heard(std::uint32_t coordinator, std::uint64_t version) {
  Session& session = sessions_[coordinator];
  session.version = std::max(session.version, version);
}

void LayoutCache::drop_all_of(std::uint32_t coordinator) {
  std::erase_if(entries_, [&](const auto& each) { return each.second.coordinator == coordinator; });
}

Task<void> LayoutCache::renew(std::uint32_t coordinator) {
  Session& session = sessions_[coordinator];
  const auto tables = context_.tables.get();
  const wire::ServerEntry* entry = tables->server(coordinator);
  if (ended_ || session.asking || entry == nullptr) co_return;
  session.asking = true;
  MonoTime asked = context_.loop.now();
  auto gone = gone_;
  auto space = context_.disk.space();
  std::uint64_t free = space ? space->free_bytes : 0;
  std::uint64_t usable = free - std::min(free, context_.settings.get()->reserve_of(context_.self));
  auto result = co_await service::internal_call<wire::SessionResult>(
      context_.channel, entry->endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kSession,
      wire::SessionArgs{context_.self.index, session.number, usable}, kSessionTimeout);
  if (*gone) co_return;
  session.asking = false;
  if (ended_ || !result || result->status != nfs3::Status::kOk) co_return;
  if (result->session != session.number) {
    if (session.number != 0) {
      lost_.add();
      if (log_.allow()) log_info("a new session with coordinator {}: its layouts are void", entry->name);
    }
    drop_all_of(coordinator);
    if (session.number == 0) session.first = result->version;
    session.number = result->session;
    session.version = 0;  // of another process, perhaps
  }
  heard(coordinator, result->version);
  session.until = asked + std::chrono::milliseconds(result->milliseconds);
}

Task<bool> LayoutCache::end(bool durable) {
  ended_ = true;
  entries_.clear();
  std::vector<Task<bool>> telling;
  for (auto& [coordinator, session] : sessions_) {
    session.until = {};
    if (session.number != 0) telling.push_back(tell_end(coordinator, durable));
  }
  const std::vector<bool> told = co_await all(std::move(telling));
  co_return std::all_of(told.begin(), told.end(), std::identity());
}

// One that is not told waits until the session is over by time.
Task<bool> LayoutCache::tell_end(std::uint32_t coordinator, bool durable) {
  const wire::ServerEntry* entry = context_.tables.get()->server(coordinator);
  if (entry == nullptr) co_return false;
  const auto result = co_await service::internal_call<wire::CoordinatorResult>(
      context_.channel, entry->endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kEndSession,
      wire::EndSessionArgs{context_.self.index, sessions_[coordinator].number, durable}, kEndPatience);
  co_return result.has_value();
}

// One that has ended by delay is soon there again; whoever is told to come again comes much later.
Task<bool> LayoutCache::wait_for_session(std::uint32_t coordinator) {
  for (MonoTime end = context_.loop.now() + kPatience; !live(coordinator);) {
    if (!sessions_[coordinator].asking) co_await renew(coordinator);
    if (live(coordinator)) break;
    if (ended_ || context_.loop.now() >= end) co_return false;
    co_await context_.loop.sleep(kPause);
  }
  co_return true;
}

Task<Result<wire::FileLayout>> LayoutCache::get(routing::FileHandle handle, std::uint64_t stripe,
                                                bool place) {
  const MonoTime end = context_.loop.now() + kPatience;
  for (int tries = 1;; ++tries) {
    auto layout = co_await get_once(handle, stripe, place);
    if (layout || layout.error().code != Errc::kMisdirected) co_return layout;
    if (ended_ || context_.loop.now() >= end)
      co_return fail(Errc::kUnavailable, "the file's site changes its coordinator, or is on a new server");
    if (tries >= kMostOwners) co_await context_.loop.sleep(kPause);
  }
}

Task<Result<wire::FileLayout>> LayoutCache::get_now(routing::FileHandle handle, std::uint64_t stripe) {
  for (int tries = 1;; ++tries) {
    const std::uint32_t asked = coordinator_of(handle.fileid);
    auto layout = co_await get_once(handle, stripe, false);
    const bool another = coordinator_of(handle.fileid) != asked;
    if (layout || layout.error().code != Errc::kMisdirected || !another || tries >= kMostOwners)
      co_return layout;
  }
}

Task<Result<wire::FileLayout>> LayoutCache::get_once(routing::FileHandle handle, std::uint64_t stripe,
                                                     bool place) {
  std::uint32_t coordinator = coordinator_of(handle.fileid);
  if (!live(coordinator) && !co_await wait_for_session(coordinator)) {
    co_return fail(Errc::kUnavailable, "no session with the file's coordinator");
  }
  auto found = entries_.find(key_of(handle.fileid, stripe));
  bool good = found != entries_.end() && found->second.coordinator == coordinator &&
              (found->second.layout.settled || !place);
  if (good) co_return found->second.layout;
  Fetch& fetching = fetches_[handle.fileid];
  ++fetching.count;
  routing::HandleBytes bytes = context_.handles.mint(handle);
  auto layout = co_await fetch(handle, coordinator, wire::LayoutArgs{bytes, stripe, place});
  if (--fetches_[handle.fileid].count == 0) fetches_.erase(handle.fileid);
  co_return layout;
}

Task<Result<wire::FileLayout>> LayoutCache::fetch(const routing::FileHandle& handle,
                                                  std::uint32_t coordinator, wire::LayoutArgs args) {
  const MonoTime end = context_.loop.now() + kPatience;
  for (int tries = 0; context_.loop.now() < end && !ended_; ++tries) {
    if (tries >= kTriesAtOnce) co_await context_.loop.sleep(kPause);
    std::uint64_t session = sessions_[coordinator].number;
    fetched_.add();
    auto result = co_await service::internal_call<wire::LayoutResult>(
        context_.channel, context_.tables.get()->server(coordinator)->endpoint, wire::kCoordinatorProgram,
        wire::CoordinatorProcedure::kLayout, args, kLayoutTimeout);
    if (!result) co_return fail(std::move(result.error()));
    if (result->status == nfs3::Status::kJukebox) {
      told(handle.fileid, result->owner);
      co_return fail(Errc::kMisdirected, "the coordinator has not the file's site, or gives it away");
    }
    if (result->status != nfs3::Status::kOk) {
      // A layout that its disk has lost will not be there later either.
      co_return fail(result->status == nfs3::Status::kIo ? Errc::kIo : Errc::kUnavailable,
                     "the coordinator answered {} to a LAYOUT", nfs3::status_name(result->status));
    }
    // Another session, or a newer layout, by now: what came is of the past.
    bool current = session == sessions_[coordinator].number && live(coordinator) &&
                   result->layout.version >= fetches_[handle.fileid].least_version;
    if (!current) continue;
    heard(coordinator, result->layout.version);
    if (!names_members(result->layout, context_.tables.get()->wire().servers.size()))
      co_return fail(Errc::kMisdirected, "the layout names a server that the tables here do not have yet");
    if (entries_.size() >= kMaxLayouts) entries_.clear();
    entries_[key_of(handle.fileid, args.stripe)] = {coordinator, result->layout};
    co_return std::move(result->layout);
  }
  co_return fail(Errc::kUnavailable, "the file's layout changes again and again");
}

rpc::LayoutStamp LayoutCache::stamp(const routing::FileHandle& handle) const {
  std::uint32_t coordinator = coordinator_of(handle.fileid);
  auto found = sessions_.find(coordinator);
  return {static_cast<std::uint16_t>(coordinator), found == sessions_.end() ? 0 : found->second.version};
}

LayoutCache::Orders LayoutCache::orders(const rpc::LayoutStamp& stamp, const routing::FileHandle& handle,
                                        const wire::FileLayout& layout, const routing::StripeCopies& copies,
                                        std::uint64_t stripe) const {
  const std::uint32_t coordinator = coordinator_of(handle.fileid);
  auto session = sessions_.find(coordinator);
  if (stamp.coordinator != coordinator || session == sessions_.end()) return Orders::kSinceLater;
  const std::uint64_t since = routing::ordered_since(layout, copies, stripe);
  if (since == wire::kNotYet) return Orders::kNotYet;
  return std::max(since, session->second.first) <= stamp.version ? Orders::kSinceBefore : Orders::kSinceLater;
}

bool LayoutCache::still(const routing::FileHandle& handle, std::uint64_t stripe,
                        std::uint64_t version) const {
  auto found = entries_.find(key_of(handle.fileid, stripe));
  return found != entries_.end() && found->second.layout.version == version &&
         live(found->second.coordinator);
}

bool LayoutCache::concerns(const wire::RecallArgs& args, FileId file) const {
  if (args.sites.empty()) return file == args.file;
  const std::uint32_t site = context_.tables.get()->coordinator_site(file).value;
  return std::binary_search(args.sites.begin(), args.sites.end(), site);
}

void LayoutCache::recall(const wire::RecallArgs& args) {
  recalled_.add();
  heard(args.coordinator, args.version);
  if (args.sites.empty()) return drop(args.file, args.version);
  std::erase_if(entries_, [&](const auto& each) {
    return each.second.coordinator == args.coordinator && each.second.layout.version < args.version &&
           concerns(args, each.first.first);
  });
  for (auto& [file, fetching] : fetches_) {
    if (concerns(args, file)) fetching.least_version = std::max(fetching.least_version, args.version);
  }
}

void LayoutCache::ask_again(FileId file) {
  entries_.erase(entries_.lower_bound({file, 0}), entries_.upper_bound({file, ~std::uint64_t{0}}));
}

void LayoutCache::drop(FileId file, std::uint64_t version) {
  for (auto at = entries_.lower_bound({file, 0}); at != entries_.end() && at->first.first == file;) {
    at = at->second.layout.version < version ? entries_.erase(at) : std::next(at);
  }
  auto fetching = fetches_.find(file);
  if (fetching != fetches_.end()) {
    fetching->second.least_version = std::max(fetching->second.least_version, version);
  }
}

}  // namespace slice::storagenode
