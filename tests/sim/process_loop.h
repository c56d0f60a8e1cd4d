// ProcessLoop: the shared simulated loop as one process has it. When the process dies nothing that it posted
// or set a timer for ever runs: its coroutines stop where they are. What they hold is kept, as the memory of
// a killed process would be of no concern to anybody. A process that is stopped (SIGSTOP) has it all run when
// it goes on.
#ifndef SLICE_TESTS_SIM_PROCESS_LOOP_H
#define SLICE_TESTS_SIM_PROCESS_LOOP_H

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/loop.h"

namespace slice::sim {

class ProcessLoop : public Loop {
 public:
  explicit ProcessLoop(Loop& shared) : shared_(shared), life_(std::make_shared<Life>()) {}
  void die() {
    life_->alive = false;
    kept().push_back(life_);
  }
  bool alive() const { return life_->alive; }
  // Does nothing for so long; not while it is stopped already. As if it had been stopped in the midst of a
  // round, what it does first when it goes on has now() from before.
  void stop_for(Duration time) {
    life_->stopped_at = shared_.now();
    shared_.after(time, [life = life_] { life->go_on(); });
  }
  bool stopped() const { return life_->stopped_at.has_value(); }
  // Its host's wall clock is so much ahead of the others', from now on.
  void set_wall_ahead(Duration ahead) { ahead_ = ahead; }

  MonoTime now() const override { return life_->stopped_at.value_or(shared_.now()); }
  MonoTime now_exactly() const override { return shared_.now(); }
  WallTime wall() const override { return {shared_.wall().ns + ahead_.count()}; }
  void post(std::function<void()> action) override { shared_.post(mortal(std::move(action))); }
  void post_from_any_thread(std::function<void()> action) override { post(std::move(action)); }
  TimerId at(MonoTime when, std::function<void()> action) override {
    return shared_.at(std::max(when, shared_.now()), mortal(std::move(action)));
  }
  void cancel(TimerId timer) override { shared_.cancel(timer); }
  void watch_readable(int fd, std::function<void()> ready) override {
    shared_.watch_readable(fd, mortal(std::move(ready)));
  }
  void unwatch_readable(int fd) override { shared_.unwatch_readable(fd); }
  [[nodiscard]] RoundEnd at_round_end(std::function<void()> action) override {
    return shared_.at_round_end(mortal(std::move(action)));
  }

 private:
  struct Life {
    bool alive = true;
    std::optional<MonoTime> stopped_at;
    std::vector<std::function<void()>> late;   // came while it was stopped
    std::vector<std::function<void()>> never;  // came when it was dead

    void run(const std::function<void()>& action) {
      if (alive) {
        action();
      } else {
        never.push_back(action);
      }
    }
    void go_on() {
      for (const auto& action : std::exchange(late, {})) {
        run(action);
        stopped_at.reset();
      }
      stopped_at.reset();
    }
  };
  // Until the program ends, so that what a dead process held is not taken for a leak.
  static std::vector<std::shared_ptr<Life>>& kept() {
    static auto* lives = new std::vector<std::shared_ptr<Life>>();
    return *lives;
  }
  std::function<void()> mortal(std::function<void()> action) {
    return [life = life_, action = std::move(action)] {
      if (life->stopped_at) {
        life->late.push_back(action);
      } else {
        life->run(action);
      }
    };
  }

  Loop& shared_;
  std::shared_ptr<Life> life_;
  Duration ahead_{0};
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_PROCESS_LOOP_H
