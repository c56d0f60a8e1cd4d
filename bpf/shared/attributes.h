// The attribute cache: what the proxy knows of regular files, one layout and one
// set of operations for the XDP program and slice-proxyd, which map the same
// array (or, without XDP, slice-proxyd uses anonymous memory).
//
// A file's entry has a *base*: the fattr3 a directory server last sent, and an
// *overlay*: size, mtime and atime that READ and WRITE replies moved since. The
// directory server learns the overlay by merges of data servers and of
// slice-proxyd; until then the overlay is patched into replies that pass:
//
//   size    the larger one counts, under the same truncation epoch
//   mtime   the overlay's counts when it is later than the base's, and moves an earlier ctime
//           along; where a SETATTR set the base's (SLICE_MTIME_SET), when it is later than
//           the base's ctime: so a utimes() after a write stands, and a chmod() hides no write
//   atime   likewise
//   epoch   (fattr3.rdev.specdata1) a reply with a higher one drops the overlay
//
// Servers check handles, the proxy cannot: so which file a reply is about, on which
// directory site it is (fattr3.rdev.specdata2) and how far a WRITE wrote is taken from
// the reply alone. A fattr3 of another file than the request's teaches nothing.
//
// *Room* is a fattr3 that a data server left for the proxy to fill because the
// hint said "can patch": type NF3REG, nlink 0, fileid, epoch, directory site, size (a
// lower bound), the end (in `used`) and mtime of a WRITE, the atime of a READ; anything
// else in it is ignored. nlink is never 0 in attributes otherwise. Data servers send room or no attributes:
// what they remember of a file may be older than what its client has seen. Where they send none, they have
// told the authority first, so there is nothing to fold.
//
// An entry with an unsaved size or mtime never leaves: the authority would answer what
// it knew before, although the write was acknowledged. A bucket full of those takes no
// other file, whose requests then go without a hint, and asks for one to be saved.
//
// A WRITE without hint leaves no trace here: the authority knows of it before its reply
// passes. But attributes that the authority sent before may be under way still, and would
// show the file without it. So from then on a file of that bucket has a base again when
// attributes come that were asked for later (unremembered_ms).
//
// Concurrency: slice_attr_peek alone reads without the lock (a fileID and the
// hint that belongs to it); anything else happens under the bucket's try-lock. Attempts are
// bounded: a failure is a miss for the caller, who counts it. Lock and unlock
// on one thread; never sleep or fault between them.
#ifndef SLICE_BPF_SHARED_ATTRIBUTES_H
#define SLICE_BPF_SHARED_ATTRIBUTES_H

#include "bpf/shared/base.h"
#include "bpf/shared/file_handle.h"
#include "bpf/shared/limits.h"
#include "bpf/shared/map_abi.h"
#include "bpf/shared/nfs_offsets.h"
#include "bpf/shared/outcomes.h"

#define SLICE_ATTR_LOCK_ATTEMPTS 64u
#define SLICE_ATTR_LATE_MS 60000u              // replies to older requests teach nothing
#define SLICE_ATTR_ATIME_LAG (86400ULL << 32)  // seconds << 32: a day

// Key in `attributes` of the bucket that may hold the file. The upper half of a
// fileID, with the site that issued it, counts: sequences begin anew at each.
SLICE_INLINE uint32_t slice_attr_bucket_key(uint64_t fileid) {
  return slice_spread32(fileid ^ fileid >> 32) & (SLICE_ATTR_BUCKETS - 1);
}

// --- Locking -------------------------------------------------------------------

// Takes the bucket's lock; 0 when another holder kept it through all attempts.
SLICE_INLINE int slice_attr_lock(struct slice_attr_bucket* bucket) {
  for (uint32_t i = 0; i < SLICE_ATTR_LOCK_ATTEMPTS; i++) {
    uint32_t seen = slice_load_relaxed32(&bucket->lock);
    if (!(seen & 1) && slice_compare_swap32(&bucket->lock, seen, seen + 1)) return 1;
  }
  return 0;
}

// Releases the lock that this thread took.
SLICE_INLINE void slice_attr_unlock(struct slice_attr_bucket* bucket) {
  slice_store_release32(&bucket->lock, slice_load_relaxed32(&bucket->lock) + 1);
}

// For the one slice-proxyd at its start: frees a lock whose holder was killed.
// Call it with the value the lock had a millisecond ago, which no living holder keeps.
SLICE_INLINE int slice_attr_recover_lock(struct slice_attr_bucket* bucket, uint32_t stuck) {
  return (stuck & 1) && slice_compare_swap32(&bucket->lock, stuck, stuck + 1);
}

// --- Looking -------------------------------------------------------------------

// The way that holds the file, or SLICE_ATTR_WAYS.
SLICE_INLINE uint32_t slice_attr_find(const struct slice_attr_bucket* bucket, uint64_t fileid) {
  if (slice_load_relaxed64(&bucket->fileid[0]) == fileid) return 0;
  if (slice_load_relaxed64(&bucket->fileid[1]) == fileid) return 1;
  if (slice_load_relaxed64(&bucket->fileid[2]) == fileid) return 2;
  if (slice_load_relaxed64(&bucket->fileid[3]) == fileid) return 3;
  return SLICE_ATTR_WAYS;
}

// Whether the entry's base can fill room in replies for a while yet. With a life of 0 none can, and no
// request goes with a hint.
SLICE_INLINE int slice_attr_fresh(uint32_t learned_ms, const struct slice_config* config) {
  return slice_load_relaxed32(&config->now_ms) - learned_ms < config->attribute_life_ms;
}

// The hint of a way that held the file a moment ago.
SLICE_INLINE uint64_t slice_attr_peek_way(const struct slice_attr_bucket* bucket, uint32_t way,
                                          uint64_t fileid, const struct slice_config* config) {
  uint64_t hint = slice_load_relaxed64(&bucket->hint[way]);
  if (!slice_attr_fresh(slice_load_relaxed32(&bucket->learned_ms[way]), config)) return 0;
  // a way that changes hands has fileID 0 in between, and hint 0 before the next one
  return slice_load_relaxed64(&bucket->fileid[way]) == fileid ? hint : 0;
}

// Without the lock: the hint to stamp into a READ, WRITE or COMMIT of the file
// (file_handle.h); 0 when its reply could not be patched.
SLICE_INLINE uint64_t slice_attr_peek(const struct slice_attr_bucket* bucket, uint64_t fileid,
                                      const struct slice_config* config) {
  if (SLICE_LIKELY(slice_load_relaxed64(&bucket->fileid[0]) == fileid)) {
    return slice_attr_peek_way(bucket, 0, fileid, config);
  }
  uint32_t way = slice_attr_find(bucket, fileid);
  if (way >= SLICE_ATTR_WAYS) return 0;
  return slice_attr_peek_way(bucket, way & (SLICE_ATTR_WAYS - 1), fileid, config);
}

// --- Under the lock --------------------------------------------------------------

// The unsaved changes of a way, for a merge.
SLICE_INLINE void slice_attr_export(const struct slice_attr_bucket* bucket, uint32_t way,
                                    struct slice_eviction* out) {
  const struct slice_attr_entry* entry = &bucket->entry[way & (SLICE_ATTR_WAYS - 1)];
  out->fileid = bucket->fileid[way & (SLICE_ATTR_WAYS - 1)];
  out->size = entry->size;
  out->mtime = entry->mtime;
  out->atime = entry->atime;
  out->epoch = entry->epoch;
  out->directory_site = entry->directory_site;
  out->flags = bucket->flags[way & (SLICE_ATTR_WAYS - 1)] & SLICE_ATTR_DIRTY;
  if (bucket->flags[way & (SLICE_ATTR_WAYS - 1)] & SLICE_ATTR_SAVING)
    out->flags |= SLICE_ATTR_DIRTY_SIZE | SLICE_ATTR_DIRTY_MTIME;
  out->reserved = 0;
}

SLICE_INLINE void slice_attr_mark_saving(struct slice_attr_bucket* bucket, uint32_t way) {
  bucket->flags[way] = (bucket->flags[way] & ~SLICE_ATTR_DIRTY) | SLICE_ATTR_SAVING;
}

// Write-back, step 1: copies the unsaved changes of a way and marks them as being
// saved: until slice_attr_saved the entry is not given away, since the authority
// would answer what it knew before. If the merge fails, slice_attr_mark_dirty puts
// the marks back. Answers whether there was anything.
SLICE_INLINE int slice_attr_take_dirty(struct slice_attr_bucket* bucket, uint32_t way,
                                       struct slice_eviction* out) {
  way &= SLICE_ATTR_WAYS - 1;
  if (bucket->fileid[way] == 0 || !(bucket->flags[way] & SLICE_ATTR_DIRTY)) return 0;
  slice_attr_export(bucket, way, out);
  slice_attr_mark_saving(bucket, way);
  return 1;
}

// Marks changes of the file as unsaved again, if it is still there under that epoch.
SLICE_INLINE void slice_attr_mark_dirty(struct slice_attr_bucket* bucket,
                                        const struct slice_eviction* changes) {
  uint32_t way = slice_attr_find(bucket, changes->fileid);
  if (way >= SLICE_ATTR_WAYS) return;
  way &= SLICE_ATTR_WAYS - 1;
  bucket->flags[way] &= ~SLICE_ATTR_SAVING;
  if (bucket->entry[way].epoch == changes->epoch) bucket->flags[way] |= changes->flags & SLICE_ATTR_DIRTY;
}

// Write-back, step 2: the authority knows these changes, and there are no newer ones.
SLICE_INLINE void slice_attr_saved(struct slice_attr_bucket* bucket, const struct slice_eviction* changes) {
  uint32_t way = slice_attr_find(bucket, changes->fileid);
  if (way >= SLICE_ATTR_WAYS) return;
  way &= SLICE_ATTR_WAYS - 1;
  const struct slice_attr_entry* entry = &bucket->entry[way];
  if (entry->epoch != changes->epoch || entry->size != changes->size || entry->mtime != changes->mtime)
    return;
  bucket->flags[way] &= ~SLICE_ATTR_SAVING;
}

// Forgets the file's base and overlay (after a REMOVE, or when a server says stale).
SLICE_INLINE void slice_attr_forget(struct slice_attr_bucket* bucket, uint64_t fileid) {
  uint32_t way = slice_attr_find(bucket, fileid);
  if (way >= SLICE_ATTR_WAYS) return;
  way &= SLICE_ATTR_WAYS - 1;
  slice_store_relaxed64(&bucket->fileid[way], 0);
  bucket->flags[way] = 0;
  slice_order(&bucket->lock);
  slice_store_relaxed64(&bucket->hint[way], 0);
}

// The way for a new file: an empty one, else a clean one, else one of which only an
// atime is unsaved. SLICE_ATTR_WAYS where no entry may go.
SLICE_INLINE uint32_t slice_attr_victim(const struct slice_attr_bucket* bucket) {
  uint32_t clean = SLICE_ATTR_WAYS;
  uint32_t read = SLICE_ATTR_WAYS;
  for (uint32_t i = 0; i < SLICE_ATTR_WAYS; i++) {
    uint32_t way = (bucket->next_way + i) & (SLICE_ATTR_WAYS - 1);
    if (bucket->fileid[way] == 0) return way;
    uint32_t unsaved = bucket->flags[way] & SLICE_ATTR_UNSAVED;
    if (clean == SLICE_ATTR_WAYS && !unsaved) clean = way;
    if (read == SLICE_ATTR_WAYS && unsaved == SLICE_ATTR_DIRTY_ATIME) read = way;
  }
  return clean < SLICE_ATTR_WAYS ? clean : read;
}

// Gives a way to the file: nothing known, nothing unsaved.
SLICE_INLINE void slice_attr_reset(struct slice_attr_bucket* bucket, uint32_t way, uint64_t fileid,
                                   uint32_t epoch) {
  way &= SLICE_ATTR_WAYS - 1;
  struct slice_attr_entry* entry = &bucket->entry[way];
  slice_store_relaxed64(&bucket->fileid[way], 0);
  slice_order(&bucket->lock);
  slice_store_relaxed64(&bucket->hint[way], 0);
  slice_order(&bucket->lock);
  slice_store_relaxed64(&bucket->fileid[way], fileid);
  bucket->flags[way] = 0;
  bucket->next_way = way + 1;
  entry->size = 0;
  entry->mtime = 0;
  entry->atime = 0;
  entry->epoch = epoch;
  slice_store_relaxed32(&bucket->learned_ms[way], 0);
  entry->directory_site = 0;
}

// The hint that slice_attr_peek gives from now on: call it after any change.
SLICE_INLINE void slice_attr_publish(struct slice_attr_bucket* bucket, uint32_t way) {
  way &= SLICE_ATTR_WAYS - 1;
  uint64_t hint = 0;
  if (bucket->flags[way] & SLICE_ATTR_VALID) hint = slice_hint_encode(1, 1, bucket->entry[way].size);
  slice_store_relaxed64(&bucket->hint[way], hint);
}

// --- Folding and patching (lock held) ----------------------------------------------

// What passed, as far as the cache cares; the caller fills all of it.
struct slice_attr_event {
  uint64_t fileid;     // that the reply has to be about: of the request's handle, or of the one in the reply
  uint32_t procedure;  // enum slice_procedure
  uint32_t asked_ms;   // config.now_ms when the request passed first
  uint32_t teaches;    // 0: the reply may be patched, and changes nothing that is known
};

// Whether a fattr3 of a reply is room to be filled (see above).
SLICE_INLINE int slice_attr_is_room(const uint8_t* fattr) {
  return slice_load32(fattr + SLICE_FATTR_NLINK) == 0 &&
         slice_load32(fattr + SLICE_FATTR_TYPE) == SLICE_BE32(SLICE_NF3REG);
}

// A larger epoch than the overlay's: what was folded is void.
SLICE_INLINE void slice_attr_new_epoch(struct slice_attr_bucket* bucket, uint32_t way, uint32_t epoch) {
  struct slice_attr_entry* entry = &bucket->entry[way];
  entry->size = 0;
  entry->mtime = 0;
  entry->atime = 0;
  entry->epoch = epoch;
  bucket->flags[way] = 0;
}

// Whether a READ moves atime: as relatime of mount(8), as the authority has it.
SLICE_INLINE int slice_attr_moves_atime(const struct slice_attr_entry* entry, uint64_t atime) {
  const uint8_t* base = (const uint8_t*)entry->base;
  uint64_t before = slice_be64(base + SLICE_FATTR_ATIME);
  if (entry->atime > before) before = entry->atime;
  uint64_t changed = slice_be64(base + SLICE_FATTR_CTIME);
  if (entry->mtime > changed) changed = entry->mtime;
  return atime > before && (before <= changed || atime - before >= SLICE_ATTR_ATIME_LAG);
}

// Folds what a data server says in room of its reply to a READ or WRITE.
SLICE_INLINE void slice_attr_fold(struct slice_attr_bucket* bucket, uint32_t way, const uint8_t* fattr,
                                  const struct slice_attr_event* event) {
  struct slice_attr_entry* entry = &bucket->entry[way];
  uint64_t size = slice_be64(fattr + SLICE_FATTR_SIZE);
  if (size > entry->size) entry->size = size;
  if (event->procedure == SLICE_NFS_WRITE) {
    uint64_t mtime = slice_be64(fattr + SLICE_FATTR_MTIME);
    uint64_t end = slice_be64(fattr + SLICE_FATTR_USED);
    if (end > entry->size) entry->size = end;
    if (end != 0) bucket->flags[way] |= SLICE_ATTR_DIRTY_SIZE;
    if (mtime > entry->mtime) {
      entry->mtime = mtime;
      bucket->flags[way] |= SLICE_ATTR_DIRTY_MTIME;
    }
  } else if (event->procedure == SLICE_NFS_READ) {
    uint64_t atime = slice_be64(fattr + SLICE_FATTR_ATIME);
    if (slice_attr_moves_atime(entry, atime)) {
      entry->atime = atime;
      bucket->flags[way] |= SLICE_ATTR_DIRTY_ATIME;
    }
  }
}

// Whether attributes that were asked for then hold every WRITE whose reply has passed and
// that left no trace in the bucket.
SLICE_INLINE int slice_attr_holds_writes(const struct slice_attr_bucket* bucket,
                                         const struct slice_attr_event* event,
                                         const struct slice_config* config) {
  uint32_t now = slice_load_relaxed32(&config->now_ms);
  uint32_t age = now - event->asked_ms;
  if (age > SLICE_ATTR_LATE_MS) return 0;
  return bucket->unremembered_ms == 0 || age < now - bucket->unremembered_ms;
}

// The reply to a WRITE that succeeded came without attributes of the file: what is known
// of it counts no more. Before the reply goes on. 0 when another holder kept the lock:
// then it must not go on.
SLICE_INLINE int slice_attr_unremembered(struct slice_attr_bucket* bucket, uint64_t fileid,
                                         const struct slice_config* config) {
  if (!slice_attr_lock(bucket)) return 0;
  uint32_t now = slice_load_relaxed32(&config->now_ms);
  bucket->unremembered_ms = now ? now : 1;
  uint32_t way = slice_attr_find(bucket, fileid);
  if (way < SLICE_ATTR_WAYS) {
    bucket->flags[way] &= ~SLICE_ATTR_VALID;
    slice_attr_publish(bucket, way);
  }
  slice_attr_unlock(bucket);
  return 1;
}

// Under the lock. Other proxies may have served meanwhile (docs/proxy.md, "Several proxies"): what is known
// of the bucket's files counts no more, but for what is unsaved, and what was asked for before teaches
// nothing.
SLICE_INLINE void slice_attr_begin_anew(struct slice_attr_bucket* bucket, const struct slice_config* config) {
  uint32_t now = slice_load_relaxed32(&config->now_ms);
  bucket->unremembered_ms = now ? now : 1;
  for (uint32_t way = 0; way < SLICE_ATTR_WAYS; way++) {
    if (bucket->fileid[way] == 0) continue;
    if (bucket->flags[way] & SLICE_ATTR_UNSAVED) {
      bucket->flags[way] &= ~SLICE_ATTR_VALID;
      slice_attr_publish(bucket, way);
    } else {
      slice_attr_forget(bucket, bucket->fileid[way]);
    }
  }
}

// Makes the fattr3 of a reply the base, unless the base is newer.
SLICE_INLINE int slice_attr_learn(struct slice_attr_bucket* bucket, uint32_t way, const uint8_t* fattr,
                                  const struct slice_config* config) {
  struct slice_attr_entry* entry = &bucket->entry[way];
  const uint8_t* base = (const uint8_t*)entry->base;
  if ((bucket->flags[way] & SLICE_ATTR_VALID) && slice_attr_fresh(bucket->learned_ms[way], config) &&
      slice_be64(fattr + SLICE_FATTR_CTIME) < slice_be64(base + SLICE_FATTR_CTIME)) {
    return 0;
  }
  for (uint32_t i = 0; i < SLICE_FATTR_WORDS; i++) entry->base[i] = slice_load32(fattr + 4 * i);
  uint64_t size = slice_be64(fattr + SLICE_FATTR_SIZE);
  if (size > entry->size) entry->size = size;
  slice_store_relaxed32(&bucket->learned_ms[way], slice_load_relaxed32(&config->now_ms));
  bucket->flags[way] |= SLICE_ATTR_VALID;
  return 1;
}

// Attributes that cannot be learned say that the file has changed since its base: that counts no more, for
// replies of data servers would show what was before a change that was acknowledged.
SLICE_INLINE void slice_attr_outdate(struct slice_attr_bucket* bucket, uint32_t way, const uint8_t* fattr) {
  const uint8_t* base = (const uint8_t*)bucket->entry[way].base;
  if (slice_be64(fattr + SLICE_FATTR_CTIME) > slice_be64(base + SLICE_FATTR_CTIME)) {
    bucket->flags[way] &= ~SLICE_ATTR_VALID;
  }
}

// What a write's mtime must exceed to be the file's (the authority's own rule is merge_mtime,
// authority_service.cc; with mtime set, this one waits for it where another SETATTR came later).
SLICE_INLINE uint64_t slice_attr_mtime_floor(const uint8_t* fattr) {
  int set = (slice_be32(fattr + SLICE_FATTR_SITE) & SLICE_MTIME_SET) != 0;
  return slice_be64(fattr + (set ? SLICE_FATTR_CTIME : SLICE_FATTR_MTIME));
}

// Puts the overlay into the fattr3 of a reply. Answers whether anything changed.
SLICE_INLINE int slice_attr_overlay(const struct slice_attr_entry* entry, uint8_t* fattr, uint64_t* sum) {
  uint64_t size = slice_be64(fattr + SLICE_FATTR_SIZE);
  uint64_t ctime = slice_be64(fattr + SLICE_FATTR_CTIME);
  int changed = 0;
  if (entry->size > size) {
    uint64_t used = slice_be64(fattr + SLICE_FATTR_USED) + (entry->size - size);
    slice_replace64(fattr + SLICE_FATTR_SIZE, SLICE_BE64(entry->size), sum);
    slice_replace64(fattr + SLICE_FATTR_USED, SLICE_BE64(used), sum);
    changed = 1;
  }
  if (entry->mtime > slice_attr_mtime_floor(fattr)) {
    slice_replace64(fattr + SLICE_FATTR_MTIME, SLICE_BE64(entry->mtime), sum);
    if (entry->mtime > ctime) slice_replace64(fattr + SLICE_FATTR_CTIME, SLICE_BE64(entry->mtime), sum);
    changed = 1;
  }
  if (entry->atime > ctime && entry->atime > slice_be64(fattr + SLICE_FATTR_ATIME)) {
    slice_replace64(fattr + SLICE_FATTR_ATIME, SLICE_BE64(entry->atime), sum);
    changed = 1;
  }
  return changed;
}

// Fills room with the base; the overlay goes on top of it.
SLICE_INLINE void slice_attr_fill_room(const struct slice_attr_entry* entry, uint8_t* fattr, uint64_t* sum) {
  for (uint32_t i = 0; i < SLICE_FATTR_WORDS; i++) slice_replace32(fattr + 4 * i, entry->base[i], sum);
}

// A reply's fattr3 of a regular file and the cache, brought together: folds,
// learns and patches. `way` holds the file; `sum` collects the change for the
// checksum. Result: REPLY_LEARNED, REPLY_PATCHED, REPLY (nothing to do) or
// PATCH_LOST (the room cannot be filled: drop the reply; the client asks again).
SLICE_INLINE uint32_t slice_attr_apply(struct slice_attr_bucket* bucket, uint32_t way, uint8_t* fattr,
                                       const struct slice_attr_event* event,
                                       const struct slice_config* config, uint64_t* sum) {
  way &= SLICE_ATTR_WAYS - 1;
  struct slice_attr_entry* entry = &bucket->entry[way];
  uint32_t epoch = slice_be32(fattr + SLICE_FATTR_EPOCH);
  if (epoch > entry->epoch) slice_attr_new_epoch(bucket, way, epoch);
  int current = epoch == entry->epoch;
  entry->directory_site = slice_be32(fattr + SLICE_FATTR_SITE) & ~SLICE_MTIME_SET;
  if (slice_attr_is_room(fattr)) {
    if (current) slice_attr_fold(bucket, way, fattr, event);
    if (!(bucket->flags[way] & SLICE_ATTR_VALID)) return SLICE_OUTCOME_PATCH_LOST;
    slice_attr_fill_room(entry, fattr, sum);
    slice_attr_overlay(entry, fattr, sum);
    return SLICE_OUTCOME_REPLY_PATCHED;
  }
  if (!current) return SLICE_OUTCOME_REPLY;
  int learned = 0;
  if (slice_attr_holds_writes(bucket, event, config)) {
    learned = slice_attr_learn(bucket, way, fattr, config);
  } else {
    slice_attr_outdate(bucket, way, fattr);
  }
  if (slice_attr_overlay(entry, fattr, sum)) return SLICE_OUTCOME_REPLY_PATCHED;
  return learned ? SLICE_OUTCOME_REPLY_LEARNED : SLICE_OUTCOME_REPLY;
}

// A reply that teaches nothing: its fattr3 is patched where the file is known, and what
// is known stays as it is. Room needs what the server says in it, so it is not filled.
SLICE_INLINE uint32_t slice_attr_show(const struct slice_attr_bucket* bucket, uint8_t* fattr,
                                      const struct slice_attr_event* event, uint64_t* sum) {
  uint32_t way = slice_attr_find(bucket, event->fileid);
  if (slice_attr_is_room(fattr)) return SLICE_OUTCOME_PATCH_REFUSED;
  if (way >= SLICE_ATTR_WAYS) return SLICE_OUTCOME_REPLY;
  const struct slice_attr_entry* entry = &bucket->entry[way & (SLICE_ATTR_WAYS - 1)];
  int shown = slice_be32(fattr + SLICE_FATTR_EPOCH) == entry->epoch && slice_attr_overlay(entry, fattr, sum);
  return shown ? SLICE_OUTCOME_REPLY_PATCHED : SLICE_OUTCOME_REPLY;
}

// Tells user space of unsaved changes that it is to save: they leave the cache, or are
// being saved from now on. Nonzero when it took them.
typedef int (*slice_evict_fn)(void* context, const struct slice_eviction* eviction);

// A way with changes that nobody is saving, if there is one.
SLICE_INLINE uint32_t slice_attr_dirty_way(const struct slice_attr_bucket* bucket) {
  for (uint32_t i = 0; i < SLICE_ATTR_WAYS; i++) {
    uint32_t way = (bucket->next_way + i) & (SLICE_ATTR_WAYS - 1);
    if (bucket->flags[way] & SLICE_ATTR_DIRTY) return way;
  }
  return SLICE_ATTR_WAYS;
}

// The way of the file, made if need be. `evict` takes an unsaved atime that has to go, or,
// where no entry may go, changes to be saved for the next time; then the result is
// SLICE_ATTR_WAYS.
SLICE_INLINE uint32_t slice_attr_claim(struct slice_attr_bucket* bucket, uint64_t fileid, uint32_t epoch,
                                       slice_evict_fn evict, void* context, int* evicted) {
  uint32_t way = slice_attr_find(bucket, fileid);
  if (way < SLICE_ATTR_WAYS) return way;
  way = slice_attr_victim(bucket);
  int full = way >= SLICE_ATTR_WAYS;
  if (full) way = slice_attr_dirty_way(bucket);
  if (way >= SLICE_ATTR_WAYS) return SLICE_ATTR_WAYS;
  way &= SLICE_ATTR_WAYS - 1;
  if (bucket->fileid[way] != 0 && (bucket->flags[way] & SLICE_ATTR_UNSAVED)) {
    struct slice_eviction changes;
    slice_attr_export(bucket, way, &changes);
    if (!evict(context, &changes)) return SLICE_ATTR_WAYS;
    if (full) {
      slice_attr_mark_saving(bucket, way);
      return SLICE_ATTR_WAYS;
    }
    *evicted = 1;
  }
  slice_attr_reset(bucket, way, fileid, epoch);
  return way;
}

// Everything a reply does to the cache, lock included. `bucket` is that of
// event->fileid. `fattr` is the reply's fattr3, 84 writable bytes, of that file or, where
// a client played with its xids, of another. `side` gets a second outcome to count
// (ATTR_BUSY, ATTR_EVICTED, ATTR_NOT_EVICTED, ATTR_FOREIGN) or 0. Result: the reply's
// outcome, as slice_attr_apply, or PATCH_BUSY, PATCH_FULL or PATCH_REFUSED: then what the
// reply says of a WRITE is not remembered, and nobody may hear that it was done.
SLICE_INLINE uint32_t slice_attr_absorb(struct slice_attr_bucket* bucket, uint8_t* fattr,
                                        const struct slice_attr_event* event,
                                        const struct slice_config* config, slice_evict_fn evict,
                                        void* context, uint64_t* sum, uint32_t* side) {
  int evicted = 0;
  uint32_t outcome = SLICE_OUTCOME_REPLY;
  if (SLICE_UNLIKELY(slice_be64(fattr + SLICE_FATTR_FILEID) != event->fileid)) {
    *side = SLICE_OUTCOME_ATTR_FOREIGN;
    return slice_attr_is_room(fattr) ? SLICE_OUTCOME_PATCH_REFUSED : SLICE_OUTCOME_REPLY;
  }
  if (!slice_attr_lock(bucket)) {
    *side = SLICE_OUTCOME_ATTR_BUSY;
    return SLICE_OUTCOME_PATCH_BUSY;
  }
  if (SLICE_UNLIKELY(!event->teaches)) {
    outcome = slice_attr_show(bucket, fattr, event, sum);
    slice_attr_unlock(bucket);
    return outcome;
  }
  uint32_t way = slice_attr_claim(bucket, event->fileid, slice_be32(fattr + SLICE_FATTR_EPOCH), evict,
                                  context, &evicted);
  if (way >= SLICE_ATTR_WAYS) {
    *side = SLICE_OUTCOME_ATTR_NOT_EVICTED;
    if (slice_attr_is_room(fattr)) outcome = SLICE_OUTCOME_PATCH_FULL;
  } else {
    if (evicted) *side = SLICE_OUTCOME_ATTR_EVICTED;
    way &= SLICE_ATTR_WAYS - 1;
    outcome = slice_attr_apply(bucket, way, fattr, event, config, sum);
    slice_attr_publish(bucket, way);
  }
  slice_attr_unlock(bucket);
  return outcome;
}

#endif  // SLICE_BPF_SHARED_ATTRIBUTES_H
