// StripeLocks: what a node needs to have another one write what it writes in the same order: locks of
// stripes. One loop.
#ifndef SLICE_STORAGENODE_STRIPE_LOCKS_H
#define SLICE_STORAGENODE_STRIPE_LOCKS_H

#include <map>
#include <memory>
#include <utility>

#include "common/ids.h"
#include "storagenode/range_lock.h"

namespace slice::storagenode {

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

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_STRIPE_LOCKS_H
