#include "storagenode/object_table.h"

#include <vector>

#include "common/log.h"

namespace slice::storagenode {

using storage::Disk;

Task<Result<Use<Object>>> ObjectTable::get(const ObjectName& name) {
  if (objects_.size() > 2 * max_open_) drop_unused_objects();
  auto& slot = objects_[name];
  if (!slot) slot = std::make_unique<Object>(loop_, name);
  Use<Object> use(slot.get());
  if (!use->loaded) {
    auto lock = co_await use->opening.lock();
    if (!use->loaded) {
      if (auto status = co_await load(*use); !status) co_return fail(status.error());
    }
  }
  co_return use;
}

Task<Status> ObjectTable::load(Object& object) {
  object.present = {0};
  auto head = co_await open_present(object, 0);
  if (!head && head.error().code == Errc::kNotFound) {
    object.present.clear();
    object.exists = false;
    object.loaded = true;
    co_return Status{};
  }
  if (!head) co_return fail(head.error());
  object.epoch = (*head)->segment.header().epoch;
  object.has_more = (*head)->segment.header().has_more;
  if (object.has_more) {
    auto names = co_await disk_.list(more_folder(object.name));
    if (!names) co_return fail(names.error());
    for (const auto& name : *names) {
      if (auto index = parse_hex(name)) object.present.insert(*index);
    }
  }
  SLICE_CO_RETURN_IF_ERROR(co_await find_end(object));
  co_await count_stored(object);
  object.exists = true;
  object.loaded = true;
  co_return Status{};
}

// Looks into every segment once; one that cannot be opened counts as full.
Task<void> ObjectTable::count_stored(Object& object) {
  std::vector<std::uint64_t> indexes(object.present.begin(), object.present.end());
  for (std::uint64_t index : indexes) {
    if (object.open.contains(index) || object.stored.contains(index)) continue;
    if (auto use = co_await open_present(object, index); !use) object.stored[index] = kSegment;
  }
}

std::set<ObjectName> ObjectTable::unsynced() const {
  std::set<ObjectName> names;
  for (const OpenSegment* open : order_) {
    if (open->segment.unsynced()) names.insert(open->object.name);
  }
  return names;
}

std::optional<std::uint64_t> ObjectTable::stored(const ObjectName& name) const {
  auto found = objects_.find(name);
  if (found == objects_.end() || !found->second->loaded) return std::nullopt;
  std::uint64_t sum = 0;
  for (const auto& [index, bytes] : found->second->stored) sum += bytes;
  for (const auto& [index, segment] : found->second->open) sum += segment->segment.stored();
  return sum;
}

// The caller holds object.opening, or loads the object for the first time.
Task<Status> ObjectTable::find_end(Object& object) {
  std::vector<std::uint64_t> indexes(object.present.rbegin(), object.present.rend());
  object.end = 0;
  for (std::uint64_t index : indexes) {
    auto use = co_await open_present(object, index);
    if (!use) co_return fail(use.error());
    if ((*use)->segment.end() == 0) continue;
    object.end = index * kSegment + (*use)->segment.end();
    break;
  }
  co_return Status{};
}

OpenSegment& ObjectTable::keep(Object& object, std::unique_ptr<OpenSegment> made) {
  OpenSegment& segment = *made;
  object.stored.erase(segment.segment.name().index);
  order_.push_front(&segment);
  segment.position = order_.begin();
  object.open[segment.segment.name().index] = std::move(made);
  figures_.open_segments.set(order_.size());
  return segment;
}

Task<Result<Use<OpenSegment>>> ObjectTable::open_present(Object& object, std::uint64_t index) {
  if (auto found = object.open.find(index); found != object.open.end()) {
    order_.splice(order_.begin(), order_, found->second->position);
    co_return Use(found->second.get());
  }
  co_await make_room();
  SegmentName name{object.name, index};
  auto file = co_await disk_.open(segment_path(name), Disk::Mode::kMustExist);
  if (!file) co_return fail(file.error());
  auto made = std::make_unique<OpenSegment>(object, name, std::move(*file), figures_);
  if (auto status = co_await made->segment.load_header(); !status) {
    figures_.checksum_errors.add(status.error().code == Errc::kCorrupt ? 1 : 0);
    log_error("cannot open segment file={}: {}", segment_path(name), status.error().message);
    co_return fail(status.error());
  }
  if (made->segment.header_is_damaged()) {
    figures_.checksum_errors.add();
    log_error("a copy of the header is damaged, the other is used file={}", segment_path(name));
  }
  co_return Use(&keep(object, std::move(made)));
}

Task<Result<Use<OpenSegment>>> ObjectTable::segment(Object& object, std::uint64_t index) {
  if (auto found = object.open.find(index); found != object.open.end()) {
    order_.splice(order_.begin(), order_, found->second->position);
    co_return Use(found->second.get());
  }
  auto lock = co_await object.opening.lock();
  auto opened = co_await open_present(object, index);
  if (opened || opened.error().code != Errc::kNotFound) co_return opened;
  figures_.checksum_errors.add();
  log_error("segment file is gone object={} segment={}", to_string(object.name), index);
  co_return fail(Errc::kCorrupt, "object {}: the file of segment {} is gone", to_string(object.name), index);
}

Task<Result<Use<OpenSegment>>> ObjectTable::make_segment(Object& object, std::uint64_t index, Epoch epoch) {
  if (object.open.contains(index)) co_return co_await segment(object, index);
  auto lock = co_await object.opening.lock();
  if (object.present.contains(index)) co_return co_await open_present(object, index);
  if (index > 0) {
    if (!object.exists) {
      // The first segment says that there is an object; it needs a mark as every file that is made.
      auto marked = co_await marks_.ensure({object.name, 0}, epoch, 0, 0);
      if (!marked) co_return fail(marked.error());
      auto head = co_await create(object, 0, epoch);
      if (!head) co_return fail(head.error());
    }
    if (auto status = co_await note_more(object); !status) co_return fail(status.error());
  }
  co_return co_await create(object, index, epoch);
}

// Says durably in the first segment's header that there are others, before one is made.
Task<Status> ObjectTable::note_more(Object& object) {
  if (object.has_more || !object.exists) co_return Status{};
  auto head = co_await open_present(object, 0);
  if (!head) co_return fail(head.error());
  SLICE_CO_RETURN_IF_ERROR(co_await marks_.ensure({object.name, 0}, object.epoch, 0, 0));
  SLICE_CO_RETURN_IF_ERROR(co_await (*head)->segment.write_header(object.epoch, true));
  SLICE_CO_RETURN_IF_ERROR(co_await (*head)->segment.sync());
  object.has_more = true;
  co_return Status{};
}

Task<Result<Use<OpenSegment>>> ObjectTable::create(Object& object, std::uint64_t index, Epoch epoch) {
  co_await make_room();
  SegmentName name{object.name, index};
  marks_.hold(name);
  auto file = co_await disk_.open(segment_path(name), Disk::Mode::kCreate);
  if (!file) {
    marks_.release(name);
    co_return fail(file.error());
  }
  auto made = std::make_unique<OpenSegment>(object, name, std::move(*file), figures_);
  if (auto status = co_await made->segment.write_header(epoch, false); !status) {
    // Nothing may be left that has no header; where that is not sure, a restart needs the mark.
    made.reset();
    Status gone = co_await disk_.remove(segment_path(name));
    if (gone) gone = co_await disk_.sync_folder(folder_of(segment_path(name)));
    if (gone) {
      marks_.release(name);
    } else {
      log_error("cannot take back a new file={}: {}", segment_path(name), gone.error().message);
    }
    co_return fail(status.error());
  }
  marks_.release(name);
  object.present.insert(index);
  if (index == 0) {
    object.exists = true;
    object.has_more = false;
    object.epoch = epoch;
  }
  co_return Use(&keep(object, std::move(made)));
}

Task<Status> ObjectTable::remove_segment(Object& object, std::uint64_t index) {
  auto lock = co_await object.opening.lock();
  SegmentName name{object.name, index};
  if (auto found = object.open.find(index); found != object.open.end()) {
    while (found->second->users > 0) {  // a sync that was asked for before
      co_await loop_.sleep(std::chrono::milliseconds(1));
    }
    close(*found->second);
  }
  marks_.hold(name);
  Status status = co_await disk_.remove(segment_path(name));
  if (!status && status.error().code != Errc::kNotFound) co_return status;
  object.present.erase(index);
  object.stored.erase(index);
  co_return Status{};
}

void ObjectTable::close(OpenSegment& segment) {
  order_.erase(segment.position);
  figures_.open_segments.set(order_.size());
  const std::uint64_t index = segment.segment.name().index;
  segment.object.stored[index] = segment.segment.stored();
  segment.object.open.erase(index);
}

// Closes files until there is room for one more. Those with unsynced bytes are synced first, so that an
// error of their disk is told to the File that wrote them.
Task<void> ObjectTable::make_room() {
  std::size_t tries = order_.size();
  while (order_.size() >= max_open_ && tries-- > 0) {
    OpenSegment* oldest = order_.back();
    if (oldest->users > 0) {
      order_.splice(order_.begin(), order_, oldest->position);
      continue;
    }
    if (oldest->segment.unsynced() && !oldest->segment.sync_failed()) {
      Use use(oldest);
      auto status = co_await oldest->segment.sync();
      if (status) continue;
    }
    if (oldest->users > 0 || oldest->segment.unsynced() || oldest->segment.broken()) {
      order_.splice(order_.begin(), order_, oldest->position);
    } else {
      close(*oldest);
    }
  }
}

OpenSegment* ObjectTable::peek(const SegmentName& name) {
  auto object = objects_.find(name.object);
  if (object == objects_.end()) return nullptr;
  auto segment = object->second->open.find(name.index);
  return segment == object->second->open.end() ? nullptr : segment->second.get();
}

void ObjectTable::drop_unused_objects() {
  std::erase_if(objects_,
                [](const auto& entry) { return entry.second->users == 0 && entry.second->open.empty(); });
}

}  // namespace slice::storagenode
