#include "dirserver/store/cell_store.h"

#include <algorithm>
#include <cassert>

namespace slice::dirserver {
namespace {

constexpr std::uint64_t kSequenceRange = 1024;
constexpr unsigned kSequenceBits = 48;
constexpr std::uint64_t kEntryOverhead = 64;  // of the caches, about

std::uint64_t cost_of(const AttributeCell& cell) {
  return sizeof(AttributeCell) + cell.symlink_target.size() + kEntryOverhead;
}

std::uint64_t cost_of(const NameBucket& bucket) {
  std::uint64_t bytes = sizeof(NameBucket) + kEntryOverhead;
  for (const NameEntry& entry : bucket.entries) bytes += sizeof(NameEntry) + entry.name.size();
  return bytes;
}

std::int64_t directories_in(const Target& target) {
  return target.type == nfs3::FileType::kDirectory ? 1 : 0;
}

void move_count(std::uint64_t& count, std::int64_t by) {
  // Damage that fsck finds must not become a count near 2^64.
  count = by < 0 && count < static_cast<std::uint64_t>(-by) ? 0 : count + static_cast<std::uint64_t>(by);
}

void add(DirectoryChange& sum, const DirectoryChange& more) {
  sum.entries += more.entries;
  sum.subdirectories += more.subdirectories;
  sum.at = std::max(sum.at, more.at);
}

}  // namespace

CellStore::CellStore(storage::KvStore& store, Metrics& metrics, std::uint64_t cache_bytes, Owns owns,
                     Stays& stays)
    : store_(store),
      owns_(std::move(owns)),
      stays_(stays),
      attributes_(cache_bytes / 2),
      names_(cache_bytes / 8 * 3),
      listings_(cache_bytes / 8),
      locks_(metrics),
      hits_(metrics.counter("cell_cache_hits_total",
                            "cells, and lists of a directory's names, found in memory")),
      misses_(metrics.counter("cell_cache_misses_total",
                              "cells, and lists of a directory's names, read from the store")) {}

Result<const AttributeCell*> CellStore::attributes(const CellRef& ref) {
  auto cell = any_generation(ref);
  if (!cell || *cell == nullptr) return cell;
  return (*cell)->self.cell == ref ? *cell : nullptr;
}

Result<storage::LogPosition> CellStore::apply(const storage::WriteBatch& batch) {
  if (!stays_.all_open()) {
    for (const auto& change : batch.changes()) {
      if (const SiteId site = site_of_key(change.key); stays_.closed(site))
        return fail(Errc::kUnavailable, "site {} moves to another server", site.value);
    }
  }
  auto position = store_.apply(batch);
  if (position && watcher_) watcher_(batch);
  return position;
}

void CellStore::forget(const std::vector<std::uint32_t>& sites) {
  auto among = [&](SiteId site) { return std::find(sites.begin(), sites.end(), site.value) != sites.end(); };
  attributes_.erase_if([&](FileId file) { return among(routing::directory_site_of(file)); });
  names_.erase_if([&](const NameKey& key) { return among(key.site); });
  listings_.erase_if([&](const NameKey& key) { return among(key.site); });
  for (std::uint32_t site : sites) sequences_.erase(site);
}

Result<const AttributeCell*> CellStore::any_generation(const CellRef& ref) {
  if (stays_.gone(ref.site))
    return fail(Errc::kUnavailable, "site {} has moved to another server", ref.site.value);
  const AttributeCell* cell = attributes_.find(ref.fileid);
  if (cell != nullptr) {
    hits_.add();
  } else {
    misses_.add();
    auto value = store_.get(attribute_key(ref.site, ref.fileid));
    if (!value) return fail(value.error(), fmt::format("attributes of file {:#x}", ref.fileid.value));
    if (!*value) return nullptr;
    auto decoded = decode_attribute_cell(ref.site, **value);
    if (!decoded) return fail(decoded.error(), fmt::format("file {:#x}", ref.fileid.value));
    std::uint64_t cost = cost_of(*decoded);
    cell = attributes_.put(ref.fileid, std::move(*decoded), cost);
  }
  return cell;
}

Result<const NameBucket*> CellStore::bucket(const NameKey& key) {
  if (stays_.gone(key.site))
    return fail(Errc::kUnavailable, "site {} has moved to another server", key.site.value);
  if (const NameBucket* cached = names_.find(key)) {
    hits_.add();
    return cached;
  }
  misses_.add();
  auto value = store_.get(name_key(key.site, key.directory, key.position));
  if (!value) return fail(value.error(), fmt::format("a name in directory {:#x}", key.directory.value));
  NameBucket bucket;
  if (*value) {
    auto decoded = decode_name_bucket(**value);
    if (!decoded) return fail(decoded.error(), fmt::format("directory {:#x}", key.directory.value));
    bucket = std::move(*decoded);
  }
  std::uint64_t cost = cost_of(bucket);
  return names_.put(key, std::move(bucket), cost);
}

std::uint64_t CellStore::Listing::cost() const {
  std::uint64_t bytes = sizeof(Listing) + kEntryOverhead;
  for (const Name& name : names) bytes += sizeof name + name.entry.name.size();
  return bytes;
}

// What is at the position now.
void CellStore::Listing::replace(Position position, const NameBucket& bucket) {
  auto first = std::lower_bound(names.begin(), names.end(), position, before);
  auto last = first;
  while (last != names.end() && last->position == position) ++last;
  auto at = names.erase(first, last);
  for (const NameEntry& entry : bucket.entries) at = std::next(names.insert(at, {position, entry}));
  if (names.size() > kMostListed) *this = {.whole = false, .names = {}};
}

Result<bool> CellStore::each_name(SiteId site, FileId directory, Position from, const Visit& visit) {
  auto listed = listing(site, directory);
  if (!listed) return fail(std::move(listed.error()));
  if (*listed == nullptr) return walk(site, directory, from, visit);
  const auto& names = (*listed)->names;
  auto at = std::lower_bound(names.begin(), names.end(), from, Listing::before);
  return std::all_of(at, names.end(),
                     [&](const Listing::Name& name) { return visit(name.position, name.entry); });
}

// Null where the names are too many.
Result<const CellStore::Listing*> CellStore::listing(SiteId site, FileId directory) {
  const NameKey key{site, directory, {}};
  const Listing* kept = listings_.find(key);
  (kept != nullptr ? hits_ : misses_).add();
  if (kept == nullptr) {
    Listing fresh;
    auto all = walk(site, directory, {}, [&fresh](Position position, const NameEntry& entry) {
      fresh.names.push_back({position, entry});
      return fresh.names.size() <= kMostListed;
    });
    if (!all) return fail(std::move(all.error()));
    if (!*all) fresh = {.whole = false, .names = {}};
    const std::uint64_t cost = fresh.cost();
    kept = listings_.put(key, std::move(fresh), cost);
  }
  return kept->whole ? kept : nullptr;
}

Result<bool> CellStore::walk(SiteId site, FileId directory, Position from, const Visit& visit) const {
  KeyRange range = range_of_directory(site, directory);
  if (from.value > 0) range.begin = name_key(site, directory, from);
  auto at = store_.iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto bucket = decode_name_bucket(at->value());
    if (!bucket) return fail(bucket.error(), fmt::format("directory {:#x}", directory.value));
    const Position position{last_number(at->key())};
    for (const NameEntry& entry : bucket->entries) {
      if (!visit(position, entry)) return false;
    }
  }
  if (auto status = at->status(); !status) return fail(status.error());
  return true;
}

Result<const NameEntry*> CellStore::find(const NamePlace& place) {
  auto found = bucket({place.site, place.directory.fileid, place.position});
  if (!found) return fail(std::move(found.error()));
  return (*found)->find(place.name);
}

Result<bool> CellStore::position_full(const NamePlace& place) {
  auto found = bucket({place.site, place.directory.fileid, place.position});
  if (!found) return fail(std::move(found.error()));
  return (*found)->entries.size() >= kSlots;
}

Result<PartCell> CellStore::part(SiteId site, const CellRef& directory) {
  auto value = store_.get(part_key(site, directory.fileid));
  if (!value) return fail(value.error(), fmt::format("part of directory {:#x}", directory.fileid.value));
  if (!*value) return PartCell{.directory = directory};
  return decode_part(**value);
}

Status CellStore::take_range(SiteId site, Sequence& sequence) {
  auto value = store_.get(sequence_key(site));
  if (!value) return fail(value.error(), "sequence of fileIDs");
  std::uint64_t start = site == kRootSite ? kRootId.value + 1 : 1;
  if (*value) {
    auto stored = decode_number(**value);
    if (!stored) return fail(stored.error(), "sequence of fileIDs");
    start = *stored;
  }
  if (((start + kSequenceRange) >> kSequenceBits) != 0) {
    return fail(Errc::kNoSpace, "site {} has used up its fileIDs", site.value);
  }
  // By itself, before any batch that uses a number of it: the store's log keeps the order.
  storage::WriteBatch batch;
  batch.put(sequence_key(site), encode_number(start + kSequenceRange));
  if (auto applied = apply(batch); !applied) return fail(std::move(applied.error()));
  sequence = {start, start + kSequenceRange};
  return {};
}

void CellStore::remember(const AttributeCell& cell) {
  attributes_.put(cell.self.cell.fileid, cell, cost_of(cell));
}

void CellStore::remember(const NameKey& key, NameBucket bucket) {
  listings_.update({key.site, key.directory, {}}, [&](Listing& listing) {
    if (listing.whole) listing.replace(key.position, bucket);
    return listing.cost();
  });
  std::uint64_t cost = cost_of(bucket);
  names_.put(key, std::move(bucket), cost);
}

void CellStore::note_pending(FileId file, storage::LogPosition position) {
  pending_[file] = position;
  pending_order_.push_back({position, file});
}

storage::LogPosition CellStore::pending(FileId file) {
  auto durable = store_.durable_position();
  while (!pending_order_.empty() && pending_order_.front().position <= durable) {
    auto found = pending_.find(pending_order_.front().file);
    if (found != pending_.end() && found->second <= durable) pending_.erase(found);
    pending_order_.pop_front();
  }
  if (pending_.empty()) return {};
  auto found = pending_.find(file);
  return found == pending_.end() ? storage::LogPosition{} : found->second;
}

void apply(AttributeCell& directory, const DirectoryChange& change) {
  move_count(directory.entries, change.entries);
  directory.nlink += static_cast<std::uint32_t>(change.subdirectories);
  directory.mtime = directory.ctime = nfs3::later(*change.at, std::max(directory.mtime, directory.ctime));
}

// ---- Transaction ----

Result<AttributeCell*> Transaction::load(const CellRef& ref) {
  for (auto& slot : attributes_) {
    if (slot->cell.self.cell == ref) return slot->erased ? nullptr : &slot->cell;
  }
  show(ref.fileid);
  auto cell = cells_.attributes(ref);
  if (!cell) return fail(std::move(cell.error()));
  if (*cell == nullptr) {
    missed_.push_back(ref.fileid);
    return nullptr;
  }
  attributes_.push_back(std::make_unique<CellSlot>(CellSlot{.cell = **cell, .names = {}}));
  return &attributes_.back()->cell;
}

Transaction::CellSlot& Transaction::slot_of(const AttributeCell& cell) {
  auto found = std::find_if(attributes_.begin(), attributes_.end(),
                            [&](const auto& slot) { return &slot->cell == &cell; });
  assert(found != attributes_.end());
  return **found;
}

void Transaction::change(AttributeCell& cell) {
  slot_of(cell).changed = true;
}

AttributeCell& Transaction::create(AttributeCell cell) {
  attributes_.push_back(std::make_unique<CellSlot>(
      CellSlot{.cell = std::move(cell), .changed = true, .created = true, .names = {}}));
  return attributes_.back()->cell;
}

void Transaction::erase(AttributeCell& cell) {
  slot_of(cell).erased = true;
}

void Transaction::put_locks(const CellRef& file, ClientLocks locks) {
  show(file.fileid);
  locks_.push_back({file, std::move(locks)});
}

Result<FileId> Transaction::allocate(SiteId site) {
  CellStore::Sequence& sequence = cells_.sequences_[site.value];
  if (sequence.next == sequence.limit) SLICE_RETURN_IF_ERROR(cells_.take_range(site, sequence));
  return FileId{std::uint64_t{site.value} << kSequenceBits | sequence.next++};
}

Result<PartCell> Transaction::part(SiteId site, const CellRef& directory) {
  show(directory.fileid);
  return cells_.part(site, directory);
}

void Transaction::show(FileId file) {
  shown_ = std::max(shown_, cells_.pending(file));
}

Result<Transaction::BucketSlot*> Transaction::bucket(const NamePlace& place) {
  CellStore::NameKey key{place.site, place.directory.fileid, place.position};
  for (auto& slot : buckets_) {
    if (slot->key == key) return slot.get();
  }
  show(place.directory.fileid);
  auto found = cells_.bucket(key);
  if (!found) return fail(std::move(found.error()));
  buckets_.push_back(std::make_unique<BucketSlot>(BucketSlot{key, **found}));
  return buckets_.back().get();
}

Result<const NameEntry*> Transaction::find(const NamePlace& place) {
  auto slot = bucket(place);
  if (!slot) return fail(std::move(slot.error()));
  return std::as_const((*slot)->bucket).find(place.name);
}

Status Transaction::link(const NamePlace& place, const Target& target, nfs3::Time now) {
  auto slot = bucket(place);
  if (!slot) return fail(std::move(slot.error()));
  assert((*slot)->bucket.find(place.name) == nullptr);
  if (!(*slot)->bucket.insert(place.name, target)) {
    return fail(Errc::kNoSpace, "directory {:#x}: {} names share one position", place.directory.fileid.value,
                kSlots);
  }
  (*slot)->changed = true;
  return count(place, {.entries = 1, .subdirectories = directories_in(target), .at = now});
}

Status Transaction::unlink(const NamePlace& place, nfs3::Time now) {
  auto slot = bucket(place);
  if (!slot) return fail(std::move(slot.error()));
  const NameEntry* entry = std::as_const((*slot)->bucket).find(place.name);
  assert(entry != nullptr);
  DirectoryChange names{.entries = -1, .subdirectories = -directories_in(entry->target), .at = now};
  (*slot)->bucket.erase(place.name);
  (*slot)->changed = true;
  return count(place, names);
}

Status Transaction::retarget(const NamePlace& place, const Target& target, nfs3::Time now) {
  auto slot = bucket(place);
  if (!slot) return fail(std::move(slot.error()));
  NameEntry* entry = (*slot)->bucket.find(place.name);
  assert(entry != nullptr);
  DirectoryChange names{.subdirectories = directories_in(target) - directories_in(entry->target), .at = now};
  entry->target = target;
  (*slot)->changed = true;
  return count(place, names);
}

// The directory's counts follow its names: in its own cell, in a part, or in both.
Status Transaction::count(const NamePlace& place, const DirectoryChange& names) {
  if (place.site == place.directory.site) return count_in_cell(place.directory, names);
  auto found = std::find_if(parts_.begin(), parts_.end(), [&](const PartSlot& slot) {
    return slot.site == place.site && slot.directory == place.directory;
  });
  if (found == parts_.end()) {
    const bool with_cell = cells_.owns(place.directory.site);
    found = parts_.insert(parts_.end(), {place.site, place.directory, with_cell, {}});
  }
  add(found->names, names);
  if (!found->with_cell) return {};
  return count_in_cell(place.directory, {.subdirectories = names.subdirectories, .at = names.at});
}

Status Transaction::count_in_cell(const CellRef& directory, const DirectoryChange& names) {
  auto cell = load(directory);
  if (!cell) return fail(std::move(cell.error()));
  if (*cell == nullptr) {
    return fail(Errc::kCorrupt, "directory {:#x} has names and no attribute cell", directory.fileid.value);
  }
  add(slot_of(**cell).names, names);
  apply(**cell, names);
  return {};
}

Result<bool> Transaction::touch(const CellRef& directory, SiteId part, const KnownPart& known,
                                nfs3::Time now) {
  auto cell = load(directory);
  if (!cell) return fail(std::move(cell.error()));
  if (*cell == nullptr) return false;
  DirectoryChange names{.at = now};
  if (known.version != 0) {
    auto known_before = known_part(directory, part);
    if (!known_before) return fail(std::move(known_before.error()));
    const KnownPart& before = *known_before;
    if (known.version > before.version) {
      names.subdirectories = static_cast<std::int64_t>(known.subdirectories - before.subdirectories);
      batch_.put(known_part_key(directory.site, directory.fileid, part), encode(known));
    }
  }
  SLICE_RETURN_IF_ERROR(count_in_cell(directory, names));
  return true;
}

std::vector<Transaction::Key> Transaction::keys() const {
  std::vector<Key> keys;
  for (const auto& slot : attributes_) {
    if (!slot->created) keys.push_back({slot->cell.self.cell.fileid, {}, slot->changed || slot->erased});
  }
  for (const auto& slot : buckets_) keys.push_back({slot->key.directory, slot->key.position, slot->changed});
  for (const PartSlot& slot : parts_) keys.push_back({slot.directory.fileid, {}, false});
  for (FileId file : missed_) keys.push_back({file, {}, false});
  return keys;
}

// A directory whose names alone changed: its cell may have moved since it was loaded.
Status Transaction::refresh(CellSlot& slot) {
  auto now = cells_.attributes(slot.cell.self.cell);
  if (!now) return fail(std::move(now.error()));
  if (*now == nullptr) {
    return fail(Errc::kCorrupt, "directory {:#x} went away under a change of its names",
                slot.cell.self.cell.fileid.value);
  }
  slot.cell = **now;
  apply(slot.cell, slot.names);
  slot.changed = true;
  return {};
}

Result<KnownPart> Transaction::known_part(const CellRef& directory, SiteId part) const {
  auto value = cells_.store_.get(known_part_key(directory.site, directory.fileid, part));
  if (!value) return fail(std::move(value.error()));
  return *value ? decode_known_part(**value) : KnownPart{};
}

// The directory's cell came here while the part owed it something: that is what the cell is told of now, in
// the same step as this change, behind which a touch would count for nothing.
Status Transaction::count_what_is_owed(const PartSlot& slot) {
  if (!slot.with_cell || slot.names.subdirectories == 0) return {};
  auto part = cells_.part(slot.site, slot.directory);
  if (!part) return fail(std::move(part.error()));
  auto known = known_part(slot.directory, slot.site);
  if (!known) return fail(std::move(known.error()));
  if (part->subdirectories == known->subdirectories) return {};
  return count_in_cell(slot.directory, {.subdirectories = static_cast<std::int64_t>(part->subdirectories -
                                                                                    known->subdirectories),
                                        .at = slot.names.at});
}

Status Transaction::commit_part(const PartSlot& slot) {
  auto part = cells_.part(slot.site, slot.directory);
  if (!part) return fail(std::move(part.error()));
  move_count(part->entries, slot.names.entries);
  move_count(part->subdirectories, slot.names.subdirectories);
  std::string key = part_key(slot.site, slot.directory.fileid);
  if (part->entries == 0) {
    batch_.erase(std::move(key));
  } else {
    batch_.put(std::move(key), encode(*part));
  }
  std::uint64_t version = 0;
  if (slot.names.subdirectories != 0) {
    auto number = allocate(slot.site);
    if (!number) return fail(std::move(number.error()));
    version = number->value;
  }
  if (slot.with_cell) {
    if (version == 0) return {};
    batch_.put(known_part_key(slot.directory.site, slot.directory.fileid, slot.site),
               encode(KnownPart{version, part->subdirectories}));
    return {};
  }
  std::string owed_key = owed_touch_key(slot.site, slot.directory.fileid);
  OwedTouch owed{slot.directory, version};
  if (version == 0) {
    auto before = cells_.store_.get(owed_key);
    if (!before) return fail(std::move(before.error()));
    if (*before) {
      auto decoded = decode_owed_touch(**before);
      if (!decoded) return fail(std::move(decoded.error()));
      owed.version = decoded->version;
    }
  }
  batch_.put(std::move(owed_key), encode(owed));
  touches_.push_back({slot.site, owed});
  return {};
}

Status Transaction::erase_known_parts(const AttributeCell& directory) {
  const CellRef& ref = directory.self.cell;
  KeyRange range = range_of_known_parts(ref.site, ref.fileid);
  auto at = cells_.store_.iterate(range.begin, range.end);
  for (; at->valid(); at->next()) batch_.erase(std::string(at->key()));
  return at->status();
}

Status Transaction::fill_batch() {
  for (const PartSlot& slot : parts_) SLICE_RETURN_IF_ERROR(count_what_is_owed(slot));
  for (const auto& slot : attributes_) {
    const CellRef& ref = slot->cell.self.cell;
    if (slot->erased) {
      batch_.erase(attribute_key(ref.site, ref.fileid));
      if (slot->cell.directory()) SLICE_RETURN_IF_ERROR(erase_known_parts(slot->cell));
      if (cells_.locks_.find(ref.fileid) != nullptr) put_locks(ref, {});
      continue;
    }
    if (!slot->changed && slot->names.at) SLICE_RETURN_IF_ERROR(refresh(*slot));
    if (slot->changed) batch_.put(attribute_key(ref.site, ref.fileid), encode(slot->cell));
  }
  for (const auto& slot : buckets_) {
    if (!slot->changed) continue;
    std::string key = name_key(slot->key.site, slot->key.directory, slot->key.position);
    if (slot->bucket.entries.empty()) {
      batch_.erase(std::move(key));
    } else {
      batch_.put(std::move(key), encode(slot->bucket));
    }
  }
  for (const LockSlot& slot : locks_) {
    std::string key = client_locks_key(slot.file.site, slot.file.fileid);
    if (slot.locks.empty()) {
      batch_.erase(std::move(key));
    } else {
      batch_.put(std::move(key), encode(slot.locks));
    }
  }
  for (const PartSlot& slot : parts_) SLICE_RETURN_IF_ERROR(commit_part(slot));
  return {};
}

void Transaction::remember(storage::LogPosition position) {
  for (const auto& slot : attributes_) {
    if (!slot->erased && !slot->changed) continue;
    cells_.note_pending(slot->cell.self.cell.fileid, position);
    if (slot->erased) {
      cells_.attributes_.erase(slot->cell.self.cell.fileid);
    } else {
      cells_.remember(slot->cell);
    }
  }
  for (auto& slot : buckets_) {
    if (slot->changed) cells_.remember(slot->key, std::move(slot->bucket));
  }
  for (LockSlot& slot : locks_) {
    cells_.note_pending(slot.file.fileid, position);
    cells_.locks_.replace(slot.file.fileid, std::move(slot.locks));
  }
  for (const PartSlot& slot : parts_) cells_.note_pending(slot.directory.fileid, position);
}

bool Transaction::dirty() const {
  auto changed = [](const auto& slot) { return slot->changed; };
  return !batch_.empty() || !locks_.empty() || std::any_of(buckets_.begin(), buckets_.end(), changed) ||
         std::any_of(attributes_.begin(), attributes_.end(),
                     [](const auto& slot) { return slot->changed || slot->erased || slot->names.at; });
}

// Than before this transaction.
std::int64_t Transaction::more_objects() const {
  std::int64_t more = 0;
  for (const auto& slot : attributes_) {
    if (slot->created != slot->erased) more += slot->created ? 1 : -1;
  }
  return more;
}

Result<std::vector<UsageChange>> Transaction::usage_changes() {
  std::vector<UsageChange> changes;
  if (!cells_.usage_.on()) return changes;
  for (const auto& slot : attributes_) {
    if (!slot->changed && !slot->erased) continue;
    const CellRef& ref = slot->cell.self.cell;
    UsageChange change{.site = ref.site, .before = {}, .after = {}};
    if (!slot->created) {
      auto before = cells_.any_generation(ref);
      if (!before) return fail(std::move(before.error()));
      if (*before != nullptr) change.before = usage_of(**before);
    }
    if (!slot->erased) change.after = usage_of(slot->cell);
    changes.push_back(change);
  }
  return changes;
}

Result<storage::LogPosition> Transaction::commit() {
  SLICE_RETURN_IF_ERROR(fill_batch());
  if (batch_.empty()) return shown_;
  auto usage = usage_changes();
  if (!usage) return fail(std::move(usage.error()));
  auto position = cells_.apply(batch_);
  if (!position) return position;
  cells_.objects_.changed(more_objects());
  for (const UsageChange& change : *usage) cells_.usage_.changed(change);
  remember(*position);
  return std::max(*position, shown_);
}

}  // namespace slice::dirserver
