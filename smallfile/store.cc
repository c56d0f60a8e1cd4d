#include "smallfile/store.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>

#include "common/crc32c.h"

namespace slice::smallfile {
namespace {

constexpr std::uint64_t kJournalLimit = 5;   // times journal_bytes: writes wait there
constexpr std::size_t kMaxRecord = 1 << 20;  // bytes of data in one journal record

}  // namespace

Store::Store(Loop& loop, storage::Disk& disk, storage::KvStore& records, ZoneStore& zones, Metrics& metrics,
             StoreOptions options, const CrashPoints& crash)
    : loop_(loop),
      disk_(disk),
      records_(records),
      zones_(zones),
      metrics_(metrics),
      options_(std::move(options)),
      table_(loop, records, metrics,
             {.threshold = options_.threshold, .site_of = options_.site_of, .limit = options_.cache_bytes}),
      checkpointer_(loop, table_, records, zones, metrics, crash),
      damaged_(metrics.counter("smallfile_damaged_blocks_total",
                               "blocks whose checksum was wrong: answered NFS3ERR_IO")),
      refused_(metrics.counter("smallfile_refused_no_space_total", "writes answered NFS3ERR_NOSPC")),
      replayed_(metrics.counter("smallfile_replayed_records_total", "journal records replayed at the start")),
      loads_(metrics.counter("smallfile_block_loads_total", "blocks read from zones")) {}

Store::~Store() {
  *alive_ = false;
}

// ---- reading ----

Result<Store::Seen> Store::look(FileId id) {
  auto pin = table_.find(id);
  if (!pin) return fail(std::move(pin).error());
  File& file = **pin;
  return Seen{file.end, file.epoch, file.mtime};
}

Result<std::uint64_t> Store::stored(FileId id) {
  auto pin = table_.find(id);
  if (!pin) return fail(std::move(pin).error());
  return (*pin)->stored();
}

Result<std::uint64_t> Store::stored_in(FileId id, std::uint64_t offset, std::uint64_t count) {
  auto pin = table_.find(id);
  if (!pin) return fail(std::move(pin).error());
  return (*pin)->stored_in(offset, offset + count);
}

Task<Result<Store::Seen>> Store::read(FileId id, std::uint64_t offset, ByteSpan into) {
  assert(offset + into.size() <= options_.threshold);
  auto pin = table_.find(id);
  if (!pin) co_return fail(std::move(pin).error());
  File& file = **pin;
  SLICE_CO_RETURN_IF_ERROR(co_await load_range(file, offset, into.size(), false));
  if (file.removed) co_return fail(Errc::kStale, "file {:#x} was removed", id.value);
  file.read(offset, into);
  co_return Seen{file.end, file.epoch, file.mtime};
}

// Ends with nothing to load in the range, and without having suspended since it looked.
Task<Status> Store::load_range(File& file, std::uint64_t offset, std::size_t length, bool for_write) {
  while (auto index = file.to_load(offset, length, for_write)) {
    SLICE_CO_RETURN_IF_ERROR(co_await load(file, *index));
  }
  co_return Status{};
}

Task<Status> Store::load(File& file, std::uint32_t index) {
  auto lock = co_await file.loading.lock();
  auto absent = [&] { return index < file.blocks.size() && file.blocks[index].absent(); };
  while (absent()) {
    Extent extent = file.blocks[index].extent;
    std::uint32_t capacity = room_for(extent.stored);
    std::unique_ptr<std::uint8_t[]> data(new std::uint8_t[capacity]);
    Status status = co_await zones_.read(file.site, extent.place, {data.get(), extent.stored});
    // A truncate may have cut it off meanwhile, and its room may hold another's bytes.
    if (!absent() || file.blocks[index].extent != extent) continue;
    if (status && crc32c({data.get(), extent.stored}) != extent.checksum) {
      status = fail(Errc::kCorrupt, "checksum does not fit");
    }
    if (status) {
      loads_.add();
      file.install(index, std::move(data), capacity);
      table_.charge(file);
      break;
    }
    damaged_.add();
    std::string place =
        fmt::format("file {:#x} offset {} (site {}, zone offset {}, {} bytes)", file.id.value,
                    std::uint64_t{index} * kBlockSize, file.site.value, extent.place, extent.stored);
    if (damage_log_.allow()) log_error("damaged block {} reason={}", place, status.error().message);
    co_return fail(status.error(), place);
  }
  co_return Status{};
}

// ---- writing ----

// Whether `length` bytes more may be taken.
bool Store::has_space(std::size_t length) {
  // In the journal, and in the zone, rounded up.
  return space_.take(2 * (length + kBlockSize), [this] { return space_left(); });
}

// Bytes above the reserve.
std::uint64_t Store::space_left() const {
  auto space = disk_.space();
  // Free room of one zone serves no other one: the last of the reserve is never bet on it.
  if (!space || space->free_bytes < options_.reserve_bytes / 4) return 0;
  std::uint64_t free = space->free_bytes + checkpointer_.free_bytes();
  std::uint64_t owed = options_.reserve_bytes + table_.dirty_bytes();
  return free > owed ? free - owed : 0;
}

// Before a write: within the limits of memory, journal and disk, waiting where that helps.
Task<Status> Store::admit(FileId id, std::size_t length) {
  bool ok = has_space(length);
  if (!ok && !table_.waiting().empty()) {
    // What was removed or cut lately gives its room back when that is saved.
    SLICE_CO_RETURN_IF_ERROR(co_await checkpointer_.run());
    space_.forget();
    ok = has_space(length);
  }
  full_ = !ok;
  if (!ok) {
    refused_.add();
    co_return fail(Errc::kNoSpace, "write to file {:#x}: no space above the reserve", id.value);
  }
  while (table_.dirty_bytes() > options_.cache_bytes / 2 ||
         log_->bytes() > kJournalLimit * options_.journal_bytes) {
    if (table_.waiting().empty() && !checkpointer_.running()) break;
    SLICE_CO_RETURN_IF_ERROR(co_await checkpointer_.next_batch());
  }
  co_return Status{};
}

void Store::changed(File& file) {
  table_.touch(file);
  if (table_.dirty_bytes() > options_.cache_bytes / 4 || log_->bytes() > options_.journal_bytes) {
    checkpointer_.kick();
  }
  if (std::exchange(save_armed_, true)) return;
  loop_.after(kSaveAfter, [this, alive = alive_] {
    if (!*alive) return;
    save_armed_ = false;
    if (!table_.waiting().empty()) checkpointer_.kick();
  });
}

nfs3::Time Store::next_mtime(const File& file, nfs3::Time from) const {
  return nfs3::later(nfs3::time_of(loop_.wall()), std::max(file.mtime, from));
}

Result<storage::LogSequence> Store::journal(File& file, const JournalRecord& record) {
  encode(record, record_);
  auto sequence = log_->append(record_.view());
  if (sequence && file.first_logged == 0) file.first_logged = sequence->value;
  return sequence;
}

Task<Result<Store::Written>> Store::apply(FileId id, Write write) {
  assert(!write.data.empty() && write.offset + write.data.size() <= options_.threshold);
  SLICE_CO_RETURN_IF_ERROR(co_await admit(id, write.data.size()));
  auto pin = table_.find(id);
  if (!pin) co_return fail(std::move(pin).error());
  File& file = **pin;
  SLICE_CO_RETURN_IF_ERROR(co_await load_range(file, write.offset, write.data.size(), true));
  if (file.removed) co_return fail(Errc::kStale, "file {:#x} was removed", id.value);

  Epoch epoch = std::max(file.epoch, write.epoch);
  nfs3::Time mtime = next_mtime(file, write.mtime_from);
  storage::LogSequence sequence;
  if (write.stable) {
    auto appended = journal(file, {.kind = JournalRecord::Kind::kWrite,
                                   .epoch = epoch,
                                   .file = id,
                                   .mtime = mtime,
                                   .offset = write.offset,
                                   .data = write.data});
    if (!appended) co_return fail(std::move(appended).error());
    sequence = *appended;
  }
  file.epoch = epoch;
  file.mtime = mtime;
  file.write(write.offset, write.data);
  if (!write.stable) file.note_unlogged(write.offset, write.data.size());
  changed(file);
  std::uint64_t end = write.offset + write.data.size();
  Written written{.seen = {file.end, epoch, mtime},
                  .unreported = end > file.reported_end || epoch != file.reported_epoch,
                  .sequence = sequence};
  co_return written;
}

Task<Result<Store::Written>> Store::write(FileId id, Write write) {
  auto written = co_await apply(id, write);
  if (!written) co_return written;
  SLICE_CO_RETURN_IF_ERROR(co_await durable(written->sequence));
  co_return written;
}

// Writes what no journal record has yet into the journal; neighbouring blocks share a record.
Status Store::journal_unlogged(File& file) {
  Buffer bytes;
  for (std::size_t first = 0; first < file.blocks.size();) {
    Hull hull = file.blocks[first].unlogged;
    hull.add(file.blocks[first].unlogged_flushing);
    std::size_t next = first + 1;
    std::uint64_t from = first * kBlockSize + hull.from, to = first * kBlockSize + hull.to;
    if (hull.empty()) {
      first = next;
      continue;
    }
    for (; next < file.blocks.size() && to == next * kBlockSize && to - from < kMaxRecord - kBlockSize;
         ++next) {
      Hull more = file.blocks[next].unlogged;
      more.add(file.blocks[next].unlogged_flushing);
      if (more.empty() || more.from != 0) break;
      to += more.to;
    }
    bytes.resize(to - from);
    file.read(from, bytes.span());
    auto sequence = journal(file, {.kind = JournalRecord::Kind::kWrite,
                                   .epoch = file.epoch,
                                   .file = file.id,
                                   .mtime = file.mtime,
                                   .offset = from,
                                   .data = bytes.view()});
    if (!sequence) return fail(std::move(sequence).error());
    for (; first < next; ++first) file.blocks[first].unlogged = file.blocks[first].unlogged_flushing = {};
  }
  return {};
}

Result<Store::Written> Store::begin_commit(FileId id) {
  auto pin = table_.find(id);
  if (!pin) return fail(std::move(pin).error());
  File& file = **pin;
  if (file.has_unlogged()) {
    Status status = journal_unlogged(file);
    table_.touch(file);
    if (!status) return fail(std::move(status).error());
  }
  return Written{.seen = {file.end, file.epoch, file.mtime},
                 .unreported = file.end > file.reported_end || file.epoch != file.reported_epoch ||
                               file.mtime > file.reported_mtime,
                 .sequence = log_->last()};
}

Task<Result<Store::Written>> Store::commit(FileId id) {
  auto begun = begin_commit(id);
  if (!begun) co_return begun;
  SLICE_CO_RETURN_IF_ERROR(co_await durable(begun->sequence));
  co_return begun;
}

void Store::reported(FileId id, const Seen& seen) {
  auto pin = table_.find(id);
  if (!pin || (*pin)->epoch != seen.epoch) return;
  File& file = **pin;
  file.reported_end = file.reported_epoch == seen.epoch ? std::max(file.reported_end, seen.end) : seen.end;
  file.reported_epoch = seen.epoch;
  file.reported_mtime = std::max(file.reported_mtime, seen.mtime);
}

// ---- truncation, removal, looking ----

Task<Status> Store::truncate(FileId id, std::uint64_t size, Epoch epoch) {
  auto pin = table_.find(id);
  if (!pin) co_return fail(std::move(pin).error());
  File& file = **pin;
  if (epoch > file.epoch) {
    auto sequence = journal(file, {.kind = JournalRecord::Kind::kTruncate,
                                   .epoch = epoch,
                                   .file = id,
                                   .mtime = file.mtime,
                                   .offset = size,
                                   .data = {}});
    if (!sequence) co_return fail(std::move(sequence).error());
    file.cut(size);
    file.epoch = epoch;
    changed(file);
  }
  co_return co_await log_->sync(log_->last());  // also where an earlier call's record is on its way
}

Task<Status> Store::remove(FileId id) {
  auto pin = table_.find(id);
  if (pin) {
    File& file = **pin;
    if (file.saved || file.dirty || file.flushing) {
      auto sequence = journal(file, {.kind = JournalRecord::Kind::kRemove,
                                     .epoch = file.epoch,
                                     .file = id,
                                     .mtime = file.mtime,
                                     .offset = 0,
                                     .data = {}});
      if (!sequence) co_return fail(std::move(sequence).error());
    }
    file.cut(0);
    file.removed = true;
    changed(file);
  } else if (pin.error().code != Errc::kStale) {
    co_return fail(std::move(pin).error());
  }
  co_return co_await log_->sync(log_->last());
}

Result<wire::ObjectStatResult> Store::stat(FileId id) {
  auto pin = table_.find(id);
  if (!pin && pin.error().code != Errc::kStale) return fail(std::move(pin).error());
  if (!pin || ((*pin)->end == 0 && (*pin)->epoch == Epoch{})) {
    return fail(Errc::kNotFound, "nothing of file {:#x} is here", id.value);
  }
  const File& file = **pin;
  wire::ObjectStatResult result{.end = file.end, .epoch = file.epoch};
  for (std::size_t index = 0; index < file.blocks.size(); ++index) {
    const Block& block = file.blocks[index];
    if (block.valid == 0) continue;
    result.allocated += room_for(block.dirty || !block.holds_zone() ? block.valid : block.extent.stored);
    if (!block.holds_zone() || result.extents.size() >= 1024) continue;
    result.extents.push_back(
        {.offset = index * kBlockSize, .length = block.valid, .place = block.extent.place});
  }
  return result;
}

// Map records lie by site, and by fileID within one; what has none yet waits to be saved.
Result<Store::Listed> Store::list(FileId after, std::size_t limit) const {
  std::set<FileId> files;
  // False: it and all behind it are beyond the page.
  auto take = [&](FileId file) {
    if (files.size() > limit && file > *files.rbegin()) return false;
    files.insert(file);
    if (files.size() > limit + 1) files.erase(std::prev(files.end()));
    return true;
  };
  for (const File* file : table_.waiting()) {
    if (file->id > after) take(file->id);
  }
  for (const File* file : table_.flushing()) {
    if (file->id > after) take(file->id);
  }
  constexpr std::uint64_t kBehindAll = ~std::uint64_t{0};
  for (std::uint32_t site = 0; site < options_.sites; ++site) {
    auto at = records_.iterate(key_of(SiteId{site}, KeyKind::kMap, after.value + 1),
                               key_of(SiteId{site}, KeyKind::kMap, kBehindAll));
    for (; at->valid(); at->next()) {
      auto key = parse_key(at->key());
      if (!key) return fail(Errc::kCorrupt, "a key of the map records does not parse");
      if (!take(FileId{key->number})) break;
    }
    if (auto status = at->status(); !status) return fail(status.error());
  }
  Listed listed{.files = {files.begin(), files.end()}, .end = files.size() <= limit};
  if (!listed.end) listed.files.resize(limit);
  return listed;
}

}  // namespace slice::smallfile
