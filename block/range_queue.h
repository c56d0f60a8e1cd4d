// RangeQueue: who wants to change a range waits for all who came before and want some of it, and goes before
// all who come later. One loop.
//   auto held = co_await queue.acquire(offset, length);
#ifndef SLICE_BLOCK_RANGE_QUEUE_H
#define SLICE_BLOCK_RANGE_QUEUE_H

#include <cstdint>
#include <list>
#include <utility>

#include "common/loop.h"
#include "common/task.h"

namespace slice::block {

class RangeQueue {
  struct Place {
    std::uint64_t begin = 0, end = 0;
    bool holds = false;
    OneShot<bool> turn;
  };
  using Places = std::list<Place>;

 public:
  class [[nodiscard]] Held {
   public:
    Held(Held&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)), place_(other.place_) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (queue_ != nullptr) queue_->leave(place_);
    }

   private:
    friend class RangeQueue;
    Held(RangeQueue& queue, Places::iterator place) : queue_(&queue), place_(place) {}
    RangeQueue* queue_;
    Places::iterator place_;
  };

  // Outlives whoever waits and holds.
  explicit RangeQueue(Loop& loop) : loop_(loop) {}
  RangeQueue(const RangeQueue&) = delete;
  RangeQueue& operator=(const RangeQueue&) = delete;

  Task<Held> acquire(std::uint64_t offset, std::uint64_t length) {
    places_.push_back({.begin = offset, .end = offset + length, .holds = false, .turn = {}});
    const auto place = std::prev(places_.end());
    place->holds = is_first(place);
    if (!place->holds) co_await OneShot<bool>(place->turn);
    co_return Held(*this, place);
  }
  bool empty() const { return places_.empty(); }

 private:
  // There are as many as a client's requests under way: tens.
  bool is_first(Places::iterator place) {
    for (auto each = places_.begin(); each != place; ++each) {
      if (each->begin < place->end && place->begin < each->end) return false;
    }
    return true;
  }
  void leave(Places::iterator place) {
    auto next = places_.erase(place);
    for (; next != places_.end(); ++next) {
      if (next->holds || !is_first(next)) continue;
      next->holds = true;
      loop_.post([turn = next->turn] { turn.set(true); });
    }
  }

  Loop& loop_;
  Places places_;  // in the order that they came
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_RANGE_QUEUE_H
