// CutOrder: a file is truncated, or a copy of it that misses everything is emptied and joins: one at a time.
// A copy that takes part in a truncation has had all before it; one that is done without is emptied, later,
// under the epoch of the last. Between the two there must be none that is half done. One loop.
#ifndef SLICE_COORDINATOR_CUT_ORDER_H
#define SLICE_COORDINATOR_CUT_ORDER_H

#include <map>
#include <memory>
#include <utility>

#include "common/ids.h"
#include "common/task.h"

namespace slice::coordinator {

class CutOrder {
 public:
  explicit CutOrder(Loop& loop) : loop_(loop) {}

  // The right to cut a file, while it lives.
  class [[nodiscard]] Turn {
   public:
    Turn(CutOrder& order, FileId file) : order_(&order), file_(file) {
      auto& place = order.files_[file];
      if (place == nullptr) place = std::make_unique<File>(order.loop_);
      ++place->users;
    }
    Turn(Turn&& other) noexcept
        : order_(std::exchange(other.order_, nullptr)), file_(other.file_), lock_(std::move(other.lock_)) {}
    Turn& operator=(Turn&&) = delete;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (order_ == nullptr) return;
      {
        AsyncMutex::Lock released = std::move(lock_);
      }
      auto found = order_->files_.find(file_);
      if (--found->second->users == 0) order_->files_.erase(found);
    }

   private:
    friend class CutOrder;
    CutOrder* order_;
    FileId file_;
    AsyncMutex::Lock lock_{nullptr};
  };

  Task<Turn> turn(FileId file) {
    Turn mine(*this, file);
    mine.lock_ = co_await files_.find(file)->second->mutex.lock();
    co_return mine;
  }
  // Nobody has it, nor waits for it: then turn() does not wait.
  bool idle(FileId file) const { return !files_.contains(file); }

 private:
  struct File {
    explicit File(Loop& loop) : mutex(loop) {}
    AsyncMutex mutex;
    unsigned users = 0;
  };
  Loop& loop_;
  std::map<FileId, std::unique_ptr<File>> files_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_CUT_ORDER_H
