// Opening a Store: its header, the free room, the journal's replay.
#include <algorithm>

#include "smallfile/store.h"

namespace slice::smallfile {

Task<Result<std::unique_ptr<Store>>> Store::open(Loop& loop, storage::Disk& disk, storage::KvStore& records,
                                                 ZoneStore& zones, Metrics& metrics, StoreOptions options,
                                                 const CrashPoints& crash) {
  auto store = std::make_unique<Store>(loop, disk, records, zones, metrics, std::move(options), crash);
  SLICE_CO_RETURN_IF_ERROR(co_await store->recover());
  co_return std::move(store);
}

Task<Status> Store::recover() {
  SLICE_CO_RETURN_IF_ERROR(co_await check_header());
  SLICE_CO_RETURN_IF_ERROR(checkpointer_.restore(options_.sites));
  std::vector<Replayed> entries;
  auto log = co_await storage::Log::open(loop_, disk_, metrics_,
                                         {.folder = "journal", .segment_bytes = options_.segment_bytes},
                                         [&entries](storage::LogSequence sequence, ByteView record) {
                                           entries.push_back({sequence.value, Buffer(record)});
                                           return Status{};
                                         });
  if (!log) co_return fail(std::move(log).error());
  log_ = std::move(*log);
  checkpointer_.set_log(*log_);
  for (Replayed& entry : entries) {
    checkpointer_.set_applied(entry.sequence - 1);
    if (options_.saves && table_.dirty_bytes() > options_.cache_bytes / 4) {
      SLICE_CO_RETURN_IF_ERROR(co_await checkpointer_.run());
    }
    SLICE_CO_RETURN_IF_ERROR(co_await replay(entry));
    entry.record = Buffer();
  }
  checkpointer_.set_applied(std::nullopt);
  replayed_.add(entries.size());
  if (!entries.empty()) {
    log_info("journal replayed records={} files={}", entries.size(), table_.waiting().size());
    if (options_.saves) checkpointer_.kick();
  }
  co_return Status{};
}

Task<Status> Store::check_header() {
  StoreHeader ours{.threshold = options_.threshold, .sites = options_.sites};
  auto saved = records_.get(header_key());
  if (!saved) co_return fail(std::move(saved).error());
  if (!*saved) {
    storage::WriteBatch batch;
    batch.put(header_key(), encode(ours));
    auto position = records_.apply(batch);
    if (!position) co_return fail(std::move(position).error());
    co_return co_await records_.durable(*position);
  }
  auto theirs = decode_store_header(**saved);
  if (!theirs) co_return fail(std::move(theirs).error());
  if (*theirs != ours) {
    co_return fail(
        Errc::kInvalid,
        "the data directory was made with threshold {} and {} sites; the configuration says {} and {}",
        theirs->threshold, theirs->sites, ours.threshold, ours.sites);
  }
  co_return Status{};
}

Task<Status> Store::replay(const Replayed& entry) {
  auto record = decode_journal_record(entry.record.view());
  if (!record) co_return fail(record.error(), fmt::format("journal record {}", entry.sequence));
  if (entry.sequence <= checkpointer_.cleared(options_.site_of(record->file))) co_return Status{};
  auto pin = table_.find(record->file);
  if (!pin && pin.error().code == Errc::kStale) co_return Status{};
  if (!pin) {
    // A damaged map record costs its file, not the server.
    damaged_.add();
    log_error("journal record {} cannot be applied reason={}", entry.sequence, pin.error().message);
    co_return Status{};
  }
  File& file = **pin;
  if (entry.sequence <= file.applied) co_return Status{};
  switch (record->kind) {
    case JournalRecord::Kind::kWrite:
      SLICE_CO_RETURN_IF_ERROR(co_await replay_write(file, *record));
      break;
    case JournalRecord::Kind::kTruncate:
      file.cut(record->offset);
      break;
    case JournalRecord::Kind::kRemove:
      file.cut(0);
      file.removed = true;
      break;
  }
  file.epoch = std::max(file.epoch, record->epoch);
  file.mtime = std::max(file.mtime, record->mtime);
  if (file.first_logged == 0) file.first_logged = entry.sequence;
  table_.touch(file);
  co_return Status{};
}

Task<Status> Store::replay_write(File& file, const JournalRecord& record) {
  if (record.offset > options_.threshold || record.data.size() > options_.threshold - record.offset) {
    co_return fail(Errc::kCorrupt, "journal: a write of {} bytes at {} to file {:#x}", record.data.size(),
                   record.offset, file.id.value);
  }
  // A damaged block stays damaged, and is answered as such; load_range() has counted and logged it. What
  // falls into other blocks is applied.
  for (std::size_t done = 0; done < record.data.size();) {
    std::uint64_t at = record.offset + done;
    std::size_t length = std::min<std::size_t>(record.data.size() - done, kBlockSize - at % kBlockSize);
    Status loaded = co_await load_range(file, at, length, true);
    if (loaded) {
      file.write(at, record.data.subspan(done, length));
    } else if (loaded.error().code != Errc::kCorrupt) {
      co_return loaded;
    }
    done += length;
  }
  file.end = std::max(file.end, record.offset + record.data.size());
  co_return Status{};
}

}  // namespace slice::smallfile
