#include "proxy/stream/record_reader.h"

#include "rpc/message.h"

namespace slice::proxy {

std::string_view RecordReader::feed(BufferRef bytes) {
  if (paused_ || input_.size != 0) {
    held_.append(std::move(bytes));
    return {};
  }
  input_ = std::move(bytes);
  return run();
}

std::string_view RecordReader::resume() {
  paused_ = false;
  std::string_view wrong = run();
  BufferChain held = std::move(held_);
  held_.clear();
  for (const BufferRef& slice : held.slices()) {
    if (!wrong.empty()) break;
    if (paused_) {
      held_.append(slice);
      continue;
    }
    input_ = slice;
    wrong = run();
  }
  return wrong;
}

std::string_view RecordReader::run() {
  while (input_.size != 0 && !paused_ && !stopped_) {
    switch (state_) {
      case State::kMark:
        if (std::string_view wrong = take_mark(); !wrong.empty()) return wrong;
        break;
      case State::kHead:
        take_head();
        break;
      case State::kBody:
        take_body();
        break;
    }
  }
  if (input_.size == 0 || stopped_) input_ = {};
  return {};
}

std::string_view RecordReader::take_mark() {
  std::size_t n = std::min(input_.size, std::size_t{4} - mark_bytes_);
  std::memcpy(mark_ + mark_bytes_, input_.data, n);
  mark_bytes_ += n;
  input_.data += n;
  input_.size -= n;
  if (mark_bytes_ < 4) return {};
  mark_bytes_ = 0;
  auto mark = load_be<std::uint32_t>(mark_);
  last_ = (mark & rpc::kLastFragment) != 0;
  left_ = mark & ~rpc::kLastFragment;
  bool first = fragments_ == 0;
  if (++fragments_ > kMaxFragments) return "too many fragments in one record";
  if (record_.size() + left_ > kMaxRecord) return "record over the limit";
  if (left_ == 0) {
    if (last_) finish();
    return {};
  }
  take_ = RecordHandler::Take::kWhole;
  state_ = first && last_ && left_ > kStoreLimit ? State::kHead : State::kBody;
  return {};
}

void RecordReader::take_head() {
  std::size_t n = std::min(input_.size, left_);
  record_.append(input_.sub(0, n));
  input_.data += n;
  input_.size -= n;
  left_ -= n;
  if (record_.size() < kHeadBytes) return;
  std::uint8_t scratch[kHeadBytes];
  take_ = handler_.on_head(record_.head(kHeadBytes, scratch), record_.size() + left_);
  state_ = State::kBody;
  if (take_ == RecordHandler::Take::kWhole) {
    if (left_ == 0) finish();
    return;
  }
  BufferChain so_far = std::move(record_);
  record_.clear();
  if (take_ == RecordHandler::Take::kPieces) {
    for (const BufferRef& slice : so_far.slices()) {
      if (stopped_) return;
      handler_.on_piece(slice);
    }
  }
  if (left_ == 0 && !stopped_) finish();
}

void RecordReader::take_body() {
  std::size_t n = std::min(input_.size, left_);
  BufferRef piece = input_.sub(0, n);
  input_.data += n;
  input_.size -= n;
  left_ -= n;
  if (take_ == RecordHandler::Take::kWhole) {
    record_.append(std::move(piece));
  } else if (take_ == RecordHandler::Take::kPieces) {
    handler_.on_piece(piece);
  }
  if (left_ == 0 && !stopped_) finish();
}

void RecordReader::settle(ChunkPool& pool) {
  if (record_.empty() || record_.size() > kCoalesceLimit) return;
  BufferChain own;
  std::uint8_t* into = nullptr;
  own.append(pool.place(record_.size(), into));
  record_.copy_to(into);
  record_ = std::move(own);
}

void RecordReader::finish() {
  state_ = State::kMark;
  if (!last_) return;
  fragments_ = 0;
  BufferChain record = std::move(record_);
  record_.clear();
  if (std::exchange(take_, RecordHandler::Take::kWhole) == RecordHandler::Take::kWhole) {
    handler_.on_record(record);
  } else {
    handler_.on_end();
  }
}

}  // namespace slice::proxy
