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

Doubts::Doubts(service::ServiceContext& context, ObjectStore& store, Seams& seams)
    : context_(context),
      store_(store),
      seams_(seams),
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
  routing::add(file.added, {stripe, stripe + 1});
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
      for (const wire::StripeRange range : std::vector(file.stripes)) {
        file.added.clear();
        const auto left = co_await settle(file, range);
        if (*stopped) co_return;
        file.stripes = routing::without(file.stripes, routing::without({range}, left));
        for (const wire::StripeRange& again : file.added) routing::add(file.stripes, again);
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

Task<std::vector<wire::StripeRange>> Doubts::settle(const File& file, wire::StripeRange range) {
  std::vector<wire::StripeRange> left = co_await leave_to_another(file, range);
  if (routing::copies_of(file.handle) > 2) left = {range};
  std::vector<wire::StripeRange> still;
  unsigned notes = 0;
  for (const auto [first, end] : left) {
    for (std::uint64_t stripe = first; stripe < end && !*stopped_; ++stripe) {
      if (!co_await make_alike(file, stripe, notes)) routing::add(still, {stripe, stripe + 1});
    }
  }
  co_return still;
}

// In few notes. What another one misses is left out: it may have no other whole copy.
Task<std::vector<wire::StripeRange>> Doubts::leave_to_another(const File& file, wire::StripeRange range) {
  auto others = co_await seams_.others_miss(file.handle);
  if (!others) {
    if (others.error().code == Errc::kStale) co_return std::vector<wire::StripeRange>();
    co_return std::vector<wire::StripeRange>{range};
  }
  std::vector<wire::StripeRange> left{range};
  for (const wire::StripeRange& whole : routing::without({range}, *others)) {
    const nfs3::Status status = co_await seams_.miss(file.handle, context_.self.index, whole);
    if (status == nfs3::Status::kOk || is_gone(status)) left = routing::without(left, {whole});
  }
  co_return left;
}

Task<bool> Doubts::make_alike(const File& file, std::uint64_t stripe, unsigned& notes) {
  const std::uint32_t self = context_.self.index;
  const wire::StripeRange one{stripe, stripe + 1};
  auto copies = co_await seams_.copies(file.handle, stripe);
  if (!copies) co_return copies.error().code == Errc::kStale;
  const bool whole = routing::has(copies->whole, self);
  if (whole && copies->whole.size() > 1 && notes < kMostNotes) {
    ++notes;
    if (co_await seams_.miss(file.handle, self, one) != nfs3::Status::kOk) notes = kMostNotes;
    copies = co_await seams_.copies(file.handle, stripe);
    if (!copies) co_return false;
  }
  for (std::size_t i = 1; i < copies->whole.size(); ++i) {
    std::uint32_t silent = 0;
    const nfs3::Status status =
        co_await seams_.copy(file.handle, stripe, copies->whole.front(), copies->whole[i], &silent);
    if (status == nfs3::Status::kOk || is_gone(status)) continue;
    const bool gives_up =
        status == nfs3::Status::kServerFault && context_.loop.now() - file.since >= kPatience;
    if (gives_up) (void)co_await seams_.miss(file.handle, silent, one);
    co_return false;
  }
  co_return true;
}

}  // namespace slice::storagenode
