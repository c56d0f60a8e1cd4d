// ByteStage: bytes that came of a connection and were not looked at yet.
#ifndef SLICE_BLOCK_BYTE_STAGE_H
#define SLICE_BLOCK_BYTE_STAGE_H

#include <algorithm>
#include <cstring>

#include "common/bytes.h"

namespace slice::block {

class ByteStage {
 public:
  explicit ByteStage(std::size_t capacity) : memory_(capacity) {}

  std::size_t size() const { return end_ - begin_; }
  // Where more may be put; then came() says how much. What take() answered counts no more. Empty where all is
  // full.
  ByteSpan room() {
    if (begin_ > 0 && size() > 0) std::memmove(memory_.data(), memory_.data() + begin_, size());
    end_ = size();
    begin_ = 0;
    return memory_.span().subspan(end_);
  }
  void came(std::size_t bytes) { end_ += bytes; }
  // The first so many, which are taken away; none of them where there are fewer.
  ByteView take(std::size_t bytes) {
    if (size() < bytes) return {};
    begin_ += bytes;
    return {memory_.data() + begin_ - bytes, bytes};
  }
  // As many as there are.
  ByteView take_up_to(std::uint64_t bytes) {
    return take(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size())));
  }
  void clear() { begin_ = end_; }

 private:
  Buffer memory_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_BYTE_STAGE_H
