// SpaceCount: how many bytes more may be written to a file system, counted down between looks at it: a look
// (statfs(2)) at each write costs as much as many a small write's own share. One loop.
#ifndef SLICE_STORAGE_SPACE_COUNT_H
#define SLICE_STORAGE_SPACE_COUNT_H

#include <cstdint>

#include "common/loop.h"

namespace slice::storage {

class SpaceCount {
 public:
  // So old a look is not gone by: others write to the same file system.
  static constexpr Duration kAge = std::chrono::milliseconds(100);

  explicit SpaceCount(const Loop& loop) : loop_(loop) {}

  // Whether `bytes` may be written; they are counted then. `look`: how many may be by what is free now; it is
  // called where the last look is old, or has too few left.
  template <class Look>
  bool take(std::uint64_t bytes, Look look) {
    if (!looked_ || loop_.now() - looked_at_ > kAge || left_ < bytes) {
      left_ = look();
      looked_ = true;
      looked_at_ = loop_.now();
    }
    if (left_ < bytes) return false;
    left_ -= bytes;
    return true;
  }
  // There may be more than was seen, or less: the next one looks.
  void forget() { looked_ = false; }

 private:
  const Loop& loop_;
  bool looked_ = false;
  MonoTime looked_at_;
  std::uint64_t left_ = 0;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_SPACE_COUNT_H
