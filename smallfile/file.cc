#include "smallfile/file.h"

#include <algorithm>
#include <cassert>

namespace slice::smallfile {
namespace {

constexpr std::size_t kTableShare = 128;  // bytes that tables and lists take for a file, about

// Calls each(block, from, to) for the part of [offset, offset + length) in every block; from and to are
// within the block.
template <class Each>
void for_blocks(std::uint64_t offset, std::size_t length, const Each& each) {
  for (std::uint64_t at = offset, end = offset + length; at < end;) {
    auto index = static_cast<std::uint32_t>(at / kBlockSize);
    auto from = static_cast<std::uint32_t>(at % kBlockSize);
    auto to = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockSize, from + (end - at)));
    each(index, from, to);
    at += to - from;
  }
}

}  // namespace

void Hull::add(Hull other) {
  if (other.empty()) return;
  *this = empty() ? other : Hull{std::min(from, other.from), std::max(to, other.to)};
}

void Hull::cut(std::uint32_t at) {
  to = std::min(to, at);
  from = std::min(from, to);
}

std::optional<std::uint32_t> File::to_load(std::uint64_t offset, std::size_t length, bool for_write) const {
  std::optional<std::uint32_t> found;
  for_blocks(offset, length, [&](std::uint32_t index, std::uint32_t from, std::uint32_t to) {
    if (found || index >= blocks.size() || !blocks[index].absent()) return;
    if (for_write && from == 0 && to >= blocks[index].valid) return;  // nothing of it will be left
    if (!for_write && from >= blocks[index].valid) return;
    found = index;
  });
  return found;
}

void File::install(std::uint32_t index, std::unique_ptr<std::uint8_t[]> data, std::uint32_t capacity) {
  Block& block = blocks[index];
  assert(block.absent());
  block.data = std::move(data);
  block.capacity = capacity;
  data_bytes_ += capacity;
}

void File::read(std::uint64_t offset, ByteSpan into) const {
  std::uint8_t* out = into.data();
  for_blocks(offset, into.size(), [&](std::uint32_t index, std::uint32_t from, std::uint32_t to) {
    std::uint32_t have = from;
    if (index < blocks.size() && blocks[index].valid > from) {
      assert(blocks[index].data);
      have = std::min(to, blocks[index].valid);
      std::memcpy(out, blocks[index].data.get() + from, have - from);
    }
    std::memset(out + (have - from), 0, to - have);
    out += to - from;
  });
}

// The block with room for `valid` bytes, its data kept.
Block& File::writable(std::uint32_t index, std::uint32_t valid) {
  if (index >= blocks.size()) blocks.resize(index + 1);
  Block& block = blocks[index];
  if (block.capacity < valid) {
    std::uint32_t capacity = room_for(valid);
    std::unique_ptr<std::uint8_t[]> larger(new std::uint8_t[capacity]);
    if (block.data) std::memcpy(larger.get(), block.data.get(), block.valid);
    data_bytes_ += capacity - block.capacity;
    block.data = std::move(larger);
    block.capacity = capacity;
  }
  return block;
}

void File::write(std::uint64_t offset, ByteView bytes) {
  const std::uint8_t* in = bytes.data();
  for_blocks(offset, bytes.size(), [&](std::uint32_t index, std::uint32_t from, std::uint32_t to) {
    Block& block = writable(index, to);
    assert(block.data);
    if (block.valid < from) std::memset(block.data.get() + block.valid, 0, from - block.valid);
    std::memcpy(block.data.get() + from, in, to - from);
    block.valid = std::max(block.valid, to);
    block.dirty = true;
    in += to - from;
  });
  end = std::max(end, offset + bytes.size());
}

void File::note_unlogged(std::uint64_t offset, std::size_t length) {
  for_blocks(offset, length, [&](std::uint32_t index, std::uint32_t from, std::uint32_t to) {
    blocks[index].unlogged.add({from, to});
  });
}

bool File::has_unlogged() const {
  return std::any_of(blocks.begin(), blocks.end(), [](const Block& block) {
    return !block.unlogged.empty() || !block.unlogged_flushing.empty();
  });
}

void File::cut(std::uint64_t size) {
  if (size >= end) return;
  end = size;
  for (std::size_t index = size / kBlockSize; index < blocks.size(); ++index) {
    Block& block = blocks[index];
    std::uint64_t start = std::uint64_t{index} * kBlockSize;
    auto keep = static_cast<std::uint32_t>(size > start ? size - start : 0);
    block.valid = std::min(block.valid, keep);
    block.unlogged.cut(keep);
    block.unlogged_flushing.cut(keep);
    if (block.valid > 0) {
      // Saved anew where it then takes less room; one that is not in memory keeps its room until it is
      // written.
      bool smaller = block.holds_zone() && room_for(block.valid) < room_for(block.extent.stored);
      block.dirty = block.dirty || (block.data && smaller);
      continue;
    }
    if (block.holds_zone()) freed.push_back(block.extent);
    data_bytes_ -= block.capacity;
    block = Block{};
  }
  blocks.resize(std::min(blocks.size(), static_cast<std::size_t>((size + kBlockSize - 1) / kBlockSize)));
}

MapRecord File::record(std::uint64_t applied_now) const {
  MapRecord record{.epoch = epoch, .mtime = mtime, .end = end, .applied = applied_now, .extents = {}};
  for (std::uint32_t index = 0; index < blocks.size(); ++index) {
    const Block& block = blocks[index];
    if (!block.holds_zone()) continue;
    Extent extent = block.extent;
    extent.valid = std::min(block.valid, extent.stored);
    record.extents.push_back({index, extent});
  }
  return record;
}

void File::restore(const MapRecord& record) {
  epoch = record.epoch;
  mtime = record.mtime;
  end = record.end;
  applied = record.applied;
  saved = true;
  for (const auto& [index, extent] : record.extents) {
    if (index >= blocks.size()) blocks.resize(index + 1);
    blocks[index].extent = extent;
    blocks[index].valid = extent.valid;
  }
}

std::uint64_t File::stored() const {
  return stored_in(0, blocks.size() * kBlockSize);
}

std::uint64_t File::stored_in(std::uint64_t first, std::uint64_t last) const {
  constexpr std::uint64_t kUnit = 4096;
  first = first / kUnit * kUnit;
  last = (last + kUnit - 1) / kUnit * kUnit;
  std::uint64_t sum = 0;
  for (std::size_t i = first / kBlockSize; i < blocks.size() && i * kBlockSize < last; ++i) {
    const Block& block = blocks[i];
    if (!block.data && !block.holds_zone()) continue;
    const std::uint64_t begin = i * kBlockSize, behind = begin + (block.valid + kUnit - 1) / kUnit * kUnit;
    const std::uint64_t from = std::max(first, begin), to = std::min(last, behind);
    sum += to > from ? to - from : 0;
  }
  return sum;
}

std::size_t File::footprint() const {
  return kTableShare + sizeof(File) + blocks.capacity() * sizeof(Block) + freed.capacity() * sizeof(Extent) +
         data_bytes_;
}

}  // namespace slice::smallfile
