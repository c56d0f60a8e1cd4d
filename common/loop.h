// Loop: the event loop that everything of one "thread of protocol" runs on, and its clock. The real one is
// rpc::EpollLoop; a simulated one runs a whole ensemble on simulated time. All methods are to be called on
// the loop's own thread, except post_from_any_thread().
#ifndef SLICE_COMMON_LOOP_H
#define SLICE_COMMON_LOOP_H

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>

namespace slice {

using Duration = std::chrono::nanoseconds;

// Monotonic time: for intervals and time-outs; its zero means nothing.
struct MonoClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonoClock>;
  static constexpr bool is_steady = true;
};
using MonoTime = MonoClock::time_point;

// Whole ones, as messages and log lines have them.
constexpr std::uint64_t in_milliseconds(Duration time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

// Wall-clock time as files carry it: nanoseconds since 1970-01-01 UTC.
struct WallTime {
  std::int64_t ns = 0;
  constexpr auto operator<=>(const WallTime&) const = default;
};

enum class TimerId : std::uint64_t { kNone = 0 };

class Loop {
 public:
  Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  virtual ~Loop() = default;

  virtual MonoTime now() const = 0;
  // The same, but not of the beginning of a round: for measuring, since it may cost a look at the clock.
  virtual MonoTime now_exactly() const { return now(); }
  virtual WallTime wall() const = 0;

  // Runs `action` once, soon, not from inside this call; in the order posted.
  virtual void post(std::function<void()> action) = 0;
  // The same from another thread.
  virtual void post_from_any_thread(std::function<void()> action) = 0;

  // Runs `action` once at or after `when`, unless cancelled before.
  virtual TimerId at(MonoTime when, std::function<void()> action) = 0;
  TimerId after(Duration delay, std::function<void()> action) { return at(now() + delay, std::move(action)); }
  // No effect on a timer that has run or was cancelled.
  virtual void cancel(TimerId timer) = 0;

  // Calls `ready` on the loop's thread whenever `fd` can be read, until unwatch_readable(), which has to come
  // before the descriptor is closed.
  virtual void watch_readable(int fd, std::function<void()> ready) = 0;
  virtual void unwatch_readable(int fd) = 0;

  // Work for the end of a round of the loop: where replies of a round are flushed. Only where it is wanted: a
  // process has many servers, and most rounds are one server's.
  class RoundEnd {
   public:
    class Hook {
     public:
      virtual ~Hook() = default;
      virtual void want() = 0;
    };
    RoundEnd() = default;  // of no action: not to be wanted
    explicit RoundEnd(Hook& hook) : hook_(&hook) {}
    // The action runs at the end of this round; where the action itself wants it, of the next one.
    void want() { hook_->want(); }

   private:
    Hook* hook_ = nullptr;
  };
  // Actions live as long as the loop: what they use must outlive it, or be checked by them.
  [[nodiscard]] virtual RoundEnd at_round_end(std::function<void()> action) = 0;

  // co_await loop.sleep(100ms)
  auto sleep(Duration delay) {
    struct Awaiter {
      Loop& loop;
      Duration delay;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        loop.after(delay, [waiter] { waiter.resume(); });
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this, delay};
  }
};

}  // namespace slice

#endif  // SLICE_COMMON_LOOP_H
