#include "storagenode/object_store.h"

#include <algorithm>
#include <limits>

#include "common/log.h"

namespace slice::storagenode {
namespace {

constexpr Duration kRemovedMemory = std::chrono::seconds(60);
constexpr std::size_t kMaxRemoved = 100'000;
constexpr std::size_t kMarkedAhead = 64;           // granules marked at once before a sequential writer
constexpr std::uint64_t kSequentialGap = 4 << 20;  // bytes that a sequential reader may leave to other nodes

}  // namespace

ObjectStore::ObjectStore(Loop& loop, storage::Disk& disk, Metrics& metrics, Options options, Renew renew,
                         const CrashPoints& crash)
    : loop_(loop),
      disk_(disk),
      options_(options),
      renew_(std::move(renew)),
      crash_(crash),
      figures_(metrics),
      marks_(loop, disk),
      table_(loop, disk, marks_, figures_, options.max_open_segments) {}

Task<Result<ObjectStore::Read>> ObjectStore::read(ObjectName name, std::uint64_t offset, ByteSpan into) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  if (!of.exists || offset >= of.end || into.empty()) co_return Read{0, of.end, of.epoch, of.mtime};
  auto held = co_await of.lock.acquire(offset / kBlock, (offset + into.size() - 1) / kBlock,
                                       RangeLock::Mode::kShared);
  if (offset >= of.end) co_return Read{0, of.end, of.epoch, of.mtime};
  std::size_t n = std::min<std::uint64_t>(into.size(), of.end - offset);
  prefetch(of, offset, offset + n);
  for (std::size_t done = 0; done < n;) {
    std::uint64_t at = offset + done, index = at / kSegment;
    std::size_t here = std::min<std::uint64_t>(n - done, kSegment - at % kSegment), got = 0;
    if (of.present.contains(index)) {
      auto use = co_await table_.segment(of, index);
      if (!use) co_return fail(use.error());
      auto bytes = co_await (*use)->segment.read(at % kSegment, into.subspan(done, here));
      if (!bytes) co_return fail(bytes.error());
      got = *bytes;
    }
    std::memset(into.data() + done + got, 0, here - got);
    done += here;
  }
  co_return Read{n, of.end, of.epoch, of.mtime};
}

// Reads ahead of a reader that goes forward, over what other nodes hold. Called when a read comes, since
// several may be under way, and end in any order.
void ObjectStore::prefetch(Object& object, std::uint64_t offset, std::uint64_t end) {
  // Near where it was, also before it: of several READs under way a later one may come first.
  bool near = offset + kSequentialGap >= object.read_to && offset <= object.read_to + kSequentialGap;
  bool sequential = near && offset > 0;
  object.read_to = sequential ? std::max(object.read_to, end) : end;
  if (!sequential) object.prefetched_to = end;
  if (!sequential || end >= object.end) return;
  if (object.prefetched_to >= end + options_.prefetch_bytes / 2) return;
  auto* open = table_.peek({object.name, end / kSegment});
  if (open == nullptr || open->segment.file().in_memory()) return;
  std::uint64_t from = std::max(end, object.prefetched_to) % kSegment, left = options_.prefetch_bytes;
  auto ranges = open->segment.file().data_ranges(kDataStart + from, 8);
  if (!ranges) return;
  for (const auto& range : *ranges) {
    std::uint64_t length = std::min(range.length, left);
    open->segment.file().will_read(range.offset, length);
    object.prefetched_to = end / kSegment * kSegment + range.offset - kDataStart + length;
    left -= length;
    if (left == 0) break;
  }
}

Task<Result<ObjectStore::Written>> ObjectStore::write(ObjectName name, std::uint64_t offset, ByteView bytes,
                                                      WriteOptions options) {
  if (offset > kMaxObjectSize || bytes.size() > kMaxObjectSize - offset) {
    co_return fail(Errc::kTooLarge, "object {}: offset {} is over the largest size", to_string(name), offset);
  }
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  if (bytes.empty()) co_return Written{of.epoch, of.end};
  std::uint64_t first = offset / kBlock, last = (offset + bytes.size() - 1) / kBlock;
  for (bool again : {true, false}) {
    auto written = co_await write_locked(of, offset, bytes, options);
    if (!written || !written->done) co_return written;
    co_await crash_.reach("object.written");
    if (!options.sync) co_return written;
    auto status = co_await sync_range(of, first * kBlock / kSegment, last * kBlock / kSegment);
    co_await crash_.reach("object.synced");
    if (status) co_return written;
    // The disk lost it. Once it is healed, written and synced anew it is as if nothing had been.
    auto healed = co_await heal(of);
    if (!healed || !again) co_return fail(status.error());
  }
  co_return fail(Errc::kIo, "object {}: not written", to_string(name));
}

Task<Result<ObjectStore::Written>> ObjectStore::write_locked(Object& object, std::uint64_t offset,
                                                             ByteView bytes, const WriteOptions& options) {
  std::uint64_t end = offset + bytes.size();
  auto held = co_await object.lock.acquire(offset / kBlock, (end - 1) / kBlock, RangeLock::Mode::kExclusive);
  if (!object.exists) {
    if (!options.may_make) co_return fail(Errc::kNotFound, "object {}: none here", to_string(object.name));
    if (removed_lately(object.name)) {
      co_return fail(Errc::kStale, "object {}: removed", to_string(object.name));
    }
  } else if (options.same_epoch && object.epoch != options.epoch) {
    co_return Written{object.epoch, object.end, false};
  }
  if (options.hole && !object.exists) co_return Written{options.epoch, 0};
  if (!options.hole) SLICE_CO_RETURN_IF_ERROR(co_await check_space(object, offset, bytes.size()));
  for (std::size_t done = 0; done < bytes.size();) {
    std::uint64_t at = offset + done;
    std::size_t here = std::min<std::uint64_t>(bytes.size() - done, kSegment - at % kSegment);
    const ByteView part = bytes.subspan(done, here);
    SLICE_CO_RETURN_IF_ERROR(co_await (options.hole ? write_hole(object, at, part)
                                                    : write_segment(object, at, part, options.epoch)));
    done += here;
  }
  object.mtime = std::max(object.mtime, options.mtime);
  co_return Written{object.epoch, object.end};
}

// `epoch`: of a new object.
Task<Status> ObjectStore::mark(Object& object, const SegmentName& name, std::size_t first, std::size_t last,
                               Epoch epoch) {
  Epoch known = object.exists ? object.epoch : epoch;
  co_await crash_.reach("object.marking");
  SLICE_CO_RETURN_IF_ERROR(co_await marks_.ensure(name, known, first, last));
  co_await crash_.reach("object.marked");
  figures_.marked_granules.set(marks_.granules());
  if (marks_.granules() > options_.max_marked_granules && !cleaning_) spawn(clean());
  co_return Status{};
}

Task<Status> ObjectStore::write_segment(Object& object, std::uint64_t offset, ByteView bytes, Epoch epoch) {
  SegmentName name{object.name, offset / kSegment};
  std::uint64_t at = offset % kSegment;
  std::size_t first = at / kGranule, last = (at + bytes.size() - 1) / kGranule;
  if (!marks_.covered(name, first, last))
    SLICE_CO_RETURN_IF_ERROR(co_await mark(object, name, first, last, epoch));
  mark_ahead(name, last, object.exists ? object.epoch : epoch);
  auto use = co_await table_.make_segment(object, name.index, epoch);
  if (!use) co_return fail(use.error());
  Status status = co_await (*use)->segment.write(at, bytes);
  object.end = std::max(object.end, name.index * kSegment + (*use)->segment.end());
  co_return status;
}

// Blocks that it covers in part are written; what is a hole already costs nothing.
Task<Status> ObjectStore::write_hole(Object& object, std::uint64_t offset, ByteView zeros) {
  const std::uint64_t index = offset / kSegment, begin = offset % kSegment;
  if (!object.present.contains(index)) co_return Status{};
  auto use = co_await table_.segment(object, index);
  if (!use) co_return fail(use.error());
  Segment& segment = (*use)->segment;
  if (begin >= segment.end()) co_return Status{};
  const std::uint64_t end = std::min(begin + zeros.size(), segment.end());
  auto is_one = co_await segment.is_hole(begin / kBlock, (end - 1) / kBlock - begin / kBlock + 1);
  if (!is_one) co_return fail(is_one.error());
  if (*is_one) co_return Status{};
  // Whole blocks, of which the one that the segment ends in is one, and what is before and behind them.
  const std::uint64_t from = std::min(end, (begin + kBlock - 1) / kBlock * kBlock);
  const std::uint64_t to = end == segment.end() ? end : std::max(from, end / kBlock * kBlock);
  if (begin < from)
    SLICE_CO_RETURN_IF_ERROR(co_await write_segment(object, offset, zeros.first(from - begin), object.epoch));
  if (to < end)
    SLICE_CO_RETURN_IF_ERROR(
        co_await write_segment(object, offset + (to - begin), zeros.first(end - to), object.epoch));
  if (from == to) co_return Status{};
  SLICE_CO_RETURN_IF_ERROR(
      co_await mark(object, segment.name(), from / kGranule, (to - 1) / kGranule, object.epoch));
  co_return co_await cut_segment(segment, from, to - from);
}

// So that a sequential writer waits for no mark, those of the granules that it will come to are made
// meanwhile.
void ObjectStore::mark_ahead(const SegmentName& name, std::size_t last, Epoch epoch) {
  if (marks_.granules() + 2 * kMarkedAhead > options_.max_marked_granules) return;
  auto from = marks_.unmarked_behind(name, last, kMarkedAhead / 2);
  if (!from) return;
  ++background_;
  spawn([](ObjectStore& store, SegmentName segment, Epoch at, std::size_t first) -> Task<void> {
    std::size_t end = std::min(first + kMarkedAhead, kGranulesPerSegment) - 1;
    // An error is the next write's, which will find no mark and ask for one.
    (void)co_await store.marks_.ensure(segment, at, first, end);
    store.figures_.marked_granules.set(store.marks_.granules());
    --store.background_;
  }(*this, name, epoch, *from));
}

// Below the reserve only what has its place on disk may be written.
Task<Status> ObjectStore::check_space(Object& object, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t most = length + 2 * kBlock;  // blocks that it begins and ends within, too
  // As long as anything is free above the reserve, so is room for this one.
  auto look = [&] {
    const std::uint64_t above = above_reserve();
    return above == 0 ? 0 : above + most;
  };
  if (space_.take(most, look)) co_return Status{};
  std::uint64_t index = offset / kSegment, at = kDataStart + offset % kSegment;
  if (object.present.contains(index)) {
    auto use = co_await table_.segment(object, index);
    if (!use) co_return fail(use.error());
    auto ranges = (*use)->segment.file().data_ranges(at, 1);
    if (ranges && !ranges->empty() && ranges->front().offset == at && ranges->front().length >= length) {
      co_return Status{};
    }
  }
  figures_.no_space.add();
  co_return fail(Errc::kNoSpace, "less than {} bytes are free", options_.reserve_bytes);
}

// Free bytes above it. Where that cannot be told, the write will show.
std::uint64_t ObjectStore::above_reserve() const {
  auto space = disk_.space();
  if (!space) return std::numeric_limits<std::uint32_t>::max();
  return space->free_bytes - std::min(space->free_bytes, options_.reserve_bytes);
}

Task<Status> ObjectStore::sync_range(Object& object, std::uint64_t first, std::uint64_t last) {
  std::vector<Use<OpenSegment>> uses;  // segments that are closed have nothing unsynced
  for (auto it = object.open.lower_bound(first); it != object.open.end() && it->first <= last; ++it) {
    if (it->second->segment.unsynced()) uses.emplace_back(it->second.get());
  }
  for (auto& use : uses) SLICE_CO_RETURN_IF_ERROR(co_await sync(use->segment));
  co_return Status{};
}

Task<Status> ObjectStore::sync(Segment& segment) {
  Status status = co_await segment.sync();
  if (!status) {
    figures_.sync_failures.add();
    log_error("fsync failed object={} segment={}: {}", to_string(segment.name().object), segment.name().index,
              status.error().message);
  }
  co_return status;
}

Task<Result<ObjectStore::Committed>> ObjectStore::commit(ObjectName name) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  {
    // Behind whoever heals it: an answer must not overtake the new verifier.
    auto held = co_await of.lock.acquire(0, kAllBlocks, RangeLock::Mode::kShared);
  }
  co_await crash_.reach("object.committing");
  if (auto status = co_await sync_range(of, 0, kAllBlocks); !status) {
    auto healed = co_await heal(of);
    if (!healed) co_return fail(status.error());
  }
  for (const auto& [index, open] : of.open) {
    if (open->segment.broken()) co_return fail(Errc::kIo, "object {}: broken", to_string(name));
  }
  co_await crash_.reach("object.committed");
  co_return Committed{of.exists, of.epoch, of.end, of.mtime};
}

// After a failed fsync: what was written since the last good one may be lost. Opens the files again, writes
// what the page cache has once more, makes checksums fit it, and has the verifier renewed, all before anybody
// else may touch the object. An object that cannot be healed answers kIo until the process starts again.
Task<Status> ObjectStore::heal(Object& object) {
  auto held = co_await object.lock.acquire(0, kAllBlocks, RangeLock::Mode::kExclusive);
  std::vector<Use<OpenSegment>> failed;
  for (auto& [index, open] : object.open) {
    if (open->segment.sync_failed()) failed.emplace_back(open.get());
    if (open->segment.broken()) co_return fail(Errc::kIo, "object {}: broken", to_string(object.name));
  }
  if (failed.empty()) co_return Status{};  // another one did it
  co_await crash_.reach("heal.failed");
  Status status = renew_ ? co_await renew_() : Status{};
  co_await crash_.reach("heal.renewed");
  for (auto& use : failed) {
    if (status) status = co_await heal_segment(*use);
  }
  co_await crash_.reach("heal.healed");
  if (!status) {
    log_error("object answers errors until the process starts again object={}: {}", to_string(object.name),
              status.error().message);
    for (auto& use : failed) use->segment.set_broken();
  }
  co_return status;
}

Task<Status> ObjectStore::heal_segment(OpenSegment& open) {
  Segment& segment = open.segment;
  while (segment.syncing()) co_await loop_.sleep(std::chrono::milliseconds(1));
  auto file = co_await disk_.open(segment_path(segment.name()), storage::Disk::Mode::kMustExist);
  if (!file) co_return fail(file.error());
  segment.reopen(std::move(*file));
  SLICE_CO_RETURN_IF_ERROR(co_await segment.write_header(segment.header().epoch, segment.header().has_more));
  SLICE_CO_RETURN_IF_ERROR(co_await segment.repair(marks_.marked(segment.name()), true));
  co_return co_await segment.sync();
}

Task<Status> ObjectStore::truncate(ObjectName name, std::uint64_t size, Epoch epoch) {
  if (size > kMaxObjectSize) co_return fail(Errc::kTooLarge, "object {}: size {}", to_string(name), size);
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Status status = co_await truncate_locked(**object, size, epoch);
  if (!status && co_await heal(**object)) status = co_await truncate_locked(**object, size, epoch);
  co_return status;
}

// What an attempt before has left undone in the file, this one does, and what it left unsynced, this one
// syncs.
Task<Status> ObjectStore::truncate_locked(Object& object, std::uint64_t size, Epoch epoch) {
  auto held = co_await object.lock.acquire(0, kAllBlocks, RangeLock::Mode::kExclusive);
  if (!object.exists) {
    if (removed_lately(object.name)) co_return Status{};
    co_return co_await keep_epoch(object, epoch);
  }
  if (object.epoch >= epoch) co_return co_await sync_range(object, 0, 0);
  co_await crash_.reach("object.cutting");
  SLICE_CO_RETURN_IF_ERROR(co_await cut(object, size));
  co_await crash_.reach("object.cut");
  // The epoch is adopted when the cut is durable: a crash before makes the coordinator send it again.
  co_return co_await adopt_epoch(object, epoch);
}

// Makes an object without bytes, which remembers the epoch.
Task<Status> ObjectStore::keep_epoch(Object& object, Epoch epoch) {
  SLICE_CO_RETURN_IF_ERROR(co_await marks_.ensure({object.name, 0}, epoch, 0, 0));
  auto made = co_await table_.make_segment(object, 0, epoch);
  if (!made) co_return fail(made.error());
  co_await crash_.reach("object.epoch-made");
  SLICE_CO_RETURN_IF_ERROR(co_await sync((*made)->segment));
  co_await crash_.reach("object.epoch-kept");
  co_return Status{};
}

Task<Status> ObjectStore::cut(Object& object, std::uint64_t size) {
  std::uint64_t boundary = size / kSegment;
  SLICE_CO_RETURN_IF_ERROR(co_await remove_segments_behind(object, boundary));
  co_await crash_.reach("object.shortened");
  if (object.present.contains(boundary)) {
    SLICE_CO_RETURN_IF_ERROR(co_await give_up(object, boundary, size % kSegment, std::nullopt));
  }
  auto lock = co_await object.opening.lock();
  co_return co_await table_.find_end(object);
}

// Durably, all with an index greater than `last`.
Task<Status> ObjectStore::remove_segments_behind(Object& object, std::uint64_t last) {
  std::vector<std::uint64_t> gone;
  while (!object.present.empty() && *object.present.rbegin() > last) {
    gone.push_back(*object.present.rbegin());
    SLICE_CO_RETURN_IF_ERROR(co_await table_.remove_segment(object, gone.back()));
  }
  // Also where nothing was left to remove: a process that was killed may have removed without syncing.
  if (object.has_more) SLICE_CO_RETURN_IF_ERROR(co_await sync_folder(more_folder(object.name)));
  for (std::uint64_t index : gone) {
    SLICE_CO_RETURN_IF_ERROR(co_await marks_.forget({object.name, index}));
  }
  co_return Status{};
}

Task<Status> ObjectStore::discard(ObjectName name, std::uint64_t offset, std::uint64_t length) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  if (!of.exists || offset >= of.end || length == 0) co_return Status{};
  auto held =
      co_await of.lock.acquire(offset / kBlock, (offset + length - 1) / kBlock, RangeLock::Mode::kExclusive);
  std::uint64_t end = std::min(offset + length, of.end);
  while (offset < end) {
    std::uint64_t index = offset / kSegment, within = offset % kSegment;
    std::uint64_t here = std::min(end - offset, kSegment - within);
    co_await crash_.reach("object.discarding");
    if (of.present.contains(index)) SLICE_CO_RETURN_IF_ERROR(co_await give_up(of, index, within, here));
    offset += here;
  }
  co_await crash_.reach("object.discarded");
  co_return Status{};
}

// Durably: what a segment has in `length` bytes from `within` on, or, without a length, all behind.
Task<Status> ObjectStore::give_up(Object& object, std::uint64_t index, std::uint64_t within,
                                  std::optional<std::uint64_t> length) {
  auto use = co_await table_.segment(object, index);
  if (!use) co_return fail(use.error());
  Segment& segment = (*use)->segment;
  if (within >= segment.end()) co_return segment.unsynced() ? co_await sync(segment) : Status{};
  std::uint64_t end = length ? std::min(within + *length, segment.end()) : segment.end();
  std::size_t first = within / kGranule, last = (end - 1) / kGranule;
  SLICE_CO_RETURN_IF_ERROR(co_await marks_.ensure(segment.name(), object.epoch, first, last));
  SLICE_CO_RETURN_IF_ERROR(co_await cut_segment(segment, within, length));
  co_return co_await sync(segment);
}

// The granules are marked.
Task<Status> ObjectStore::cut_segment(Segment& segment, std::uint64_t within,
                                      std::optional<std::uint64_t> length) {
  const std::uint64_t end = length ? std::min(within + *length, segment.end()) : segment.end();
  Status status = co_await (length ? segment.discard(within, *length) : segment.truncate(within));
  if (status) co_return status;
  Granules touched;
  for (std::size_t i = within / kGranule; i <= (end - 1) / kGranule; ++i) touched.set(i);
  if (auto repaired = co_await segment.repair(touched, false); !repaired) segment.set_broken();
  co_return status;
}

Task<Status> ObjectStore::adopt_epoch(Object& object, Epoch epoch) {
  auto head = co_await table_.segment(object, 0);
  if (!head) co_return fail(head.error());
  SLICE_CO_RETURN_IF_ERROR(co_await marks_.ensure({object.name, 0}, object.epoch, 0, 0));
  SLICE_CO_RETURN_IF_ERROR(co_await (*head)->segment.write_header(epoch, object.has_more));
  SLICE_CO_RETURN_IF_ERROR(co_await sync((*head)->segment));
  co_await crash_.reach("object.adopted");
  object.epoch = epoch;
  co_return Status{};
}

Task<Status> ObjectStore::remove(ObjectName name) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  auto held = co_await of.lock.acquire(0, kAllBlocks, RangeLock::Mode::kExclusive);
  note_removed(name);
  co_return co_await remove_locked(of);
}

Task<Result<bool>> ObjectStore::renew_empty(ObjectName name, Epoch epoch) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  auto held = co_await of.lock.acquire(0, kAllBlocks, RangeLock::Mode::kExclusive);
  if (!of.exists || of.epoch >= epoch) co_return true;
  auto some = co_await data_locked(of, 0, 1);
  if (!some) co_return fail(std::move(some).error());
  if (!some->empty()) co_return false;
  SLICE_CO_RETURN_IF_ERROR(co_await adopt_epoch(of, epoch));
  co_return true;
}

Task<Status> ObjectStore::remove_empty(ObjectName name) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  auto held = co_await of.lock.acquire(0, kAllBlocks, RangeLock::Mode::kExclusive);
  if (!of.exists) co_return Status{};
  auto some = co_await data_locked(of, 0, 1);
  if (!some) co_return fail(std::move(some).error());
  if (!some->empty()) co_return Status{};
  co_return co_await remove_locked(of);
}

Task<Status> ObjectStore::remove_locked(Object& of) {
  const ObjectName name = of.name;
  co_await crash_.reach("object.removing");
  // Others first: without the first segment nobody would find them again.
  SLICE_CO_RETURN_IF_ERROR(co_await remove_segments_behind(of, 0));
  co_await crash_.reach("object.emptied");
  if (of.has_more) {
    auto gone = co_await disk_.remove(more_folder(name));
    if (!gone && gone.error().code != Errc::kNotFound) {
      log_warning("cannot remove folder={}: {}", more_folder(name), gone.error().message);
    }
  }
  if (of.exists) SLICE_CO_RETURN_IF_ERROR(co_await table_.remove_segment(of, 0));
  of.exists = false;
  of.has_more = false;
  of.end = 0;
  of.epoch = {};
  // Also where there is none: a process that was killed may have removed it without syncing.
  SLICE_CO_RETURN_IF_ERROR(co_await sync_folder(folder_of(head_path(name))));
  co_await crash_.reach("object.removed");
  co_return co_await marks_.forget({name, 0});
}

Task<Status> ObjectStore::sync_folder(std::string folder) {
  auto status = co_await disk_.sync_folder(std::move(folder));
  if (!status && status.error().code == Errc::kNotFound) co_return Status{};
  co_return status;
}

void ObjectStore::note_removed(const ObjectName& name) {
  // File names never come back, so a write that comes late must not make the object again.
  if (name.kind != ObjectKind::kFile) return;
  removed_order_.emplace_back(loop_.now(), name);
  ++removed_[name];
  while (removed_order_.size() > kMaxRemoved ||
         (!removed_order_.empty() && removed_order_.front().first + kRemovedMemory < loop_.now())) {
    auto found = removed_.find(removed_order_.front().second);
    if (--found->second == 0) removed_.erase(found);
    removed_order_.pop_front();
  }
}

bool ObjectStore::removed_lately(const ObjectName& name) {
  return removed_.contains(name);
}

}  // namespace slice::storagenode
