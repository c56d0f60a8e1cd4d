// What a node needs to have another one write what it writes, in the same order: locks of stripes, and the
// numbers of the writes that it forwards, by which a receiver does not do a late second copy of one behind a
// newer one. One loop.
#ifndef SLICE_STORAGENODE_STRIPE_ORDER_H
#define SLICE_STORAGENODE_STRIPE_ORDER_H

#include <map>
#include <memory>
#include <utility>

#include "common/ids.h"
#include "storagenode/range_lock.h"

namespace slice::storagenode {

using StripeName = std::pair<FileId, std::uint64_t>;

class StripeLocks {
 public:
  explicit StripeLocks(Loop& loop) : loop_(loop) {}

 private:
  struct File {
    explicit File(Loop& loop) : lock(loop) {}
    RangeLock lock;
    unsigned users = 0;
  };

 public:
  // The locks of one file; lives as long as one of them is waited for or held.
  class Of {
   public:
    Of(StripeLocks& locks, FileId file) : locks_(locks), file_(file) {
      auto& place = locks_.files_[file];
      if (place == nullptr) place = std::make_unique<File>(locks_.loop_);
      of_ = place.get();
      ++of_->users;
    }
    ~Of() {
      if (--of_->users == 0) locks_.files_.erase(file_);
    }
    Of(const Of&) = delete;
    Of& operator=(const Of&) = delete;
    // auto held = co_await locks.acquire(stripe);
    auto acquire(std::uint64_t stripe) {
      return of_->lock.acquire(stripe, stripe, RangeLock::Mode::kExclusive);
    }

   private:
    StripeLocks& locks_;
    FileId file_;
    File* of_;
  };

 private:
  Loop& loop_;
  std::map<FileId, std::unique_ptr<File>> files_;
};

class WriteNumbers {
 public:
  // For a write that is sent; greater than any before, also of a run before.
  std::uint64_t next(WallTime now);
  // A receiver has had greater ones.
  void see(std::uint64_t number);
  // Of a write that is received: whether it is greater than those before of its stripe.
  bool take(StripeName stripe, std::uint64_t number);
  std::uint64_t greatest(StripeName stripe) const;

 private:
  std::uint64_t last_ = 0;  // given
  std::map<StripeName, std::uint64_t> taken_;
  std::uint64_t forgotten_ = 0;  // at least those of all stripes that are not in taken_
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_STRIPE_ORDER_H
