#include "rpc/epoll_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace slice::rpc {
namespace {

constexpr int kEventsARound = 128;
constexpr Duration kFarAway = std::chrono::milliseconds(100), kStep = std::chrono::milliseconds(50);

std::int64_t read_clock(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
MonoTime mono_now() {
  return MonoTime(Duration(read_clock(CLOCK_MONOTONIC)));
}

MonoTime next_step(MonoTime when) {
  const Duration over = when.time_since_epoch() % kStep;
  return over == Duration(0) || when > MonoTime::max() - kStep ? when : when + (kStep - over);
}

struct Watch {
  std::uint32_t generation = 0;
  std::function<void(std::uint32_t)> ready;
};

class Hook : public Loop::RoundEnd::Hook {
 public:
  // `wanted`: those of this round.
  Hook(std::function<void()> action, std::vector<Hook*>& wanted)
      : action_(std::move(action)), wanted_(wanted) {}
  void want() override {
    if (state_ == State::kRunning) state_ = State::kWantedAgain;
    if (state_ != State::kIdle) return;
    state_ = State::kWanted;
    wanted_.push_back(this);
  }
  // Whether the action wants to run in the next round, too.
  bool run() {
    state_ = State::kRunning;
    action_();
    const bool again = state_ == State::kWantedAgain;
    state_ = again ? State::kWanted : State::kIdle;
    return again;
  }

 private:
  enum class State { kIdle, kWanted, kRunning, kWantedAgain };
  std::function<void()> action_;
  std::vector<Hook*>& wanted_;
  State state_ = State::kIdle;
};

}  // namespace

namespace {

// Whether to look again before sleeping. By what came of it lately: a look that finds nothing costs what it
// takes, and where that is the rule it is tried now and then alone.
class Spinning {
 public:
  void set(Duration at_most) { at_most_ = at_most; }
  bool pays() {
    if (at_most_ == Duration(0)) return false;
    return credit_ > 0 || ++slept_ % kTryEvery == 0;
  }
  Duration at_most() const { return at_most_; }
  void came(bool something) { credit_ = std::clamp(credit_ + (something ? 1 : -1), 0, kMostCredit); }

 private:
  static constexpr int kMostCredit = 16;
  static constexpr unsigned kTryEvery = 32;  // sleeps
  Duration at_most_{0};
  int credit_ = 0;
  unsigned slept_ = 0;
};

}  // namespace

class EpollLoop::Impl {
 public:
  Impl() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (epoll_ < 0 || wake_ < 0) {
      std::perror("epoll_create1 or eventfd");
      std::abort();
    }
    watch(wake_, EPOLLIN, [this](std::uint32_t) { take_foreign(); });
  }
  ~Impl() {
    ::close(epoll_);
    ::close(wake_);
  }

  void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready) {
    auto index = static_cast<std::size_t>(fd);
    if (watches_.size() <= index) watches_.resize(index + 1);
    retire(std::move(watches_[index]));
    watches_[index] = std::make_unique<Watch>(Watch{++generation_, std::move(ready)});
    control(EPOLL_CTL_ADD, fd, events, generation_);
  }
  void change(int fd, std::uint32_t events) {
    auto& watch = watches_.at(static_cast<std::size_t>(fd));
    if (watch) control(EPOLL_CTL_MOD, fd, events, watch->generation);
  }
  void unwatch(int fd) {
    auto index = static_cast<std::size_t>(fd);
    if (index >= watches_.size() || !watches_[index]) return;
    retire(std::move(watches_[index]));
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  }

  TimerId at(MonoTime when, std::function<void()> action) {
    if (when - now_ >= kFarAway) when = next_step(when);
    std::uint64_t id = next_timer_++;
    auto place = timers_.emplace(std::pair(when, id), std::move(action)).first;
    timer_places_.emplace(id, place);
    return TimerId{id};
  }
  void cancel(TimerId timer) {
    auto found = timer_places_.find(static_cast<std::uint64_t>(timer));
    if (found == timer_places_.end()) return;
    timers_.erase(found->second);
    timer_places_.erase(found);
  }

  void wake() {
    std::uint64_t one = 1;
    [[maybe_unused]] ssize_t n = ::write(wake_, &one, sizeof one);
  }
  void post_foreign(std::function<void()> action) {
    {
      std::lock_guard lock(mutex_);
      foreign_.push_back(std::move(action));
    }
    wake();
  }

  // A round is work(), then wait_and_serve(): what was begun outside of the loop leaves before the first
  // wait.
  void work() {
    run_due();
    running_.swap(posted_);
    for (auto& action : running_) action();
    running_.clear();
    run_round_end();
    retired_.clear();
  }

  RoundEnd at_round_end(std::function<void()> action) {
    return RoundEnd(hooks_.emplace_back(std::move(action), wanted_));
  }

  void wait_and_serve(MonoTime limit) {
    epoll_event events[kEventsARound];
    Duration wait = time_to_wait(limit);
    int n = 0;
    if (wait > Duration(0) && spinning_.pays()) {
      n = look(events, std::min(wait, spinning_.at_most()));
      wait = time_to_wait(limit);
    }
    if (n == 0) n = wait_for(events, wait);
    now_ = mono_now();
    for (int i = 0; i < n; ++i) {
      auto fd = static_cast<std::uint32_t>(events[i].data.u64);
      auto generation = static_cast<std::uint32_t>(events[i].data.u64 >> 32);
      // Unwatched, or closed and opened anew, by a handler before in this round?
      if (fd >= watches_.size() || !watches_[fd] || watches_[fd]->generation != generation) continue;
      watches_[fd]->ready(events[i].events);
    }
  }

  MonoTime now_ = mono_now();
  Spinning spinning_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> stop_{false};

 private:
  void control(int operation, int fd, std::uint32_t events, std::uint32_t generation) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = std::uint64_t{generation} << 32 | static_cast<std::uint32_t>(fd);
    if (::epoll_ctl(epoll_, operation, fd, &event) != 0) {
      std::perror("epoll_ctl");
      std::abort();
    }
  }

  using Events = epoll_event[kEventsARound];
  // How many there are.
  int wait_for(Events& events, Duration wait) {
    timespec time{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    int n = ::epoll_pwait2(epoll_, events, kEventsARound, &time, nullptr);
    if (n < 0 && errno != EINTR) {
      std::perror("epoll_pwait2");
      std::abort();
    }
    return std::max(n, 0);
  }
  // The same without sleeping, until there are some or the time is over.
  int look(Events& events, Duration time) {
    const MonoTime end = mono_now() + time;
    int n = 0;
    do {
      n = wait_for(events, Duration(0));
    } while (n == 0 && mono_now() < end);
    spinning_.came(n > 0);
    return n;
  }

  // A handler may unwatch itself: its function lives until the round ends.
  void retire(std::unique_ptr<Watch> watch) {
    if (watch) retired_.push_back(std::move(watch));
  }

  void take_foreign() {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t n = ::read(wake_, &count, sizeof count);
    std::vector<std::function<void()>> actions;
    {
      std::lock_guard lock(mutex_);
      actions.swap(foreign_);
    }
    for (auto& action : actions) posted_.push_back(std::move(action));
  }

  Duration time_to_wait(MonoTime limit) const {
    if (!posted_.empty() || stop_) return Duration(0);
    MonoTime until = limit;
    if (!timers_.empty()) until = std::min(until, timers_.begin()->first.first);
    return std::max(Duration(0), until - mono_now());
  }

  // Timers that these set wait for the next round, whatever their time: one that sets itself again and again
  // must not keep events waiting.
  void run_due() {
    const std::uint64_t end = next_timer_;
    while (!timers_.empty() && timers_.begin()->first.first <= now_) {
      auto first = timers_.begin();
      if (first->first.second >= end) break;
      std::function<void()> action = std::move(first->second);
      timer_places_.erase(first->first.second);
      timers_.erase(first);
      action();
    }
  }

  void run_round_end() {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {  // some want others
      Hook* hook = wanted_[i];
      if (hook->run()) wanted_next_.push_back(hook);
    }
    wanted_.clear();
    wanted_.swap(wanted_next_);
  }

  std::deque<Hook> hooks_;  // which others point to
  std::vector<Hook*> wanted_, wanted_next_;

  using Timers = std::map<std::pair<MonoTime, std::uint64_t>, std::function<void()>>;
  std::vector<std::function<void()>> running_;
  int epoll_;
  int wake_;
  std::uint32_t generation_ = 0;
  std::vector<std::unique_ptr<Watch>> watches_;  // by descriptor
  std::vector<std::unique_ptr<Watch>> retired_;
  std::uint64_t next_timer_ = 1;
  Timers timers_;
  std::unordered_map<std::uint64_t, Timers::iterator> timer_places_;
  std::mutex mutex_;  // guards foreign_
  std::vector<std::function<void()>> foreign_;
};

EpollLoop::EpollLoop() : impl_(std::make_unique<Impl>()) {}
EpollLoop::~EpollLoop() = default;

MonoTime EpollLoop::now() const {
  return impl_->now_;
}
MonoTime EpollLoop::now_exactly() const {
  return mono_now();
}
WallTime EpollLoop::wall() const {
  return {read_clock(CLOCK_REALTIME)};
}
void EpollLoop::post(std::function<void()> action) {
  impl_->posted_.push_back(std::move(action));
}
void EpollLoop::post_from_any_thread(std::function<void()> action) {
  impl_->post_foreign(std::move(action));
}
TimerId EpollLoop::at(MonoTime when, std::function<void()> action) {
  return impl_->at(when, std::move(action));
}
void EpollLoop::cancel(TimerId timer) {
  impl_->cancel(timer);
}
void EpollLoop::watch_readable(int fd, std::function<void()> ready) {
  impl_->watch(fd, EPOLLIN, [ready = std::move(ready)](std::uint32_t) { ready(); });
}
void EpollLoop::watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready) {
  impl_->watch(fd, events, std::move(ready));
}
void EpollLoop::change(int fd, std::uint32_t events) {
  impl_->change(fd, events);
}
void EpollLoop::unwatch(int fd) {
  impl_->unwatch(fd);
}
Loop::RoundEnd EpollLoop::at_round_end(std::function<void()> action) {
  return impl_->at_round_end(std::move(action));
}

void EpollLoop::spin(Duration at_most) {
  impl_->spinning_.set(at_most);
}

void EpollLoop::run() {
  while (!impl_->stop_) {
    impl_->work();
    impl_->wait_and_serve(mono_now() + std::chrono::hours(1));
  }
  impl_->work();
  impl_->stop_ = false;
}

void EpollLoop::stop() {
  impl_->stop_ = true;
  impl_->wake();
}

bool EpollLoop::run_until(const std::function<bool()>& done, Duration limit) {
  impl_->now_ = mono_now();
  MonoTime end = impl_->now_ + limit;
  while (true) {
    impl_->work();
    if (done()) return true;
    if (impl_->now_ >= end) return false;
    impl_->wait_and_serve(end);
  }
}

}  // namespace slice::rpc
