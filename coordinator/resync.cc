#include "coordinator/resync.h"

#include <algorithm>

#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

Resync::Resync(service::ServiceContext& context, FileGate& gate, Layouts& layouts, Sessions& sessions,
               Extents& extents, service::FileLocks& locks, Options options)
    : context_(context),
      gate_(gate),
      layouts_(layouts),
      sessions_(sessions),
      extents_(extents),
      locks_(locks),
      options_(options),
      files_(context.metrics.counter("coordinator_resynced_copies_total",
                                     "copies of mirrored files made whole again")),
      stripes_(context.metrics.counter("coordinator_resynced_stripes_total",
                                       "stripes copied to make copies whole again")),
      failures_(context.metrics.counter("coordinator_resync_failures_total",
                                        "tries to make a copy whole that did not get to the end")) {}

void Resync::start() {
  timer_ = context_.loop.after(options_.period, [this] {
    if (stopping_) return;
    if (!working_ && layouts_.missing() > 0) spawn(work());
    start();
  });
}

Task<void> Resync::work() {
  working_ = true;
  for (const auto& [handle, server] : layouts_.owed()) {
    if (stopping_) break;
    if (!gate_.open(handle.fileid)) continue;
    auto pass = gate_.enter(handle.fileid);
    if (context_.tables.get()->removed(server)) co_await layouts_.drop_copy(handle, server);
    if (!sessions_.live(server)) continue;
    bool whole = co_await make_whole(handle, server);
    (whole ? files_ : failures_).add();
    if (!whole && log_.allow()) {
      log_warning("the copy of file {:#x} on server {} is not whole yet, and is tried again",
                  handle.fileid.value, server);
    }
  }
  working_ = false;
}

// How far the file reaches, as those say who have copies.
Task<std::optional<Extent>> Resync::extent_of(const routing::FileHandle& handle) {
  co_return co_await extents_.of(
      handle, [&](std::uint32_t node) { return layouts_.misses_everything(handle.fileid, node); });
}

Task<bool> Resync::copy(const routing::FileHandle& handle, std::uint64_t stripe, std::uint32_t to) {
  auto layout = layouts_.of(handle, stripe);
  if (!layout) co_return false;
  auto copies = routing::copies_of_stripe(*context_.tables.get(), *layout, handle, stripe);
  if (!routing::has(copies.all, to)) co_return true;
  if (copies.whole.empty()) co_return false;
  routing::HandleBytes bytes = context_.handles.mint(handle);
  co_await context_.crash.reach("resync.copying");
  auto result = co_await ask_object<wire::ObjectStatusResult>(
      context_, gate_, handle.fileid, copies.whole.front(), wire::ObjectProcedure::kCopy,
      wire::CopyArgs{bytes, layout->version, stripe, to});
  if (!result || result->status != NfsStatus::kOk) co_return false;
  stripes_.add();
  co_await context_.crash.reach("resync.copied");
  std::uint64_t unit = std::uint64_t{1} << handle.stripe_shift;
  co_await context_.loop.sleep(std::chrono::nanoseconds(unit * 1'000'000'000 / options_.bytes_per_second));
  co_return true;
}

// A copy that misses everything may have missed truncations, and what it has is of no use: it is cut to
// nothing, under the epoch of the last of them. From then on it gets every truncation.
Task<bool> Resync::empty_and_join(const routing::FileHandle& handle, std::uint32_t server) {
  if (locks_.busy(handle.fileid)) co_return false;
  auto held = co_await locks_.lock(handle.fileid);
  auto extent = co_await extent_of(handle);
  if (!extent) co_return false;
  if (!layouts_.misses_everything(handle.fileid, server)) co_return false;  // the file was removed
  co_await context_.crash.reach("resync.cutting");
  auto cut = co_await ask_object<wire::ObjectStatusResult>(
      context_, gate_, handle.fileid, server, wire::ObjectProcedure::kTruncate,
      wire::ObjectTruncateArgs{object_of(context_, handle.fileid), 0, extent->epoch});
  co_await context_.crash.reach("resync.cut");
  if (!cut || cut->status != NfsStatus::kOk) co_return false;
  co_return co_await layouts_.join(handle, server, true);
}

Task<bool> Resync::make_whole(routing::FileHandle handle, std::uint32_t server) {
  // One that misses less has had every truncation.
  bool empty = layouts_.misses_everything(handle.fileid, server) && !layouts_.joins(handle.fileid, server);
  bool joins =
      empty ? co_await empty_and_join(handle, server) : co_await layouts_.join(handle, server, false);
  if (!joins) co_return routing::find_missing(layouts_.missing_of(handle.fileid), server) == nullptr;
  auto extent = co_await extent_of(handle);
  if (!extent) co_return false;
  std::vector<wire::Missing> all = layouts_.missing_of(handle.fileid);
  const wire::Missing* missing = routing::find_missing(all, server);
  if (missing == nullptr) co_return true;
  std::uint64_t unit = std::uint64_t{1} << handle.stripe_shift;
  std::uint64_t stripes = extent->end / unit + (extent->end % unit == 0 ? 0 : 1);
  for (const wire::StripeRange& range : missing->stripes) {
    for (std::uint64_t stripe = range.first; stripe < std::min(range.end, stripes); ++stripe) {
      if (stopping_ || gate_.held(handle.fileid) || !co_await copy(handle, stripe, server)) co_return false;
    }
  }
  co_return co_await layouts_.joined(handle, server);
}

}  // namespace slice::coordinator
