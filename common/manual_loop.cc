#include "common/manual_loop.h"

#include <poll.h>

#include <algorithm>

namespace slice {

void ManualLoop::post(std::function<void()> action) {
  post_from_any_thread(std::move(action));
}

void ManualLoop::post_from_any_thread(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  posted_.push_back(std::move(action));
}

TimerId ManualLoop::at(MonoTime when, std::function<void()> action) {
  std::uint64_t id = next_timer_++;
  when = std::max(when, now_);
  timers_.emplace(std::pair(when, id), std::move(action));
  timer_times_.emplace(id, when);
  return TimerId{id};
}

void ManualLoop::cancel(TimerId timer) {
  auto id = static_cast<std::uint64_t>(timer);
  auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

void ManualLoop::watch_readable(int fd, std::function<void()> ready) {
  readable_[fd] = std::move(ready);
}

void ManualLoop::unwatch_readable(int fd) {
  readable_.erase(fd);
}

class ManualLoop::Hook : public RoundEnd::Hook {
 public:
  Hook(ManualLoop& loop, std::function<void()> action) : loop_(loop), action_(std::move(action)) {}
  void want() override {
    if (std::exchange(wanted_, true)) return;
    loop_.post([this] {
      wanted_ = false;
      action_();
    });
  }

 private:
  ManualLoop& loop_;
  std::function<void()> action_;
  bool wanted_ = false;
};

Loop::RoundEnd ManualLoop::at_round_end(std::function<void()> action) {
  return RoundEnd(*hooks_.emplace_back(std::make_unique<Hook>(*this, std::move(action))));
}

bool ManualLoop::serve_readable() {
  for (const auto& [fd, ready] : readable_) {
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0) continue;
    auto action = ready;  // which may unwatch it
    action();
    return true;
  }
  return false;
}

bool ManualLoop::run_one() {
  std::function<void()> action;
  {
    std::lock_guard lock(mutex_);
    if (!posted_.empty()) {
      action = std::move(posted_.front());
      posted_.pop_front();
    }
  }
  if (!action) {
    if (timers_.empty() || timers_.begin()->first.first > now_) return serve_readable();
    auto first = timers_.begin();
    action = std::move(first->second);
    timer_times_.erase(first->first.second);
    timers_.erase(first);
  }
  action();
  return true;
}

void ManualLoop::run_ready() {
  while (run_one()) {
  }
}

bool ManualLoop::step_to_next_timer(MonoTime limit) {
  if (timers_.empty() || timers_.begin()->first.first > limit) return false;
  now_ = timers_.begin()->first.first;
  return true;
}

void ManualLoop::advance(Duration time) {
  MonoTime end = now_ + time;
  do {
    run_ready();
  } while (step_to_next_timer(end));
  now_ = end;
}

bool ManualLoop::run_until(const std::function<bool()>& done, Duration limit) {
  MonoTime end = now_ + limit;
  while (!done()) {
    if (run_one()) continue;
    if (!step_to_next_timer(end)) return false;
  }
  return true;
}

bool ManualLoop::idle() const {
  std::lock_guard lock(mutex_);
  return posted_.empty() && timers_.empty();
}

}  // namespace slice
