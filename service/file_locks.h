// FileLocks: mutual exclusion by file, for what is more than one step: a truncation, whose bytes are cut
// elsewhere between its two commits, and what must not run beside it (at a coordinator, too: that a copy
// which misses everything is emptied and joins). Operations of one step need none, since nothing else runs on
// the loop between their reading and their commit. An operation holds at most one of these locks, so they
// cannot deadlock. One loop.
#ifndef SLICE_SERVICE_FILE_LOCKS_H
#define SLICE_SERVICE_FILE_LOCKS_H

#include <optional>
#include <unordered_map>
#include <utility>

#include "common/ids.h"
#include "common/task.h"

namespace slice::service {

class FileLocks {
 public:
  explicit FileLocks(Loop& loop) : loop_(loop) {}
  FileLocks(const FileLocks&) = delete;
  FileLocks& operator=(const FileLocks&) = delete;

  // Unlocks at its end.
  class [[nodiscard]] Held {
   public:
    Held(FileLocks& locks, FileId file, AsyncMutex::Lock lock)
        : locks_(&locks), file_(file), lock_(std::move(lock)) {}
    Held(Held&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), file_(other.file_), lock_(std::move(other.lock_)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (locks_ == nullptr) return;
      lock_.reset();
      locks_->leave(file_);
    }

   private:
    FileLocks* locks_;
    FileId file_;
    std::optional<AsyncMutex::Lock> lock_;
  };

  // First come, first served.
  Task<Held> lock(FileId file) {
    Entry& entry = entries_.try_emplace(file, loop_).first->second;
    ++entry.users;
    AsyncMutex::Lock lock = co_await entry.mutex.lock();
    co_return Held(*this, file, std::move(lock));
  }
  // Somebody holds it, or waits for it; else lock() does not wait.
  bool busy(FileId file) const { return entries_.contains(file); }

 private:
  struct Entry {
    explicit Entry(Loop& loop) : mutex(loop) {}
    AsyncMutex mutex;
    std::size_t users = 0;  // who holds it or waits for it
  };
  void leave(FileId file) {
    auto found = entries_.find(file);
    if (--found->second.users == 0) entries_.erase(found);
  }

  Loop& loop_;
  std::unordered_map<FileId, Entry> entries_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_FILE_LOCKS_H
