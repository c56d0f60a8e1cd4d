#include "rpc/record.h"

#include <malloc.h>
#include <sys/uio.h>

#include <algorithm>
#include <utility>

#include "rpc/session.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kWorthDirect = 4096;  // bytes; less goes through the scratch with what follows it
constexpr int kMaxGather = 64;              // pieces a writev

}  // namespace

std::size_t memory_of(const Buffer& buffer) {
  return buffer.data() == nullptr ? 0 : ::malloc_usable_size(const_cast<std::uint8_t*>(buffer.data()));
}

// How much room there is to be behind the record's bytes, where `missing` are to come and `here` have.
std::size_t RecordReader::room_for(std::size_t missing, std::size_t here) const {
  if (trusting_ || missing <= kHead) return missing;
  std::size_t left = memory_of(record_) - record_.size();  // of what it grew to before
  return std::min(missing, std::max({kHead, here, left >= kHead ? left : record_.size()}));
}

ByteSpan RecordReader::direct() {
  if (!in_fragment_ || missing_ < kWorthDirect || broken_) return {};
  std::size_t room = room_for(missing_, 0);
  record_.reserve(record_.size() + room);
  return {record_.data() + record_.size(), room};
}

void RecordReader::give_direct(std::size_t n) {
  record_.resize(record_.size() + n);
  missing_ -= n;
}

// Completes the mark from the chunk; false where it needs more bytes, or the stream is broken.
bool RecordReader::take_mark() {
  std::size_t n = std::min(sizeof mark_ - mark_bytes_, chunk_.size());
  if (n > 0) std::memcpy(mark_ + mark_bytes_, chunk_.data(), n);
  mark_bytes_ += n;
  chunk_ = chunk_.subspan(n);
  if (mark_bytes_ < sizeof mark_) return false;
  mark_bytes_ = 0;
  std::uint32_t mark = load_be<std::uint32_t>(mark_);
  last_ = (mark & kLastFragment) != 0;
  missing_ = mark & ~kLastFragment;
  if (record_.size() + missing_ > max_record_) {
    broken_ = true;
    return false;
  }
  in_fragment_ = true;
  large_ = missing_ >= kLarge;
  record_.reserve(record_.size() + room_for(missing_, chunk_.size()));
  return true;
}

bool RecordReader::finish_fragment(Buffer& record) {
  in_fragment_ = false;
  if (!last_) return false;
  record = std::exchange(record_, Buffer());
  return true;
}

bool RecordReader::next(Buffer& record) {
  while (!broken_) {
    if (!in_fragment_ && !take_mark()) return false;
    std::size_t n = std::min(missing_, chunk_.size());
    record_.append(chunk_.first(n));
    chunk_ = chunk_.subspan(n);
    missing_ -= n;
    if (missing_ > 0) return false;
    if (finish_fragment(record)) return true;
  }
  return false;
}

void SendQueue::push(Item item) {
  bytes_ += item.view().size();
  memory_ += item.memory();
  items_.push_back(std::move(item));
}

void SendQueue::push(Buffer marked_record) {
  push(Item{std::move(marked_record), nullptr});
}

void SendQueue::push(std::shared_ptr<const Buffer> marked_record) {
  push(Item{Buffer(), std::move(marked_record)});
}

void SendQueue::clear() {
  items_.clear();
  first_done_ = 0;
  bytes_ = 0;
  memory_ = 0;
}

void SendQueue::written(std::size_t n) {
  bytes_ -= n;
  n += first_done_;
  while (!items_.empty() && n >= items_.front().view().size()) {
    n -= items_.front().view().size();
    memory_ -= items_.front().memory();
    items_.pop_front();
  }
  first_done_ = n;
}

SendQueue::Flush SendQueue::flush(int fd, Session* session) {
  using Outcome = Written::Outcome;
  while (!items_.empty() || (session != nullptr && session->has_to_say())) {
    iovec pieces[kMaxGather];
    std::size_t count = 0;
    for (auto item = items_.begin(); item != items_.end() && count < kMaxGather; ++item) {
      ByteView view = item->view();
      if (count == 0) view = view.subspan(first_done_);
      pieces[count++] = {const_cast<std::uint8_t*>(view.data()), view.size()};
    }
    const Written done =
        session != nullptr ? session->write(fd, {pieces, count}) : write_plain(fd, {pieces, count});
    written(done.plain);
    if (done.outcome == Outcome::kBlocked) return Flush::kBlocked;
    if (done.outcome == Outcome::kBroken) return Flush::kBroken;
    if (done.outcome == Outcome::kWaits) return Flush::kDone;
  }
  return Flush::kDone;
}

}  // namespace slice::rpc
