#include "storagenode/marks.h"

#include <algorithm>
#include <utility>

namespace slice::storagenode {
namespace {

constexpr char kPath[] = "marks";
constexpr std::size_t kAhead = 16;  // granules marked at once for a sequential writer

Granules range(std::size_t first, std::size_t last) {
  Granules bits;
  for (std::size_t i = first; i <= last; ++i) bits.set(i);
  return bits;
}

}  // namespace

Task<Result<std::vector<MarkRecord>>> Marks::open() {
  auto opened = co_await disk_.open(kPath, storage::Disk::Mode::kCreate);
  if (!opened) co_return fail(opened.error());
  file_ = std::move(*opened);
  Buffer bytes(file_->size());
  auto got = co_await file_->read(0, bytes.span());
  if (!got) co_return fail(got.error());
  std::vector<MarkRecord> records;
  for (std::size_t at = 0; at + kMarkSlot <= *got; at += kMarkSlot) {
    auto record = decode_mark(bytes.view().subspan(at, kMarkSlot));
    if (record && record->granules.any()) records.push_back(*record);
  }
  co_return records;
}

Task<Status> Marks::reset() {
  SLICE_CO_RETURN_IF_ERROR(co_await file_->truncate(0));
  marks_.clear();
  granules_ = 0;
  free_slots_.clear();
  slots_ = 0;
  co_return co_await file_->sync();
}

bool Marks::covered(const SegmentName& segment, std::size_t first, std::size_t last) {
  auto found = marks_.find(segment);
  if (found == marks_.end()) return false;
  for (std::size_t i = first; i <= last; ++i) {
    if (!found->second.durable[i]) return false;
  }
  for (std::size_t i = first; i <= last; ++i) found->second.now.set(i);
  return true;
}

std::optional<std::size_t> Marks::unmarked_behind(const SegmentName& segment, std::size_t last,
                                                  std::size_t within) const {
  auto found = marks_.find(segment);
  if (found == marks_.end() || last == 0) return std::nullopt;
  const Mark& mark = found->second;
  if (!mark.durable[last] || !mark.durable[last - 1]) return std::nullopt;
  for (std::size_t i = last + 1; i <= std::min(last + within, kGranulesPerSegment - 1); ++i) {
    if (!mark.wanted[i]) return i;
  }
  return std::nullopt;
}

Marks::Mark& Marks::mark_of(const SegmentName& segment) {
  auto [at, made] = marks_.try_emplace(segment);
  if (made && !free_slots_.empty()) {
    at->second.slot = free_slots_.back();
    free_slots_.pop_back();
  } else if (made) {
    at->second.slot = slots_++;
  }
  return at->second;
}

void Marks::want(Mark& mark, const Granules& wanted) {
  granules_ += wanted.count() - mark.wanted.count();
  mark.wanted = wanted;
}

Task<Status> Marks::ensure(const SegmentName& segment, Epoch epoch, std::size_t first, std::size_t last) {
  if (covered(segment, first, last)) co_return Status{};
  Mark& mark = mark_of(segment);
  if (first > 0 && mark.durable[first - 1]) {
    last = std::min(std::max(last, first + kAhead - 1), kGranulesPerSegment - 1);
  }
  Granules bits = range(first, last);
  mark.epoch = std::max(mark.epoch, epoch);
  want(mark, mark.wanted | bits);
  mark.now |= bits;
  ++mark.waiting;  // keeps the mark and its bits from the cleaner
  Status status = co_await write_slot(segment, mark);
  if (status) {
    status = co_await file_->sync();
    if (!status) failed_ = true;
  }
  --mark.waiting;
  if (status) mark.durable |= bits;
  co_return status;
}

Task<Status> Marks::write_slot(const SegmentName& segment, Mark& mark) {
  auto lock = co_await writing_.lock();  // the newest state of a slot is written last
  if (failed_) {
    SLICE_CO_RETURN_IF_ERROR(co_await write_all());
    co_return Status{};
  }
  auto slot = encode_mark({segment, mark.epoch, mark.wanted});
  co_return co_await file_->write(mark.slot * kMarkSlot, slot);
}

Task<Status> Marks::write_all() {
  auto opened = co_await disk_.open(kPath, storage::Disk::Mode::kCreate);
  if (!opened) co_return fail(opened.error());
  retired_.push_back(std::exchange(file_, std::move(*opened)));  // others may still wait for its sync
  Buffer bytes(slots_ * kMarkSlot);
  std::memset(bytes.data(), 0, bytes.size());
  for (const auto& [segment, mark] : marks_) {
    auto slot = encode_mark({segment, mark.epoch, mark.wanted});
    std::copy(slot.begin(), slot.end(), bytes.data() + mark.slot * kMarkSlot);
  }
  SLICE_CO_RETURN_IF_ERROR(co_await file_->write(0, bytes.view()));
  failed_ = false;
  co_return Status{};
}

std::vector<SegmentName> Marks::names() const {
  std::vector<SegmentName> all;
  all.reserve(marks_.size());
  for (const auto& [segment, mark] : marks_) all.push_back(segment);
  return all;
}

void Marks::rotate(const SegmentName& segment) {
  auto found = marks_.find(segment);
  if (found == marks_.end()) return;
  found->second.before = found->second.now;
  found->second.now.reset();
}

Task<Status> Marks::settle(const SegmentName& segment, bool hurry) {
  auto found = marks_.find(segment);
  if (found == marks_.end() || found->second.waiting > 0 || found->second.held) co_return Status{};
  Mark& mark = found->second;
  Granules keep = hurry ? mark.now : mark.now | mark.before;
  if ((mark.wanted & ~keep).none()) co_return Status{};
  want(mark, mark.wanted & keep);
  mark.durable &= keep;
  if (mark.wanted.none()) co_return co_await forget(segment);
  ++mark.waiting;
  Status status = co_await write_slot(segment, mark);
  --mark.waiting;
  unmarked_ = true;
  co_return status;
}

void Marks::hold(const SegmentName& segment) {
  if (auto found = marks_.find(segment); found != marks_.end()) found->second.held = true;
}

void Marks::release(const SegmentName& segment) {
  if (auto found = marks_.find(segment); found != marks_.end()) found->second.held = false;
}

Task<Status> Marks::flush() {
  if (!std::exchange(unmarked_, false) || failed_) co_return Status{};
  Status status = co_await file_->sync();
  if (!status) failed_ = true;
  co_return status;
}

Task<Status> Marks::forget(const SegmentName& segment) {
  auto found = marks_.find(segment);
  if (found == marks_.end()) co_return Status{};
  if (found->second.waiting > 0) co_return Status{};
  std::uint64_t slot = found->second.slot;
  want(found->second, {});
  marks_.erase(found);
  // The slot is free for others only when it is cleared, so that the clearing cannot overtake their mark.
  auto lock = co_await writing_.lock();
  std::array<std::uint8_t, kMarkSlot> zeros{};
  Status status = failed_ ? Status{} : co_await file_->write(slot * kMarkSlot, zeros);
  free_slots_.push_back(slot);
  unmarked_ = true;
  co_return status;
}

Granules Marks::marked(const SegmentName& segment) const {
  auto found = marks_.find(segment);
  return found == marks_.end() ? Granules{} : found->second.wanted;
}

}  // namespace slice::storagenode
