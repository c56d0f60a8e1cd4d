#include "dirserver/background/reclaimer.h"

#include <algorithm>
#include <utility>

#include "dirserver/across/back_off.h"

namespace slice::dirserver {

Reclaimer::Reclaimer(service::ServiceContext& context, CellStore& cells, service::FileLocks& locks,
                     DataServers& servers, std::uint32_t sites)
    : context_(context),
      cells_(cells),
      locks_(locks),
      servers_(servers),
      sites_(sites),
      added_(context.metrics.counter("reclaims_total",
                                     "files put into the queue of those whose bytes are given back")),
      done_(context.metrics.counter(
          "reclaims_done_total",
          "files of the reclaim queue that somebody else owes the removal of, or that had no bytes")),
      retries_(context.metrics.counter(
          "reclaim_retries_total", "attempts to give a file's bytes back that failed and are made again")),
      queued_(context.metrics.gauge("reclaim_queue_records",
                                    "removed files whose bytes are still to be given back")) {}

std::optional<ReclaimRecord> Reclaimer::add(Transaction& transaction, const AttributeCell& cell) {
  if (!servers_.involved(cell)) return std::nullopt;
  const CellRef& ref = cell.self.cell;
  ReclaimRecord record{cell.self, cell.striped};
  transaction.put(reclaim_key(ref.site, ref.fileid), encode(record));
  return record;
}

void Reclaimer::enqueue(ReclaimRecord record) {
  added_.add();
  if (queue_.size() < kQueued) {
    queue_.push_back(std::move(record));
  } else {
    in_store_ = true;
  }
  run_soon();
}

void Reclaimer::recover() {
  in_store_ = true;
  run_soon();
}

void Reclaimer::release(SiteId site) {
  std::erase_if(queue_, [&](const ReclaimRecord& each) { return each.file.cell.site == site; });
}

void Reclaimer::run_soon() {
  queued_.set(queue_.size());
  if (running_ || stopping_) return;
  running_ = true;
  context_.loop.after(kGather, [this] { spawn(run()); });
}

Task<void> Reclaimer::run() {
  unsigned failures = 0;
  while (!stopping_) {
    if (queue_.empty()) {
      if (!in_store_) {
        // So that a restart long after does not hand on again what was handed on.
        if (auto erased = std::exchange(erased_, {}); erased > cells_.durable_position()) {
          if (co_await cells_.durable(erased)) continue;
        }
        break;
      }
      if (Status scanned = co_await scan(); !scanned) {
        in_store_ = true;
        if (log_.allow()) log_error("the reclaim queue cannot be read: {}", scanned.error().message);
        co_await context_.loop.sleep(back_off(++failures));
      }
      continue;
    }
    failures = co_await run_some() ? 0 : failures + 1;
    queued_.set(queue_.size());
    if (failures > 0 && !stopping_) {
      retries_.add();
      co_await context_.loop.sleep(back_off(failures));
    }
  }
  running_ = false;
}

// Hands the oldest records on; those that nobody took go to the end. False where that were all.
Task<bool> Reclaimer::run_some() {
  std::size_t count = std::min(queue_.size(), kAtOnce);
  std::vector<ReclaimRecord> records(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<Task<bool>> tasks;
  for (const ReclaimRecord& record : records) tasks.push_back(hand_on(record));
  std::vector<bool> done = co_await all(std::move(tasks));
  storage::WriteBatch batch;
  for (std::size_t i = 0; i < count; ++i) {
    const CellRef& ref = records[i].file.cell;
    if (cells_.stays().closed(ref.site)) {
      in_store_ = true;  // handed on once more, here or where the site goes: that is harmless
    } else if (done[i]) {
      batch.erase(reclaim_key(ref.site, ref.fileid));
    } else {
      queue_.push_back(std::move(records[i]));
    }
  }
  std::size_t erased = batch.changes().size();
  auto position = cells_.apply(batch);
  if (!position) {
    in_store_ = true;
    co_return false;
  }
  erased_ = *position;
  done_.add(erased);
  co_return erased > 0;
}

// Only with an empty queue, so that hardly any is queued twice.
Task<Status> Reclaimer::scan() {
  in_store_ = false;
  std::vector<ReclaimRecord> found;
  storage::LogPosition removed;
  for (std::uint32_t site = 0; site < sites_ && !in_store_; ++site) {
    if (!cells_.stays().here(SiteId{site})) continue;
    KeyRange range = range_of(SiteId{site}, CellKind::kReclaim);
    auto at = cells_.store().iterate(range.begin, range.end);
    for (; at->valid(); at->next()) {
      if (found.size() >= kQueued) {
        in_store_ = true;
        break;
      }
      auto record = decode_reclaim(at->value());
      if (!record) co_return fail(std::move(record.error()));
      removed = std::max(removed, cells_.pending(record->file.cell.fileid));
      found.push_back(std::move(*record));
    }
    SLICE_CO_RETURN_IF_ERROR(at->status());
  }
  // The store has those of removals as well that a crash may still undo.
  Status durable = co_await cells_.durable(removed);
  if (durable) std::move(found.begin(), found.end(), std::back_inserter(queue_));
  co_return durable;
}

Task<bool> Reclaimer::hand_on(ReclaimRecord record) {
  // Behind a truncation that is still being carried out: a late one must not come after the removal.
  auto lock = co_await locks_.lock(record.file.cell.fileid);
  Status status = co_await servers_.remove(record);
  if (!status && log_.allow()) log_warning("reclaim waits: {}", status.error().message);
  co_return status.has_value();
}

}  // namespace slice::dirserver
