// AttributeCache: the C++ face of bpf/shared/attributes.h. Any thread; entries are locked for a moment each,
// and shared with the XDP program.
#ifndef SLICE_PROXY_TABLES_ATTRIBUTE_CACHE_H
#define SLICE_PROXY_TABLES_ATTRIBUTE_CACHE_H

#include <functional>
#include <optional>
#include <vector>

#include "bpf/shared/attributes.h"
#include "bpf/shared/file_handle.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/metrics.h"

namespace slice::proxy {

class AttributeCache {
 public:
  // `evicted`: unsaved changes that are to be saved at once, to make room; called from any thread that uses
  // the cache, and must not use the cache itself.
  using Evicted = std::function<void(const slice_eviction&)>;
  AttributeCache(slice_attr_bucket* buckets, const slice_config* config, Metrics& metrics, Evicted evicted);

  // What to stamp into the handle of a READ, WRITE or COMMIT.
  std::uint64_t hint(FileId file);
  std::optional<std::uint64_t> size(FileId file);
  // Learns from, folds and patches the fattr3 of a reply (84 writable bytes, or null where there is none).
  // The outcome is that of slice_attr_absorb.
  std::uint32_t absorb(std::uint8_t* fattr, const slice_attr_event& event);
  // A WRITE's reply without attributes is about to go on: what was known of the file, and what was asked for
  // before, counts no more. False: it must not go on (another holder kept the entry too long).
  [[nodiscard]] bool unremembered(FileId file);
  // `config`'s clock, for slice_attr_event.asked_ms.
  std::uint32_t now_ms() const { return slice_load_relaxed32(&config_->now_ms); }
  // Puts what is unsaved on top of attributes that were patched before.
  void overlay(FileId file, std::uint8_t* fattr);
  void forget(FileId file);
  // Hints that absorb() of all these is about to be called.
  void prefetch(const std::vector<slice_attr_event>& events);

  // Write-back. take_all_dirty marks as being saved; saved ends that, put_back undoes it where the merge
  // failed.
  void saved(const slice_eviction& changes);
  void put_back(const slice_eviction& changes);
  // Every unsaved change whose flags have some of `flags`, at most `limit`: of one of `parts` equal parts of
  // the cache.
  std::vector<slice_eviction> take_all_dirty(std::uint32_t flags, std::size_t limit, unsigned part = 0,
                                             unsigned parts = 1);
  // Once, at start, on pinned entries: frees locks whose holder was killed, and marks what it was saving as
  // unsaved. Takes a few milliseconds.
  void recover();
  // Other proxies may have served since: forgets all that is known, but for what is unsaved, which stays on
  // top of what is learned from now on. Some milliseconds. False: an entry was held for too long, and
  // nothing is to be served yet.
  [[nodiscard]] bool begin_anew();

 private:
  void recover_locks();
  slice_attr_bucket& bucket(FileId file) { return buckets_[slice_attr_bucket_key(file.value)]; }
  bool lock(slice_attr_bucket& bucket);
  static int evict(void* self, const slice_eviction* eviction);

  slice_attr_bucket* buckets_;
  const slice_config* config_;
  Evicted evicted_;
  Counter &misses_, &busy_, &evictions_, &not_evicted_, &learned_, &patched_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_ATTRIBUTE_CACHE_H
