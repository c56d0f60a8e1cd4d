#include "smallfile/checkpoint.h"

#include <algorithm>
#include <set>

#include "common/crc32c.h"
#include "common/log.h"

namespace slice::smallfile {

Checkpointer::Checkpointer(Loop& loop, FileTable& table, storage::KvStore& store, ZoneStore& zones,
                           Metrics& metrics, const CrashPoints& crash)
    : loop_(loop),
      table_(table),
      store_(store),
      zones_(zones),
      crash_(crash),
      saving_(loop),
      batches_(
          metrics.counter("smallfile_checkpoints_total", "times that dirty blocks were written to zones")),
      failures_(metrics.counter("smallfile_checkpoint_failures_total",
                                "times that writing dirty blocks to zones failed")),
      runs_(metrics.counter("smallfile_zone_writes_total",
                            "writes that carried blocks to zones: runs of blocks that lie together")),
      blocks_(metrics.counter("smallfile_blocks_written_total", "blocks written to zones")),
      written_(metrics.counter("smallfile_zone_written_bytes_total", "bytes written to zones")),
      zone_free_(metrics.gauge("smallfile_zone_free_bytes", "free fragments inside zones")),
      zone_end_(metrics.gauge("smallfile_zone_bytes", "bytes of zones in use, free fragments included")) {}

Checkpointer::~Checkpointer() {
  *alive_ = false;
}

Status Checkpointer::restore(std::uint32_t sites) {
  for (SiteId site{0}; site.value < sites; ++site.value) {
    if (Status status = restore_zone(site); !status) {
      return fail(status.error(), fmt::format("free room of site {}", site.value));
    }
  }
  return {};
}

// Map records are not looked at: they are read when they are needed.
Status Checkpointer::restore_zone(SiteId site) {
  auto cleared = store_.get(key_of(site, KeyKind::kCleared, 0));
  if (!cleared) return fail(std::move(cleared).error());
  if (*cleared) {
    auto sequence = decode_length(**cleared);
    if (!sequence) return fail(std::move(sequence).error());
    cleared_[site] = *sequence;
  }
  auto end = store_.get(key_of(site, KeyKind::kZoneEnd, 0));
  if (!end) return fail(std::move(end).error());
  if (!*end) return {};
  auto length = decode_length(**end);
  if (!length) return fail(std::move(length).error());
  ZoneAllocator& zone = allocators_[site];
  SLICE_RETURN_IF_ERROR(zone.restore_end(*length));
  auto at = store_.iterate(key_of(site, KeyKind::kFragment, 0), key_of(site, KeyKind::kMap, 0));
  for (at->seek(key_of(site, KeyKind::kFragment, 0)); at->valid(); at->next()) {
    auto key = parse_key(at->key());
    if (!key || key->kind != KeyKind::kFragment) {
      return fail(Errc::kCorrupt, "key {}", to_hex(as_bytes(at->key())));
    }
    auto fragment = decode_length(at->value());
    if (!fragment) return fail(std::move(fragment).error());
    SLICE_RETURN_IF_ERROR(zone.restore_fragment(key->number, *fragment));
  }
  return at->status();
}

std::uint64_t Checkpointer::cleared(SiteId site) const {
  auto found = cleared_.find(site);
  return found == cleared_.end() ? 0 : found->second;
}

std::uint64_t Checkpointer::free_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [site, allocator] : allocators_) sum += allocator.usable_bytes();
  return sum;
}

const ZoneAllocator* Checkpointer::zone(SiteId site) const {
  auto found = allocators_.find(site);
  return found == allocators_.end() ? nullptr : &found->second;
}

void Checkpointer::kick() {
  if (std::exchange(running_, true)) return;
  loop_.post([this, alive = alive_] {
    if (*alive) spawn(loop_until_done());
  });
}

Task<Status> Checkpointer::run() {
  if (table_.waiting().empty() && !running_) co_return Status{};
  OneShot<Status> done;
  run_waiters_.push_back(done);
  kick();
  co_return co_await done;
}

Task<Status> Checkpointer::next_batch() {
  OneShot<Status> done;
  batch_waiters_.push_back(done);
  kick();
  co_return co_await done;
}

Task<void> Checkpointer::loop_until_done() {
  Status status;
  while (status && !table_.waiting().empty()) {
    status = co_await save_batch();
    if (!status) break;
    batches_.add();
    tell(status, false);
  }
  running_ = false;
  tell(status, true);
  if (status) co_return;
  failures_.add();
  log_error("saving small files failed, trying again reason={}", status.error().message);
  loop_.after(kRetry, [this, alive = alive_] {
    if (*alive) kick();
  });
}

// Through the loop, since who waits may start another batch.
void Checkpointer::tell(const Status& status, bool all) {
  auto waiters = std::exchange(batch_waiters_, {});
  if (all) {
    waiters.insert(waiters.end(), run_waiters_.begin(), run_waiters_.end());
    run_waiters_.clear();
  }
  if (waiters.empty()) return;
  loop_.post([status, waiters = std::move(waiters)] {
    for (const auto& waiter : waiters) waiter.set(status);
  });
}

Task<Status> Checkpointer::save_batch() {
  auto lock = co_await saving_.lock();
  if (broken()) co_return intact_;
  Batch batch;
  co_await take(batch);
  Status status = co_await log_->sync({applied_.value_or(log_->last().value)});
  co_await crash_.reach("save.logged");
  if (status) status = co_await write_zones(batch);
  co_await crash_.reach("save.written");
  if (status) status = co_await save_records(batch);
  co_await crash_.reach("save.saved");
  settle(batch, status.has_value());
  if (!status) co_return status;
  written_.add(batch.data.size());
  blocks_.add(batch.writes.size());
  co_await trim();
  co_await crash_.reach("save.trimmed");
  co_return status;
}

Task<void> Checkpointer::give_way(std::size_t bytes) {
  since_turn_ += bytes;
  if (since_turn_ < kTurnBytes) co_return;
  since_turn_ = 0;
  OneShot<bool> turn;
  loop_.post([turn, alive = alive_] {
    if (*alive) turn.set(true);
  });
  co_await turn;
}

// ---- the snapshot: each file's is of one moment ----

// Files that change meanwhile wait for the next batch, so that none is in this one twice.
Task<void> Checkpointer::take(Batch& batch) {
  batch.data.reserve(std::min<std::uint64_t>(table_.dirty_bytes(), kBatchBytes));
  for (std::size_t files = std::min(table_.waiting().size(), kBatchFiles);
       files > 0 && batch.data.size() < kBatchBytes; --files) {
    const std::size_t before = batch.data.size();
    take_file(batch);
    co_await give_way(batch.data.size() - before);
  }
}

void Checkpointer::take_file(Batch& batch) {
  Snapshot snapshot{.file = table_.take_waiting(), .freed = {}, .blocks = {}, .key = {}, .value = {}};
  File& file = *snapshot.file;
  for (std::uint32_t index = 0; index < file.blocks.size(); ++index) {
    if (!file.blocks[index].dirty) continue;
    take_block(batch, file, file.blocks[index]);
    snapshot.blocks.push_back(index);
  }
  snapshot.first_logged = std::exchange(file.first_logged, 0);
  snapshot.freed = std::exchange(file.freed, {});
  snapshot.key = key_of(file.site, KeyKind::kMap, file.id.value);
  if (!file.removed) {
    file.applied = applied_.value_or(log_->last().value);
    snapshot.value = encode(file.record(file.applied));
  } else {
    snapshot.forget = !file.saved;
  }
  batch.snapshots.push_back(std::move(snapshot));
}

void Checkpointer::take_block(Batch& batch, File& file, Block& block) {
  if (block.holds_zone()) file.freed.push_back(block.extent);
  ByteView data{block.data.get(), block.valid};
  block.extent = {.place = allocators_[file.site].allocate(block.valid),
                  .stored = block.valid,
                  .valid = block.valid,
                  .checksum = crc32c(data)};
  block.dirty = false;
  block.flushing = true;
  block.unlogged_flushing = std::exchange(block.unlogged, {});
  const std::size_t at = batch.data.size(), padding = room_for(block.valid) - data.size();
  batch.data.append(data);
  std::memset(batch.data.extend(padding), 0, padding);
  batch.writes.push_back({file.site, block.extent.place, at, batch.data.size() - at});
}

// ---- saving it ----

// In the order of their places, so that neighbours are one write.
Task<Status> Checkpointer::write_zones(Batch& batch) {
  std::sort(batch.writes.begin(), batch.writes.end(), [](const BlockWrite& a, const BlockWrite& b) {
    return std::pair(a.zone, a.place) < std::pair(b.zone, b.place);
  });
  std::set<SiteId> zones;
  for (std::size_t first = 0, last = 0; first < batch.writes.size(); first = last) {
    const BlockWrite& begin = batch.writes[first];
    std::size_t length = 0;
    for (last = first; last < batch.writes.size(); length += batch.writes[last++].length) {
      const BlockWrite& next = batch.writes[last];
      const bool neighbour = next.zone == begin.zone && next.place == begin.place + length;
      if (!neighbour || length + next.length > kTurnBytes) break;
    }
    zones.insert(begin.zone);
    SLICE_CO_RETURN_IF_ERROR(co_await write_run(batch, first, last, length));
    co_await give_way(length);
  }
  std::vector<Task<Status>> syncs;
  syncs.reserve(zones.size());
  for (SiteId zone : zones) syncs.push_back(zones_.sync(zone));
  for (Status& status : co_await all(std::move(syncs))) {
    if (!status) co_return std::move(status);
  }
  co_return Status{};
}

Task<Status> Checkpointer::write_run(const Batch& batch, std::size_t first, std::size_t last,
                                     std::size_t length) {
  Buffer run;
  run.reserve(length);
  for (std::size_t i = first; i < last; ++i) {
    run.append(batch.data.view().subspan(batch.writes[i].at, batch.writes[i].length));
  }
  runs_.add();
  co_return co_await zones_.write(batch.writes[first].zone, batch.writes[first].place, run.view());
}

Task<Status> Checkpointer::save_records(Batch& batch) {
  release_freed(batch);
  storage::WriteBatch changes;
  std::map<SiteId, ZoneAllocator::Changes> rooms;
  for (auto& [site, allocator] : allocators_) {
    auto room = allocator.take_changes();
    for (const auto& [offset, length] : room.fragments) {
      std::string key = key_of(site, KeyKind::kFragment, offset);
      length ? changes.put(std::move(key), encode_length(*length)) : changes.erase(std::move(key));
    }
    if (room.end_moved) changes.put(key_of(site, KeyKind::kZoneEnd, 0), encode_length(allocator.end()));
    if (!room.fragments.empty() || room.end_moved) rooms.emplace(site, std::move(room));
  }
  // In the order of their keys: the store puts each beside the one before.
  std::sort(batch.snapshots.begin(), batch.snapshots.end(),
            [](const Snapshot& a, const Snapshot& b) { return a.key < b.key; });
  for (Snapshot& snapshot : batch.snapshots) {
    if (snapshot.forget) continue;
    snapshot.value ? changes.put(snapshot.key, *snapshot.value) : changes.erase(snapshot.key);
  }
  if (changes.empty()) co_return Status{};
  auto position = store_.apply(changes);
  if (!position) {
    reclaim_freed(batch, rooms);
    co_return fail(std::move(position).error());
  }
  if (Status durable = co_await store_.durable(*position); !durable) {
    // What the store holds now is not known: no batch may build on either answer.
    intact_ = fail(durable.error(), "map records");
    co_return intact_;
  }
  std::uint64_t free = 0, end = 0;
  for (auto& [site, allocator] : allocators_) {
    free += allocator.free_bytes();
    end += allocator.end();
    auto room = rooms.find(site);
    if (room == rooms.end() || !room->second.end_moved) continue;
    if (Status status = co_await zones_.shrink(site, allocator.end()); !status) {
      log_warning("a zone could not be made shorter site={} reason={}", site.value, status.error().message);
    }
  }
  zone_free_.set(free);
  zone_end_.set(end);
  co_return Status{};
}

void Checkpointer::release_freed(const Batch& batch) {
  for (const Snapshot& snapshot : batch.snapshots) {
    for (const Extent& extent : snapshot.freed) {
      allocators_[snapshot.file->site].release(extent.place, extent.stored);
    }
  }
}

// The saved map records still name that room: it must not be given to anybody.
void Checkpointer::reclaim_freed(const Batch& batch,
                                 const std::map<SiteId, ZoneAllocator::Changes>& changes) {
  for (const Snapshot& snapshot : batch.snapshots) {
    for (const Extent& extent : snapshot.freed) {
      allocators_[snapshot.file->site].reclaim(extent.place, extent.stored);
    }
  }
  for (const auto& [site, room] : changes) allocators_[site].give_back(room);
}

// A file may have changed meanwhile: then it waits again, and what was cut off has freed its new room.
void Checkpointer::settle(Batch& batch, bool saved) {
  for (Snapshot& snapshot : batch.snapshots) {
    File& file = *snapshot.file;
    for (std::uint32_t index : snapshot.blocks) {
      if (index >= file.blocks.size() || !file.blocks[index].flushing) continue;
      Block& block = file.blocks[index];
      block.flushing = false;
      if (!saved) {
        block.dirty = true;
        block.unlogged.add(block.unlogged_flushing);
      }
      block.unlogged_flushing = {};
    }
    if (saved) {
      file.saved = snapshot.value.has_value();
    } else {
      file.freed.insert(file.freed.end(), snapshot.freed.begin(), snapshot.freed.end());
      bool older =
          snapshot.first_logged != 0 && (file.first_logged == 0 || snapshot.first_logged < file.first_logged);
      if (older) file.first_logged = snapshot.first_logged;
    }
    table_.settle(file, saved);
  }
  batch.snapshots.clear();
}

// ---- clearing ----

// A crash on the way leaves some of it, in any state: nobody serves these sites before they were cleared as a
// whole.
Task<Status> Checkpointer::clear(std::vector<SiteId> sites) {
  auto lock = co_await saving_.lock();
  if (broken()) co_return intact_;
  // Sequence numbers that were not durable are given once more after a crash, and then what was written under
  // them would not be replayed.
  const storage::LogSequence end = log_->last();
  SLICE_CO_RETURN_IF_ERROR(co_await log_->sync(end));
  for (SiteId site : sites) SLICE_CO_RETURN_IF_ERROR(co_await erase_records(site, end.value));
  // Somebody may have looked at a file whose record was still there.
  if (!table_.forget(sites)) co_return fail(Errc::kUnavailable, "files of a site that is cleared are in use");
  for (SiteId site : sites) {
    allocators_.erase(site);
    SLICE_CO_RETURN_IF_ERROR(co_await zones_.shrink(site, 0));
  }
  co_await trim();
  co_return Status{};
}

// First that what the journal has of it is void.
Task<Status> Checkpointer::erase_records(SiteId site, std::uint64_t journal_end) {
  cleared_[site] = journal_end;
  storage::WriteBatch batch;
  batch.put(key_of(site, KeyKind::kCleared, 0), encode_length(journal_end));
  Result<storage::LogPosition> position = store_.apply(batch);
  while (position) {
    auto next = records_of(site, kBatchFiles);
    if (!next) co_return fail(std::move(next).error());
    if (next->empty()) break;
    position = store_.apply(*next);
    co_await give_way(kTurnBytes);
  }
  if (!position) co_return fail(std::move(position).error());
  if (Status durable = co_await store_.durable(*position); !durable) {
    intact_ = fail(durable.error(), "map records");
    co_return intact_;
  }
  co_return Status{};
}

// What erases the next of them.
Result<storage::WriteBatch> Checkpointer::records_of(SiteId site, std::size_t most) const {
  storage::WriteBatch batch;
  auto at = store_.iterate(key_of(site, KeyKind::kFragment, 0),
                           key_of(SiteId{site.value + 1}, KeyKind::kCleared, 0));
  for (; at->valid() && batch.changes().size() < most; at->next()) batch.erase(std::string(at->key()));
  if (Status status = at->status(); !status) return fail(std::move(status).error());
  return batch;
}

Task<void> Checkpointer::trim() {
  std::uint64_t needed = applied_ ? 0 : log_->last().value + 1;
  if (needed == 0) co_return;  // while replaying, the log stays
  for (const File* file : table_.waiting()) {
    if (file->first_logged != 0) needed = std::min(needed, file->first_logged);
  }
  if (Status status = co_await log_->trim({needed}); !status) {
    log_warning("the journal could not be trimmed reason={}", status.error().message);
  }
}

}  // namespace slice::smallfile
