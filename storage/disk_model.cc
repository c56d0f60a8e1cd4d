#include "storage/disk_model.h"

#include <algorithm>

namespace slice::storage {
namespace {

constexpr std::uint64_t kChunkBlocks = DiskModel::kChunk / DiskModel::kBlock;
constexpr std::size_t kRememberedFiles = 1024;  // of written_, before those that are done are looked for

std::uint64_t first_block(std::uint64_t offset) {
  return offset / DiskModel::kBlock;
}
// One past the block of the last byte; whatever there is, where the range ends beyond all numbers.
std::uint64_t end_block(std::uint64_t offset, std::uint64_t length) {
  if (length > UINT64_MAX - offset) return UINT64_MAX / DiskModel::kBlock + 1;
  return (offset + length + DiskModel::kBlock - 1) / DiskModel::kBlock;
}

}  // namespace

DiskModel::DiskModel(Loop& loop, Options options, Metrics& metrics)
    : loop_(loop),
      options_(options),
      most_blocks_(std::max<std::uint64_t>(options.memory_bytes / kBlock, 1)),
      arms_(std::max<std::uint32_t>(options.arms, 1)),
      reads_(metrics.counter("emulated_disk_reads_total",
                             "operations of the emulated disk that read, of all arms")),
      writes_(metrics.counter("emulated_disk_writes_total",
                              "operations of the emulated disk that wrote, of all arms")),
      hits_(metrics.counter("emulated_disk_hits_total",
                            "blocks of 8 KiB that the emulated disk found in memory")),
      misses_(metrics.counter("emulated_disk_misses_total",
                              "blocks of 8 KiB that an arm of the emulated disk had to read")),
      busy_(metrics.counter("emulated_disk_busy_seconds_total",
                            "time that arms of the emulated disk were given to do: over the time that passed "
                            "and the arms, how busy they are",
                            {}, Unit::kMicroseconds)) {}

MonoTime DiskModel::read(FileKey file, std::uint64_t offset, std::uint64_t length) {
  MonoTime done = loop_.now();
  if (length == 0) return done;
  std::uint64_t end = end_block(offset, length);
  for (std::uint64_t at = first_block(offset); at < end;) {
    auto found = blocks_.find({file, at});
    if (found != blocks_.end()) {
      hits_.add();
      uses_.splice(uses_.end(), uses_, found->second.use);
      done = std::max(done, found->second.there);
      ++at;
      continue;
    }
    std::uint64_t missing = at;
    while (missing < end && !blocks_.contains({file, missing})) ++missing;
    misses_.add(missing - at);
    MonoTime there = operate(file, at, missing, reads_);
    done = std::max(done, there);
    for (; at < missing; ++at) done = std::max(done, keep({file, at}, there));
  }
  return done;
}

MonoTime DiskModel::write(FileKey file, std::uint64_t offset, std::uint64_t length) {
  MonoTime done = loop_.now();
  if (length == 0) return done;
  for (std::uint64_t at = first_block(offset), end = end_block(offset, length); at < end; ++at) {
    Place place{file, at};
    auto found = blocks_.find(place);
    if (found != blocks_.end()) {
      uses_.splice(uses_.end(), uses_, found->second.use);
    } else {
      done = std::max(done, keep(place, loop_.now()));
    }
    dirty_.insert(place);
  }
  return done;
}

MonoTime DiskModel::sync(FileKey file) {
  clean(file, 0, UINT64_MAX);
  auto found = written_.find(file);
  return found == written_.end() ? loop_.now() : std::max(loop_.now(), found->second);
}

void DiskModel::start_write_back(FileKey file, std::uint64_t offset, std::uint64_t length) {
  clean(file, first_block(offset), end_block(offset, length));
}

MonoTime DiskModel::sync_folder(FileKey folder) {
  return operate(folder, 0, 1, writes_);
}

void DiskModel::forget(FileKey file, std::uint64_t offset, std::uint64_t length) {
  // Of a block that is cut in two something is left.
  Place from{file, end_block(offset, 0)};
  Place end{file, length > UINT64_MAX - offset ? UINT64_MAX : (offset + length) / kBlock};
  for (auto it = blocks_.lower_bound(from); it != blocks_.end() && it->first < end;) {
    uses_.erase(it->second.use);
    dirty_.erase(it->first);
    it = blocks_.erase(it);
  }
}

MonoTime DiskModel::operate(FileKey file, std::uint64_t first, std::uint64_t end, Counter& counter) {
  MonoTime done = loop_.now();
  while (first < end) {
    std::uint64_t chunk = first / kChunkBlocks, upto = std::min(end, (chunk + 1) * kChunkBlocks);
    Arm& arm = arms_[(file + chunk) % arms_.size()];
    // A file's chunks on one arm lie behind one another, so that reading in order never seeks.
    std::uint64_t place = chunk / arms_.size() * kChunkBlocks + first % kChunkBlocks;
    std::uint64_t blocks = upto - first;
    bool in_order = arm.file == file && arm.next == place;
    Duration service = in_order ? Duration{0} : options_.access;
    service += Duration(blocks * kBlock * 1'000'000'000 / options_.bytes_per_second);
    arm = {.free = std::max(arm.free, loop_.now()) + service, .file = file, .next = place + blocks};
    counter.add();
    busy_.add(static_cast<std::uint64_t>(service / std::chrono::microseconds(1)));
    done = std::max(done, arm.free);
    first = upto;
  }
  return done;
}

MonoTime DiskModel::clean(FileKey file, std::uint64_t first, std::uint64_t end) {
  MonoTime done = loop_.now();
  auto it = dirty_.lower_bound({file, first});
  while (it != dirty_.end() && it->first == file && it->second < end) {
    std::uint64_t from = it->second, upto = from;
    for (; it != dirty_.end() && *it == Place{file, upto} && upto < end; ++upto) it = dirty_.erase(it);
    done = std::max(done, operate(file, from, upto, writes_));
  }
  note_written(file, done);
  return done;
}

void DiskModel::note_written(FileKey file, MonoTime when) {
  MonoTime now = loop_.now();
  if (when <= now) return;
  if (written_.size() >= kRememberedFiles) {
    std::erase_if(written_, [now](const auto& each) { return each.second <= now; });
  }
  MonoTime& until = written_[file];
  until = std::max(until, when);
}

MonoTime DiskModel::keep(const Place& place, MonoTime there) {
  MonoTime room = blocks_.size() < most_blocks_ ? loop_.now() : make_room();
  blocks_.emplace(place, Block{uses_.insert(uses_.end(), place), there});
  return room;
}

// Writes what is dirty beside the block that has to go with it, as it costs little more.
MonoTime DiskModel::make_room() {
  MonoTime done = loop_.now();
  Place oldest = uses_.front();
  if (dirty_.contains(oldest)) {
    std::uint64_t first = oldest.second, end = oldest.second + 1, chunk = first / kChunkBlocks;
    while (first > chunk * kChunkBlocks && dirty_.contains({oldest.first, first - 1})) --first;
    while (end < (chunk + 1) * kChunkBlocks && dirty_.contains({oldest.first, end})) ++end;
    done = clean(oldest.first, first, end);
  }
  blocks_.erase(oldest);
  uses_.pop_front();
  return done;
}

}  // namespace slice::storage
