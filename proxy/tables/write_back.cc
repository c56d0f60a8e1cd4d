#include "proxy/tables/write_back.h"

#include "service/internal_call.h"
#include "wire/authority.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAtOnce = 8;      // merges under way: more would keep a server that has other calls
constexpr std::size_t kQueued = 65536;  // more are put back, and counted
constexpr unsigned kParts = 30;         // of the cache, one in each round

nfs3::Time time_of(std::uint64_t packed) {
  return {static_cast<std::uint32_t>(packed >> 32), static_cast<std::uint32_t>(packed)};
}

}  // namespace

WriteBack::WriteBack(Loop& loop, rpc::Channel& channel, Tables tables, AttributeCache& cache,
                     const routing::HandleCodec& handles, Metrics& metrics)
    : loop_(loop),
      channel_(channel),
      tables_(tables),
      cache_(cache),
      handles_(handles),
      merges_(metrics.counter("proxy_attribute_merges_total", "unsaved changes told to directory servers")),
      failures_(metrics.counter("proxy_attribute_merge_failures_total",
                                "unsaved changes that directory servers could not be told of; told again")),
      stale_(metrics.counter("proxy_attribute_merges_stale_total",
                             "unsaved changes for files that are gone: nothing is lost by them")),
      dropped_(metrics.counter("proxy_attribute_merges_dropped_total",
                               "unsaved changes that were too many at once: told later")) {}

void WriteBack::start(Duration pass) {
  loop_.after(pass / kParts, [this, pass] {
    round();
    start(pass);
  });
}

void WriteBack::round() {
  const unsigned part = rounds_++ % kParts;
  if (queue_.size() >= kQueued / 2) return;
  for (const slice_eviction& changes : cache_.take_all_dirty(SLICE_ATTR_DIRTY, kQueued / 2, part, kParts))
    add(changes);
}

void WriteBack::add(const slice_eviction& changes) {
  if (queue_.size() >= kQueued) {
    dropped_.add();
    cache_.put_back(changes);
    return;
  }
  queue_.push_back(changes);
  pump();
}

void WriteBack::pump() {
  while (under_way_ < kAtOnce && !queue_.empty()) {
    slice_eviction changes = queue_.front();
    queue_.pop_front();
    ++under_way_;
    spawn(tell(*this, changes));
  }
}

// One MERGE at the authority: what it answered. Nothing where it could not be told; then the changes are
// unsaved again.
Task<std::optional<nfs3::Status>> WriteBack::merge(slice_eviction changes) {
  // A handle of our own for a file whose handle passed elsewhere: identity is fileID and site.
  routing::FileHandle file;
  file.fileid = FileId{changes.fileid};
  file.directory_site = SiteId{changes.directory_site};
  const routing::HandleBytes handle = handles_.mint(file);
  wire::FileMerge merge;
  merge.handle = handle;
  merge.epoch = Epoch{changes.epoch};
  if ((changes.flags & SLICE_ATTR_DIRTY_SIZE) != 0) merge.size = changes.size;
  if ((changes.flags & SLICE_ATTR_DIRTY_MTIME) != 0) merge.mtime = time_of(changes.mtime);
  if ((changes.flags & SLICE_ATTR_DIRTY_ATIME) != 0) merge.atime = time_of(changes.atime);
  auto server = tables_.endpoint_of(SLICE_CLASS_DIRECTORY, changes.directory_site);
  if (server) {
    auto result = co_await service::internal_call<wire::MergeResult>(
        channel_, *server, wire::kAuthorityProgram, wire::AuthorityProcedure::kMerge,
        wire::MergeArgs{{merge}}, 2s);
    bool told = result && result->files.size() == 1;
    // kJukebox: not the owner of the file's site, or its disk is in trouble: told again.
    if (told && result->files[0].status != nfs3::Status::kJukebox) {
      cache_.saved(changes);
      co_return result->files[0].status;
    }
  }
  cache_.put_back(changes);
  co_return std::nullopt;
}

Task<void> WriteBack::tell(WriteBack& self, slice_eviction changes) {
  auto told = co_await self.merge(changes);
  // A file that is gone has nothing to be told of.
  (!told ? self.failures_ : *told == nfs3::Status::kOk ? self.merges_ : self.stale_).add();
  --self.under_way_;
  self.pump();
}

Task<void> WriteBack::finish(Duration patience) {
  for (const slice_eviction& changes : cache_.take_all_dirty(SLICE_ATTR_DIRTY, kQueued)) add(changes);
  MonoTime until = loop_.now() + patience;
  while ((under_way_ > 0 || !queue_.empty()) && loop_.now() < until) co_await loop_.sleep(10ms);
}

}  // namespace slice::proxy
