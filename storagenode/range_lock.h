// RangeLock: shared and exclusive locks over ranges of one object's blocks, between the coroutines of one
// loop. First come, first served: a waiter is never overtaken by a later one that it conflicts with.
#ifndef SLICE_STORAGENODE_RANGE_LOCK_H
#define SLICE_STORAGENODE_RANGE_LOCK_H

#include <coroutine>
#include <cstdint>
#include <list>
#include <utility>

#include "common/loop.h"
#include "common/trace.h"

namespace slice::storagenode {

class RangeLock {
 public:
  explicit RangeLock(Loop& loop) : loop_(loop) {}
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  enum class Mode { kShared, kExclusive };

 private:
  struct Entry {
    std::uint64_t first, last;  // inclusive
    Mode mode;
    bool held = false;
    std::coroutine_handle<> waiter;
    bool conflicts(const Entry& other) const {
      return first <= other.last && other.first <= last &&
             (mode == Mode::kExclusive || other.mode == Mode::kExclusive);
    }
  };
  using Entries = std::list<Entry>;

 public:
  class [[nodiscard]] Held {
   public:
    Held(RangeLock* lock, Entries::iterator entry) : lock_(lock), entry_(entry) {}
    Held(Held&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)), entry_(other.entry_) {}
    Held& operator=(Held&&) = delete;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (lock_ != nullptr) lock_->release(entry_);
    }

   private:
    RangeLock* lock_;
    Entries::iterator entry_;
  };

  // auto held = co_await lock.acquire(first, last, RangeLock::Mode::kShared);
  auto acquire(std::uint64_t first, std::uint64_t last, Mode mode) {
    return Awaiter{*this, enter({first, last, mode, false, {}})};
  }

 private:
  struct Awaiter {
    RangeLock& lock;
    Entries::iterator entry;
    TraceWait wait = {};
    bool await_ready() const noexcept { return entry->held; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> waiter) {
      wait.begin(trace_of(waiter));
      entry->waiter = waiter;
    }
    Held await_resume() const {
      wait.end();
      return Held(&lock, entry);
    }
  };
  // Entries are in the order they came; one is held when it conflicts with none before it.
  Entries::iterator enter(Entry entry) {
    entry.held = free_before(entry, entries_.end());
    return entries_.insert(entries_.end(), entry);
  }
  bool free_before(const Entry& entry, Entries::iterator end) {
    for (auto it = entries_.begin(); it != end; ++it) {
      if (it->conflicts(entry)) return false;
    }
    return true;
  }
  void release(Entries::iterator entry) {
    entries_.erase(entry);
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->held || !free_before(*it, it)) continue;
      it->held = true;
      loop_.post([waiter = it->waiter] { waiter.resume(); });
    }
  }

  Loop& loop_;
  Entries entries_;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_RANGE_LOCK_H
