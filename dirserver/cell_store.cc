#include "dirserver/cell_store.h"

#include <algorithm>
#include <cassert>

namespace slice::dirserver {
namespace {

constexpr std::uint64_t kSequenceRange = 1024;
constexpr unsigned kSequenceBits = 48;
constexpr std::uint64_t kEntryOverhead = 128;  // list and map nodes, about

std::uint64_t cost_of(const AttributeCell& cell) {
  return sizeof(AttributeCell) + cell.symlink_target.size() + kEntryOverhead;
}

std::uint64_t cost_of(const NameBucket& bucket) {
  std::uint64_t bytes = sizeof(NameBucket) + kEntryOverhead;
  for (const NameEntry& entry : bucket.entries) bytes += sizeof(NameEntry) + entry.name.size();
  return bytes;
}

}  // namespace

CellStore::CellStore(storage::KvStore& store, Metrics& metrics, std::uint64_t cache_bytes)
    : store_(store),
      attributes_(cache_bytes / 2),
      names_(cache_bytes / 2),
      hits_(metrics.counter("cell_cache_hits_total")),
      misses_(metrics.counter("cell_cache_misses_total")) {}

Result<const AttributeCell*> CellStore::attributes(const CellRef& ref) {
  auto cell = any_generation(ref);
  if (!cell || *cell == nullptr) return cell;
  return (*cell)->self.cell == ref ? *cell : nullptr;
}

Result<const AttributeCell*> CellStore::any_generation(const CellRef& ref) {
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

Result<const NameEntry*> CellStore::find(const NamePlace& place) {
  auto found = bucket({place.site, place.directory, place.position});
  if (!found) return fail(std::move(found.error()));
  return (*found)->find(place.name);
}

void CellStore::remember(const AttributeCell& cell) {
  attributes_.put(cell.self.cell.fileid, cell, cost_of(cell));
}

void CellStore::remember(const NameKey& key, NameBucket bucket) {
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

// ---- Transaction ----

Result<AttributeCell*> Transaction::load(const CellRef& ref) {
  for (auto& slot : attributes_) {
    if (slot->cell.self.cell == ref) return slot->erased ? nullptr : &slot->cell;
  }
  shown_ = std::max(shown_, cells_.pending(ref.fileid));
  auto cell = cells_.attributes(ref);
  if (!cell) return fail(std::move(cell.error()));
  if (*cell == nullptr) return nullptr;
  attributes_.push_back(std::make_unique<CellSlot>(CellSlot{**cell}));
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
  attributes_.push_back(std::make_unique<CellSlot>(CellSlot{std::move(cell), true}));
  return attributes_.back()->cell;
}

void Transaction::erase(AttributeCell& cell) {
  slot_of(cell).erased = true;
}

Result<FileId> Transaction::allocate(SiteId site) {
  assert(!new_range_);
  CellStore::Sequence& sequence = cells_.sequences_[site.value];
  if (!sequence.loaded) {
    auto value = cells_.store_.get(sequence_key(site));
    if (!value) return fail(value.error(), "sequence of fileIDs");
    std::uint64_t start = site == kRootSite ? kRootId.value + 1 : 1;
    if (*value) {
      auto stored = decode_number(**value);
      if (!stored) return fail(stored.error(), "sequence of fileIDs");
      start = *stored;
    }
    sequence = {start, start, true};
  }
  std::uint64_t number = sequence.next;
  if (sequence.next == sequence.limit) {
    if (((number + kSequenceRange) >> kSequenceBits) != 0) {
      return fail(Errc::kNoSpace, "site {} has used up its fileIDs", site.value);
    }
    new_range_ = {site, number};
    batch_.put(sequence_key(site), encode_number(number + kSequenceRange));
  } else {
    ++sequence.next;
  }
  return FileId{std::uint64_t{site.value} << kSequenceBits | number};
}

Result<Transaction::BucketSlot*> Transaction::bucket(const NamePlace& place) {
  CellStore::NameKey key{place.site, place.directory, place.position};
  for (auto& slot : buckets_) {
    if (slot->key == key) return slot.get();
  }
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

Status Transaction::link(const NamePlace& place, const Target& target) {
  auto slot = bucket(place);
  if (!slot) return fail(std::move(slot.error()));
  assert((*slot)->bucket.find(place.name) == nullptr);
  if (!(*slot)->bucket.insert(place.name, target)) {
    return fail(Errc::kNoSpace, "directory {:#x}: {} names share one position", place.directory.value,
                kSlots);
  }
  (*slot)->changed = true;
  return {};
}

void Transaction::unlink(const NamePlace& place) {
  auto slot = bucket(place);
  assert(slot.has_value());
  (*slot)->bucket.erase(place.name);
  (*slot)->changed = true;
}

void Transaction::retarget(const NamePlace& place, const Target& target) {
  auto slot = bucket(place);
  assert(slot.has_value() && (*slot)->bucket.find(place.name) != nullptr);
  (*slot)->bucket.find(place.name)->target = target;
  (*slot)->changed = true;
}

Result<storage::LogPosition> Transaction::commit() {
  for (const auto& slot : attributes_) {
    const CellRef& ref = slot->cell.self.cell;
    if (slot->erased) {
      batch_.erase(attribute_key(ref.site, ref.fileid));
    } else if (slot->changed) {
      batch_.put(attribute_key(ref.site, ref.fileid), encode(slot->cell));
    }
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
  if (batch_.empty()) return shown_;
  auto position = cells_.store_.apply(batch_);
  if (!position) return position;
  if (new_range_) {
    cells_.sequences_[new_range_->first.value] = {new_range_->second + 1, new_range_->second + kSequenceRange,
                                                  true};
  }
  for (const auto& slot : attributes_) {
    if (!slot->erased && !slot->changed) continue;
    cells_.note_pending(slot->cell.self.cell.fileid, *position);
    if (slot->erased) {
      cells_.attributes_.erase(slot->cell.self.cell.fileid);
    } else {
      cells_.remember(slot->cell);
    }
  }
  for (auto& slot : buckets_) {
    if (slot->changed) cells_.remember(slot->key, std::move(slot->bucket));
  }
  return std::max(*position, shown_);
}

}  // namespace slice::dirserver
