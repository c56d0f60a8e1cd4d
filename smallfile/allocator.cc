#include "smallfile/allocator.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace slice::smallfile {

std::uint32_t room_for(std::uint32_t length) {
  assert(length > 0 && length <= kBlockSize);
  return std::max(kLeastExtent, std::bit_ceil(length));
}

Status ZoneAllocator::restore_end(std::uint64_t end) {
  if (end % kLeastExtent != 0 || end > kMaxZone) return fail(Errc::kCorrupt, "zone end {}", end);
  end_ = end;
  return {};
}

Status ZoneAllocator::restore_fragment(std::uint64_t offset, std::uint64_t length) {
  bool fits = length > 0 && offset % kLeastExtent == 0 && length % kLeastExtent == 0 && offset < end_ &&
              length < end_ - offset;
  auto next = by_offset_.lower_bound(offset);
  if (fits && next != by_offset_.end()) fits = offset + length < next->first;
  if (fits && next != by_offset_.begin()) {
    auto before = std::prev(next);
    fits = before->first + before->second < offset;
  }
  if (!fits) return fail(Errc::kCorrupt, "fragment of {} bytes at {} in a zone of {}", length, offset, end_);
  insert(offset, length);
  touched_.clear();
  return {};
}

std::uint64_t ZoneAllocator::allocate(std::uint32_t length) {
  std::uint64_t room = room_for(length);
  auto best = by_length_.lower_bound({room, 0});
  if (best == by_length_.end()) {
    end_moved_ = true;
    assert(end_ + room <= kMaxZone);
    return std::exchange(end_, end_ + room);
  }
  auto [had, offset] = *best;
  erase(offset, had);
  if (had > room) insert(offset + room, had - room);
  return offset;
}

void ZoneAllocator::release(std::uint64_t offset, std::uint32_t length) {
  std::uint64_t room = room_for(length);
  assert(offset + room <= end_);
  auto next = by_offset_.lower_bound(offset);
  assert(next == by_offset_.end() || next->first >= offset + room);
  if (next != by_offset_.begin()) {
    auto [before, before_length] = *std::prev(next);
    assert(before + before_length <= offset);
    if (before + before_length == offset) {
      erase(before, before_length);
      offset = before;
      room += before_length;
    }
  }
  next = by_offset_.lower_bound(offset + room);
  if (next != by_offset_.end() && next->first == offset + room) {
    auto [after, after_length] = *next;
    erase(after, after_length);
    room += after_length;
  }
  if (offset + room == end_) {
    end_ = offset;
    end_moved_ = true;
    return;
  }
  insert(offset, room);
}

void ZoneAllocator::reclaim(std::uint64_t offset, std::uint32_t length) {
  std::uint64_t room = room_for(length);
  if (offset >= end_) {
    end_moved_ = true;
    std::uint64_t before = std::exchange(end_, offset + room);
    if (before < offset) insert(before, offset - before);
    return;
  }
  auto holder = std::prev(by_offset_.upper_bound(offset));
  auto [start, had] = *holder;
  assert(start <= offset && offset + room <= start + had);
  erase(start, had);
  if (start < offset) insert(start, offset - start);
  if (offset + room < start + had) insert(offset + room, start + had - offset - room);
}

void ZoneAllocator::give_back(const Changes& changes) {
  end_moved_ = end_moved_ || changes.end_moved;
  for (const auto& [offset, length] : changes.fragments) touched_.insert(offset);
}

void ZoneAllocator::insert(std::uint64_t offset, std::uint64_t length) {
  by_offset_.emplace(offset, length);
  by_length_.emplace(length, offset);
  touched_.insert(offset);
  free_bytes_ += length;
  if (length >= kBlockSize) usable_bytes_ += length;
}

void ZoneAllocator::erase(std::uint64_t offset, std::uint64_t length) {
  by_offset_.erase(offset);
  by_length_.erase({length, offset});
  touched_.insert(offset);
  free_bytes_ -= length;
  if (length >= kBlockSize) usable_bytes_ -= length;
}

ZoneAllocator::Changes ZoneAllocator::take_changes() {
  Changes changes;
  changes.end_moved = std::exchange(end_moved_, false);
  for (std::uint64_t offset : touched_) {
    auto found = by_offset_.find(offset);
    changes.fragments.emplace_back(
        offset, found == by_offset_.end() ? std::nullopt : std::optional<std::uint64_t>(found->second));
  }
  touched_.clear();
  return changes;
}

}  // namespace slice::smallfile
