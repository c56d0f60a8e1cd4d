#include "proxy/tables/attribute_cache.h"

#include <sched.h>
#include <unistd.h>

#include <cstddef>

#include "common/prefetch.h"

namespace slice::proxy {
namespace {

// A holder in user space may have lost its processor in the middle: it needs a turn to finish.
constexpr int kYields = 64;

}  // namespace

AttributeCache::AttributeCache(slice_attr_bucket* buckets, const slice_config* config, Metrics& metrics,
                               Evicted evicted)
    : buckets_(buckets),
      config_(config),
      evicted_(std::move(evicted)),
      misses_(metrics.counter("proxy_attribute_misses_total",
                              "look-ups in the attribute cache without an entry")),
      busy_(metrics.counter(
          "proxy_attribute_busy_total",
          "look-ups in the attribute cache given up because another processor held the entry")),
      evictions_(metrics.counter("proxy_attribute_evictions_total",
                                 "entries of the attribute cache dropped for others")),
      not_evicted_(metrics.counter("proxy_attribute_not_evicted_total",
                                   "replies whose file was not remembered since all entries of its bucket "
                                   "had unsaved changes, of which one is then saved")),
      learned_(metrics.counter("proxy_attribute_learned_total",
                               "attributes that the attribute cache took from replies")),
      patched_(metrics.counter("proxy_attribute_patched_total",
                               "replies brought up to date from the attribute cache")) {}

bool AttributeCache::lock(slice_attr_bucket& bucket) {
  for (int i = 0; i < kYields; ++i) {
    if (slice_attr_lock(&bucket)) return true;
    ::sched_yield();
  }
  busy_.add();
  return false;
}

std::uint64_t AttributeCache::hint(FileId file) {
  std::uint64_t hint = slice_attr_peek(&bucket(file), file.value, config_);
  if (hint == 0) misses_.add();
  return hint;
}

std::optional<std::uint64_t> AttributeCache::size(FileId file) {
  std::uint64_t size = 0;
  if (!slice_hint_size(hint(file), &size)) return std::nullopt;
  return size;
}

int AttributeCache::evict(void* self, const slice_eviction* eviction) {
  static_cast<AttributeCache*>(self)->evicted_(*eviction);
  return 1;
}

std::uint32_t AttributeCache::absorb(std::uint8_t* fattr, const slice_attr_event& event) {
  std::uint64_t ignored = 0;
  std::uint32_t side = 0;
  std::uint32_t outcome = SLICE_OUTCOME_REPLY;
  for (int i = 0; i < kYields; ++i) {
    side = 0;
    outcome = slice_attr_absorb(&bucket(FileId{event.fileid}), fattr, &event, config_, &AttributeCache::evict,
                                this, &ignored, &side);
    if (side != SLICE_OUTCOME_ATTR_BUSY) break;
    ::sched_yield();
  }
  if (side == SLICE_OUTCOME_ATTR_BUSY) busy_.add();
  if (side == SLICE_OUTCOME_ATTR_EVICTED) evictions_.add();
  if (side == SLICE_OUTCOME_ATTR_NOT_EVICTED) not_evicted_.add();
  if (outcome == SLICE_OUTCOME_REPLY_LEARNED) learned_.add();
  if (outcome == SLICE_OUTCOME_REPLY_PATCHED) patched_.add();
  return outcome;
}

void AttributeCache::prefetch(const std::vector<slice_attr_event>& events) {
  for (const slice_attr_event& event : events) {
    slice::prefetch(&bucket(FileId{event.fileid}), offsetof(slice_attr_bucket, entry));
  }
  for (const slice_attr_event& event : events) {
    const slice_attr_bucket& where = bucket(FileId{event.fileid});
    const std::uint32_t way = slice_attr_find(&where, event.fileid);
    if (way < SLICE_ATTR_WAYS) slice::prefetch(&where.entry[way], sizeof where.entry[way]);
  }
}

void AttributeCache::overlay(FileId file, std::uint8_t* fattr) {
  slice_attr_bucket& where = bucket(file);
  if (!lock(where)) return;
  std::uint32_t way = slice_attr_find(&where, file.value);
  if (way < SLICE_ATTR_WAYS && where.entry[way].epoch == slice_be32(fattr + SLICE_FATTR_EPOCH)) {
    std::uint64_t ignored = 0;
    slice_attr_overlay(&where.entry[way], fattr, &ignored);
  }
  slice_attr_unlock(&where);
}

bool AttributeCache::unremembered(FileId file) {
  for (int i = 0; i < kYields; ++i) {
    if (slice_attr_unremembered(&bucket(file), file.value, config_)) return true;
    ::sched_yield();
  }
  busy_.add();
  return false;
}

void AttributeCache::forget(FileId file) {
  slice_attr_bucket& where = bucket(file);
  if (!lock(where)) return;
  slice_attr_forget(&where, file.value);
  slice_attr_unlock(&where);
}

void AttributeCache::put_back(const slice_eviction& changes) {
  slice_attr_bucket& where = bucket(FileId{changes.fileid});
  if (!lock(where)) return;
  slice_attr_mark_dirty(&where, &changes);
  slice_attr_unlock(&where);
}

void AttributeCache::saved(const slice_eviction& changes) {
  slice_attr_bucket& where = bucket(FileId{changes.fileid});
  if (!lock(where)) return;
  slice_attr_saved(&where, &changes);
  slice_attr_unlock(&where);
}

std::vector<slice_eviction> AttributeCache::take_all_dirty(std::uint32_t flags, std::size_t limit,
                                                           unsigned part, unsigned parts) {
  std::vector<slice_eviction> all;
  const std::size_t end = std::size_t{SLICE_ATTR_BUCKETS} * (part + 1) / parts;
  for (std::size_t i = std::size_t{SLICE_ATTR_BUCKETS} * part / parts; i < end && all.size() < limit; ++i) {
    slice_attr_bucket& where = buckets_[i];
    std::uint32_t any = 0;
    for (const std::uint32_t& way : where.flags) any |= slice_load_relaxed32(&way);
    if ((any & flags) == 0 || !lock(where)) continue;
    for (std::uint32_t way = 0; way < SLICE_ATTR_WAYS; ++way) {
      slice_eviction changes{};
      if ((where.flags[way] & flags) != 0 && slice_attr_take_dirty(&where, way, &changes))
        all.push_back(changes);
    }
    slice_attr_unlock(&where);
  }
  return all;
}

void AttributeCache::recover() {
  recover_locks();
  // Whether what was being saved came to be known nobody can say any more.
  for (std::size_t i = 0; i < SLICE_ATTR_BUCKETS; ++i) {
    slice_attr_bucket& bucket = buckets_[i];
    for (std::uint32_t way = 0; way < SLICE_ATTR_WAYS; ++way) {
      bool saving = (slice_load_relaxed32(&bucket.flags[way]) & SLICE_ATTR_SAVING) != 0;
      if (!saving || !lock(bucket)) continue;
      slice_eviction unknown;
      slice_attr_export(&bucket, way, &unknown);
      slice_attr_mark_dirty(&bucket, &unknown);
      slice_attr_unlock(&bucket);
    }
  }
}

bool AttributeCache::begin_anew() {
  for (std::size_t i = 0; i < SLICE_ATTR_BUCKETS; ++i) {
    if (!lock(buckets_[i])) return false;
    slice_attr_begin_anew(&buckets_[i], config_);
    slice_attr_unlock(&buckets_[i]);
  }
  return true;
}

void AttributeCache::recover_locks() {
  std::vector<std::pair<std::size_t, std::uint32_t>> held;
  for (std::size_t i = 0; i < SLICE_ATTR_BUCKETS; ++i) {
    std::uint32_t seen = slice_load_relaxed32(&buckets_[i].lock);
    if ((seen & 1) != 0) held.emplace_back(i, seen);
  }
  if (held.empty()) return;
  ::usleep(2000);
  for (auto [index, seen] : held) slice_attr_recover_lock(&buckets_[index], seen);
}

}  // namespace slice::proxy
