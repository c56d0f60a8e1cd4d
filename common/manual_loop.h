// ManualLoop: a Loop on simulated time, for tests of protocol logic. Nothing happens unless one of the run
// methods is called, and then always in the same order: by time, and in the order posted at one time.
#ifndef SLICE_COMMON_MANUAL_LOOP_H
#define SLICE_COMMON_MANUAL_LOOP_H

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "common/loop.h"

namespace slice {

class ManualLoop : public Loop {
 public:
  // `wall` is the wall clock at the start; both clocks advance together.
  explicit ManualLoop(WallTime wall = {1'700'000'000'000'000'000}) : wall_at_start_(wall) {}

  MonoTime now() const override { return now_; }
  WallTime wall() const override { return {wall_at_start_.ns + now_.time_since_epoch().count()}; }
  void post(std::function<void()> action) override;
  void post_from_any_thread(std::function<void()> action) override;
  TimerId at(MonoTime when, std::function<void()> action) override;
  void cancel(TimerId timer) override;
  void watch_readable(int fd, std::function<void()> ready) override;
  void unwatch_readable(int fd) override;
  // A round ends when all that was posted before has run.
  [[nodiscard]] RoundEnd at_round_end(std::function<void()> action) override;

  // Runs what is posted and due now, and what that posts, until nothing is left to do at this time.
  void run_ready();
  // Lets `time` pass: every timer in it runs at its own time.
  void advance(Duration time);
  // Runs, jumping from timer to timer, until `done` answers true; false where `limit` passed or nothing is
  // left that could ever happen.
  bool run_until(const std::function<bool()>& done, Duration limit = std::chrono::hours(1));
  // Nothing is posted and no timer waits.
  bool idle() const;

 private:
  class Hook;
  bool run_one();
  bool serve_readable();
  bool step_to_next_timer(MonoTime limit);

  WallTime wall_at_start_;
  MonoTime now_{};
  std::uint64_t next_timer_ = 1;
  std::map<std::pair<MonoTime, std::uint64_t>, std::function<void()>> timers_;
  std::map<std::uint64_t, MonoTime> timer_times_;
  std::map<int, std::function<void()>>
      readable_;              // what is real is looked at when nothing else is to be done
  mutable std::mutex mutex_;  // guards posted_
  std::deque<std::function<void()>> posted_;
  std::deque<std::unique_ptr<RoundEnd::Hook>> hooks_;
};

}  // namespace slice

#endif  // SLICE_COMMON_MANUAL_LOOP_H
