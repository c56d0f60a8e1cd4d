// What of ObjectStore is not on the path of a request: recovery, the cleaner of marks, listing.
#include <algorithm>

#include "common/log.h"
#include "storagenode/object_store.h"

namespace slice::storagenode {

using storage::Disk;

namespace {
constexpr std::size_t kCleanedAtOnce = 16;  // segments
}  // namespace

Task<Status> ObjectStore::open() {
  auto records = co_await marks_.open();
  if (!records) co_return fail(records.error(), "marks");
  std::size_t granules = 0;
  if (!records->empty()) co_await crash_.reach("recovery.begun");
  for (const auto& record : *records) {
    granules += record.granules.count();
    if (auto status = co_await recover(record); !status) {
      co_return fail(status.error(), to_string(record.segment.object));
    }
    co_await crash_.reach("recovery.repaired");
  }
  if (!records->empty()) {
    log_info("recovered segments={} granules={} torn_blocks={}", records->size(), granules,
             figures_.torn_blocks.value());
  }
  SLICE_CO_RETURN_IF_ERROR(co_await marks_.reset());
  if (!records->empty()) co_await crash_.reach("recovery.ended");
  ++background_;
  spawn(clean_forever());
  co_return Status{};
}

// Where it was being written, what is on disk counts: each sector has its old or its new bytes.
Task<Status> ObjectStore::recover(const MarkRecord& record) {
  auto file = co_await disk_.open(segment_path(record.segment), Disk::Mode::kMustExist);
  if (!file && file.error().code == Errc::kNotFound) co_return Status{};
  if (!file) co_return fail(file.error());
  Segment segment(record.segment, std::move(*file), figures_);
  if (auto status = co_await segment.load_header(); !status) {
    if (status.error().code != Errc::kCorrupt) co_return status;
    // It was never synced: others of the object are made only after their first is.
    auto others = co_await disk_.list(more_folder(record.segment.object));
    if (!others) co_return fail(others.error());
    bool has_more = record.segment.index == 0 && !others->empty();
    SLICE_CO_RETURN_IF_ERROR(co_await segment.write_header(record.epoch, has_more));
  } else if (!segment.header_is_whole()) {
    SegmentHeader header = segment.header();
    SLICE_CO_RETURN_IF_ERROR(co_await segment.write_header(header.epoch, header.has_more));
  }
  SLICE_CO_RETURN_IF_ERROR(co_await segment.repair(record.granules, false));
  // In any case: a killed process leaves bytes in the page cache that are not on disk, and their mark goes.
  SLICE_CO_RETURN_IF_ERROR(co_await segment.sync());
  co_return co_await sync_folder(folder_of(segment_path(record.segment)));
}

Task<bool> ObjectStore::flush() {
  while (cleaning_) co_await loop_.sleep(std::chrono::milliseconds(10));
  co_return !halted_ && co_await clean_all();
}

Task<void> ObjectStore::stop() {
  stopping_ = true;
  (void)co_await flush();
  while (background_ > 0 || cleaning_) co_await loop_.sleep(std::chrono::milliseconds(10));
}

Task<void> ObjectStore::clean_forever() {
  constexpr Duration kStep = std::chrono::milliseconds(100);
  Duration waited{0};
  while (!stopping_) {
    co_await loop_.sleep(kStep);
    waited += kStep;
    if (stopping_ || waited < options_.clean_period) continue;
    waited = Duration{0};
    co_await clean();
  }
  --background_;
}

Task<void> ObjectStore::clean() {
  if (!cleaning_) (void)co_await clean_all();
}

Task<bool> ObjectStore::clean_all() {
  cleaning_ = true;
  bool hurry = stopping_ || marks_.granules() > options_.max_marked_granules;
  bool all_durable = true;
  auto names = marks_.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool durable = co_await clean_segment(names[i], hurry);
    all_durable = all_durable && durable;
    // Where the disk never waits, requests would.
    if (i % kCleanedAtOnce == kCleanedAtOnce - 1) co_await loop_.sleep(Duration{0});
  }
  if (!names.empty()) co_await crash_.reach("clean.unmarked");
  if (auto status = co_await marks_.flush(); !status) {
    log_warning("cannot sync marks: {}", status.error().message);
  }
  if (!names.empty()) co_await crash_.reach("clean.flushed");
  figures_.marked_granules.set(marks_.granules());
  cleaning_ = false;
  co_return all_durable;
}

Task<bool> ObjectStore::clean_segment(SegmentName name, bool hurry) {
  OpenSegment* open = table_.peek(name);
  if (open == nullptr) {
    // Files are closed only when they are synced; but one may just be opened to be written.
    marks_.rotate(name);
    (void)co_await marks_.settle(name, false);
    co_return true;
  }
  Use<Object> object(&open->object);
  {
    // A write that is under way has marked its granules, and may not have reached the file yet.
    auto held = co_await object->lock.acquire(0, kAllBlocks, RangeLock::Mode::kShared);
    marks_.rotate(name);
  }
  open = table_.peek(name);
  if (open == nullptr) co_return true;
  if (open->segment.broken()) co_return false;
  Status status;
  {
    Use<OpenSegment> use(open);  // not held while healing, which waits for whoever removes the segment
    if (use->segment.unsynced()) {
      co_await crash_.reach("clean.syncing");
      status = co_await sync(use->segment);
      co_await crash_.reach("clean.synced");
    }
  }
  if (status) {
    (void)co_await marks_.settle(name, hurry);
    co_return true;
  }
  (void)co_await heal(*object);
  co_return false;
}

Task<Result<ObjectStore::Stat>> ObjectStore::stat(ObjectName name, std::size_t max_extents) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  Stat stat{of.exists, of.epoch, of.end, 0, {}};
  auto held = co_await of.lock.acquire(0, kAllBlocks, RangeLock::Mode::kShared);
  std::vector<std::uint64_t> indexes(of.present.begin(), of.present.end());
  for (std::uint64_t index : indexes) {
    auto use = co_await table_.segment(of, index);
    if (!use) co_return fail(use.error());
    auto& file = (*use)->segment.file();
    auto allocated = file.allocated();
    if (!allocated) co_return fail(allocated.error());
    stat.allocated += *allocated;
  }
  auto ranges = co_await data_locked(of, 0, max_extents);
  if (!ranges) co_return fail(ranges.error());
  for (const Range& range : *ranges) stat.extents.push_back({range.offset, range.length, range.place});
  co_return stat;
}

Task<Result<std::vector<ObjectStore::Range>>> ObjectStore::data(ObjectName name, std::uint64_t from,
                                                                std::size_t most) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  auto held = co_await (*object)->lock.acquire(0, kAllBlocks, RangeLock::Mode::kShared);
  co_return co_await data_locked(**object, from, most);
}

Task<Result<std::vector<ObjectStore::Range>>> ObjectStore::data_locked(Object& object, std::uint64_t from,
                                                                       std::size_t most) {
  std::vector<Range> found;
  std::vector<std::uint64_t> indexes(object.present.lower_bound(from / kSegment), object.present.end());
  for (std::uint64_t index : indexes) {
    if (found.size() >= most) break;
    auto use = co_await table_.segment(object, index);
    if (!use) co_return fail(use.error());
    const std::uint64_t within = index == from / kSegment ? from % kSegment : 0;
    auto ranges = (*use)->segment.file().data_ranges(kDataStart + within, most - found.size());
    if (!ranges) co_return fail(ranges.error());
    for (const auto& range : *ranges) {
      found.push_back({index * kSegment + range.offset - kDataStart, range.length, range.offset});
    }
  }
  co_return found;
}

Task<Result<ObjectStore::Run>> ObjectStore::run(ObjectName name, std::uint64_t offset, std::uint64_t most) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  Object& of = **object;
  const std::uint64_t index = offset / kSegment, begin = offset % kSegment;
  most = std::min(most, kSegment - begin);
  auto held =
      co_await of.lock.acquire(offset / kBlock, (offset + most - 1) / kBlock, RangeLock::Mode::kShared);
  if (!of.present.contains(index)) co_return Run{most, true};
  auto use = co_await table_.segment(of, index);
  if (!use) co_return fail(use.error());
  Segment& segment = (*use)->segment;
  auto ranges = segment.file().data_ranges(kDataStart + begin, 1);
  if (!ranges) co_return fail(ranges.error());
  const std::uint64_t end = begin + most;
  const std::uint64_t data = ranges->empty() ? end : std::min(end, ranges->front().offset - kDataStart);
  if (data > begin) {
    auto hole = co_await segment.is_hole(begin / kBlock, (data - 1) / kBlock - begin / kBlock + 1);
    if (!hole) co_return fail(hole.error());
    co_return Run{data - begin, *hole};
  }
  // What a segment ends in is no whole block, and its rest is as good as data.
  const std::uint64_t to = ranges->front().offset + ranges->front().length - kDataStart;
  co_return Run{std::min(end, (to + kBlock - 1) / kBlock * kBlock) - begin, false};
}

Task<Status> ObjectStore::sync_all() {
  for (const ObjectName& name : table_.unsynced()) {
    if (auto committed = co_await commit(name); !committed) co_return fail(std::move(committed).error());
  }
  co_return Status{};
}

namespace {

// The numbers that a folder's entries name, greater than or equal to `from`, in order.
Task<Result<std::vector<std::uint64_t>>> numbers(Disk& disk, std::string folder, std::uint64_t from) {
  auto names = co_await disk.list(folder);
  if (!names) co_return fail(names.error());
  std::vector<std::uint64_t> found;
  for (const auto& name : *names) {
    auto number = parse_hex(name);
    if (number && *number >= from) found.push_back(*number);
  }
  std::sort(found.begin(), found.end());
  co_return found;
}

// One leaf folder's objects greater than `after`, in order, appended to `out`.
Task<Status> list_leaf(Disk& disk, std::string folder, VolumeId volume, std::optional<ObjectName> after,
                       std::vector<ObjectName>& out) {
  auto names = co_await disk.list(std::move(folder));
  if (!names) co_return fail(names.error());
  auto start = static_cast<std::ptrdiff_t>(out.size());
  for (const auto& name : *names) {
    auto object = parse_head(volume, name);
    if (object && (!after || *object > *after)) out.push_back(*object);
  }
  std::sort(out.begin() + start, out.end());
  co_return Status{};
}

}  // namespace

// Folders are named by the upper digits of what is in them, so a walk in their order is in order of names.
Task<Result<ObjectStore::Listed>> ObjectStore::list(std::optional<ObjectName> after, std::size_t limit) {
  Listed listed;
  std::uint64_t from_volume = after ? after->volume.value : 0;
  auto volumes = co_await numbers(disk_, "objects", from_volume);
  if (!volumes) co_return fail(volumes.error());
  for (std::uint64_t volume : *volumes) {
    bool first = after && volume == from_volume;
    std::uint64_t from = first ? after->fileid.value : 0;
    std::string folder = fmt::format("objects/{:08x}", volume);
    auto uppers = co_await numbers(disk_, folder, from >> 20);
    if (!uppers) co_return fail(uppers.error());
    for (std::uint64_t upper : *uppers) {
      std::string below = fmt::format("{}/{:011x}", folder, upper);
      bool same = first && upper == from >> 20;
      auto middles = co_await numbers(disk_, below, same ? (from >> 8) & 0xfff : 0);
      if (!middles) co_return fail(middles.error());
      for (std::uint64_t middle : *middles) {
        auto status = co_await list_leaf(disk_, fmt::format("{}/{:03x}", below, middle),
                                         VolumeId{static_cast<std::uint32_t>(volume)}, after, listed.objects);
        if (!status) co_return fail(status.error());
        if (listed.objects.size() <= limit) continue;
        listed.objects.resize(limit);
        listed.end = false;
        co_return listed;
      }
    }
  }
  co_return listed;
}

Task<Result<std::optional<Epoch>>> ObjectStore::epoch(ObjectName name) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  if (!(*object)->exists) co_return std::optional<Epoch>();
  co_return std::optional<Epoch>((*object)->epoch);
}

Task<Result<std::vector<std::uint64_t>>> ObjectStore::segments(ObjectName name) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  co_return std::vector<std::uint64_t>((*object)->present.begin(), (*object)->present.end());
}

Task<Result<std::uint64_t>> ObjectStore::scrub(ObjectName name, std::uint64_t segment, std::size_t granule) {
  auto object = co_await table_.get(name);
  if (!object) co_return fail(object.error());
  std::uint64_t first = (segment * kSegment + granule * kGranule) / kBlock;
  auto held =
      co_await (*object)->lock.acquire(first, first + kBlocksPerGranule - 1, RangeLock::Mode::kShared);
  if (!(*object)->present.contains(segment)) co_return std::uint64_t{0};
  auto use = co_await table_.segment(**object, segment);
  if (!use) co_return fail(use.error());
  co_return co_await (*use)->segment.scrub(granule);
}

}  // namespace slice::storagenode
