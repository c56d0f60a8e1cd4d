// EpollLoop: the real Loop. run() serves file descriptors, timers and posted actions until stop().
#ifndef SLICE_RPC_EPOLL_LOOP_H
#define SLICE_RPC_EPOLL_LOOP_H

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/loop.h"
#include "common/task.h"

namespace slice::rpc {

class EpollLoop : public Loop {
 public:
  EpollLoop();
  ~EpollLoop() override;

  MonoTime now() const override;  // cached once a round
  MonoTime now_exactly() const override;
  WallTime wall() const override;
  void post(std::function<void()> action) override;
  void post_from_any_thread(std::function<void()> action) override;
  // What is 100 ms away or more comes at the next multiple of 50 ms: what the many servers of a process do
  // now and then wakes it together.
  TimerId at(MonoTime when, std::function<void()> action) override;
  void cancel(TimerId timer) override;
  void watch_readable(int fd, std::function<void()> ready) override;
  void unwatch_readable(int fd) override { unwatch(fd); }

  // Calls `ready(events)` with EPOLL* bits whenever fd has some of `events`, until unwatch(). The handler may
  // unwatch and close any descriptor, its own included.
  void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  void change(int fd, std::uint32_t events);
  void unwatch(int fd);

  [[nodiscard]] RoundEnd at_round_end(std::function<void()> action) override;

  // Before it sleeps the loop looks for so long whether something comes, as long as something mostly does:
  // sleeping and being woken costs more than a few looks. 0: it sleeps at once, as it does by itself.
  void spin(Duration at_most);

  void run();
  void stop();  // from any thread or a handler; the loop has to live until it returns
  // Runs until `done` answers true, or `limit` has passed (then false). For tests.
  bool run_until(const std::function<bool()>& done, Duration limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs the loop until the task has ended: for programs that ask one question after the other.
template <class T>
T run_to_end(EpollLoop& loop, Task<T> task) {
  std::optional<T> value;
  spawn([](Task<T> running, std::optional<T>& into, EpollLoop& of) -> Task<void> {
    into.emplace(co_await std::move(running));
    of.stop();
  }(std::move(task), value, loop));
  while (!value) loop.run();
  return std::move(*value);
}

}  // namespace slice::rpc

#endif  // SLICE_RPC_EPOLL_LOOP_H
