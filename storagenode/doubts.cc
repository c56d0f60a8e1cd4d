#include "storagenode/doubts.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::storagenode {
namespace {

constexpr Duration kSettlePause = std::chrono::milliseconds(200);

// The file is no more: nobody reads anything of it.
bool is_gone(nfs3::Status status) {
  return status == nfs3::Status::kStale || status == nfs3::Status::kBadHandle ||
         status == nfs3::Status::kNoEnt;
}

}  // namespace

Doubts::Doubts(service::ServiceContext& context, ObjectStore& store, Seams seams)
    : context_(context),
      store_(store),
      seams_(std::move(seams)),
      gauge_(context.metrics.gauge("mirror_doubtful_files",
                                   "mirrored files that were being written when a process of this server "
                                   "crashed, and whose copies are not known to be alike yet")),
      settled_(context.metrics.counter("mirror_doubts_settled_total",
                                       "files of which it was settled after a crash which copy counts")) {}

void Doubts::start() {
  for (const ObjectStore::Unsettled& each : store_.unsettled()) {
    const auto handle = context_.handles.open(each.tag);
    if (!handle || !routing::mirrored(*handle)) {
      store_.settled(each.object);
      continue;
    }
    File& file = files_[handle->fileid];
    file.handle = *handle;
    file.since = context_.loop.now();
    const std::uint64_t unit = std::uint64_t{1} << handle->stripe_shift;
    for (const storage::Range& range : each.ranges)
      routing::add(file.stripes, {range.offset / unit, (range.offset + range.length + unit - 1) / unit});
  }
  if (!files_.empty())
    log_info("{} mirrored files were being written when the process before this one ended", files_.size());
  begin();
}

void Doubts::add(const routing::FileHandle& handle, std::uint64_t stripe) {
  File& file = files_[handle.fileid];
  file.handle = routing::as_files(handle);
  file.since = context_.loop.now();
  routing::add(file.stripes, {stripe, stripe + 1});
  store_.unsettle(object_of(handle.fileid));
  begin();
}

void Doubts::begin() {
  show();
  if (files_.empty() || *stopped_ || std::exchange(settling_, true)) return;
  spawn(settle_all(stopped_));
}

void Doubts::show() const {
  gauge_.set(files_.size());
}

bool Doubts::has(FileId file, std::uint64_t stripe) const {
  if (files_.empty()) return false;
  const auto found = files_.find(file);
  if (found == files_.end()) return false;
  return std::ranges::any_of(found->second.stripes, [stripe](const wire::StripeRange& range) {
    return range.first <= stripe && stripe < range.end;
  });
}

Task<void> Doubts::settle_all(std::shared_ptr<bool> stopped) {
  while (!files_.empty()) {
    for (auto at = files_.begin(); at != files_.end();) {
      File& file = at->second;
      // More may come meanwhile.
      for (wire::StripeRange range : std::vector(file.stripes)) {
        const wire::StripeRange was = range;
        co_await settle(file, range);
        if (*stopped) co_return;
        file.stripes = routing::without(file.stripes, {{was.first, range.first}});
      }
      if (!file.stripes.empty()) {
        ++at;
        continue;
      }
      store_.settled(object_of(at->first));
      settled_.add();
      at = files_.erase(at);
      show();
    }
    if (files_.empty()) break;
    co_await context_.loop.sleep(kSettlePause);
    if (*stopped) co_return;
  }
  settling_ = false;
}

Task<void> Doubts::settle(const File& file, wire::StripeRange& range) {
  if (routing::copies_of(file.handle) == 2 && range.end - range.first > 1) {
    const nfs3::Status all = co_await seams_.missed(file.handle, context_.self.index, range);
    if (all == nfs3::Status::kOk || is_gone(all)) {
      range.first = range.end;
      co_return;
    }
  }
  while (range.first < range.end && !*stopped_ && co_await settle_one(file, range.first)) ++range.first;
}

Task<bool> Doubts::settle_one(const File& file, std::uint64_t stripe) {
  const std::uint32_t self = context_.self.index;
  auto copies = co_await seams_.copies(file.handle, stripe);
  if (!copies) co_return copies.error().code == Errc::kStale;
  std::vector<std::uint32_t> others = copies->whole;
  std::erase(others, self);
  if (others.empty()) co_return true;
  std::vector<std::uint32_t> but_first(others.begin() + 1, others.end());
  if (routing::has(copies->whole, self)) but_first.push_back(self);
  if (co_await all_miss(file, std::move(but_first), stripe)) co_return true;
  const bool waited = context_.loop.now() - file.since >= kPatience;
  co_return waited&& co_await all_miss(file, std::move(others), stripe);
}

Task<bool> Doubts::all_miss(const File& file, std::vector<std::uint32_t> servers, std::uint64_t stripe) {
  for (const std::uint32_t server : servers) {
    const nfs3::Status status = co_await seams_.missed(file.handle, server, {stripe, stripe + 1});
    if (status != nfs3::Status::kOk && !is_gone(status)) co_return false;
  }
  co_return true;
}

}  // namespace slice::storagenode
