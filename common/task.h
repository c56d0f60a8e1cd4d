// Task<T>: a lazy coroutine with one awaiter, and the few things protocol code needs around it:
//   spawn(task)      run a Task<void> to its end, detached
//   OneShot<T>       a value set once by a callback and awaited once
//   AsyncMutex       first come, first served, per Loop
//   all(tasks)       run several at once, resume when the last has ended
// A task is part of the operation of whoever awaits it (common/trace.h).
// Everything here belongs to one loop's thread. A Task starts when it is awaited or spawned. Exceptions
// other than bad_alloc are programmer errors here and end the process.
//
// Lambdas that are coroutines must not capture by reference what they outlive, and must be kept alive
// themselves: pass what they need as parameters instead.
#ifndef SLICE_COMMON_TASK_H
#define SLICE_COMMON_TASK_H

#include <cassert>
#include <coroutine>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/trace.h"

namespace slice {

template <class T>
class Task;

namespace task_internal {

struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) noexcept {
    auto waiter = finished.promise().waiter;
    return waiter ? waiter : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> waiter;
  Trace* trace = nullptr;  // of the operation that this is part of; null: nobody watches one
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() noexcept {}
};

}  // namespace task_internal

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = task_internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> waiter) noexcept {
    handle_.promise().waiter = waiter;
    if constexpr (std::is_base_of_v<task_internal::PromiseBase, Promise>) part_of(waiter.promise().trace);
    return handle_;
  }
  // For who spawns what it then waits for.
  void part_of(Trace* trace) noexcept { handle_.promise().trace = trace; }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return std::move(*handle_.promise().value);
  }

 private:
  Handle handle_;
};

namespace task_internal {

template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

struct Detached {
  struct promise_type {
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
  };
};

inline Detached run_detached(Task<void> task) {
  co_await task;
}

}  // namespace task_internal

// Starts `task` now, on the caller's stack up to its first suspension; it frees itself at its end.
inline void spawn(Task<void> task) {
  task_internal::run_detached(std::move(task));
}

// The same; what the task ends with is put into `into`, which lives until then.
template <class T>
void spawn(Task<T> task, std::optional<T>& into) {
  spawn([](Task<T> running, std::optional<T>& value) -> Task<void> {
    value.emplace(co_await std::move(running));
  }(std::move(task), into));
}

// A value that a callback sets once and one coroutine awaits. Copies share the value, so that a timer and an
// answer may both hold one: the first set() wins and the others are ignored. set() resumes the waiter at
// once.
template <class T>
class OneShot {
 public:
  OneShot() : state_(std::make_shared<State>()) {}

  // False where a value was set before.
  bool set(T value) const {
    auto state = state_;
    if (state->value) return false;
    state->value.emplace(std::move(value));
    if (auto waiter = std::exchange(state->waiter, {})) waiter.resume();
    return true;
  }
  bool is_set() const { return state_->value.has_value(); }

  auto operator co_await() const {
    struct Awaiter {
      std::shared_ptr<State> state;
      bool await_ready() const noexcept { return state->value.has_value(); }
      void await_suspend(std::coroutine_handle<> waiter) { state->waiter = waiter; }
      T await_resume() { return std::move(*state->value); }
    };
    return Awaiter{state_};
  }

 private:
  struct State {
    std::optional<T> value;
    std::coroutine_handle<> waiter;
  };
  std::shared_ptr<State> state_;
};

// Mutual exclusion between coroutines of one loop. Waiters are resumed through the loop, in order.
//   auto lock = co_await mutex.lock();
class AsyncMutex {
 public:
  explicit AsyncMutex(Loop& loop) : loop_(loop) {}
  AsyncMutex(const AsyncMutex&) = delete;
  AsyncMutex& operator=(const AsyncMutex&) = delete;

  class [[nodiscard]] Lock {
   public:
    explicit Lock(AsyncMutex* mutex) : mutex_(mutex) {}
    Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Lock& operator=(Lock&& other) noexcept {
      std::swap(mutex_, other.mutex_);
      return *this;
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      if (mutex_ != nullptr) mutex_->unlock();
    }

   private:
    AsyncMutex* mutex_;
  };

  auto lock() { return Awaiter{*this}; }
  bool idle() const { return !locked_ && waiters_.empty(); }

 private:
  struct Awaiter {
    AsyncMutex& mutex;
    TraceWait wait = {};
    bool await_ready() const noexcept {
      if (mutex.locked_) return false;
      mutex.locked_ = true;
      return true;
    }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> waiter) {
      wait.begin(trace_of(waiter));
      mutex.waiters_.push_back(waiter);
    }
    Lock await_resume() {
      wait.end();
      return Lock(&mutex);
    }
  };
  void unlock() {
    if (waiters_.empty()) {
      locked_ = false;
      return;
    }
    auto next = waiters_.front();  // stays locked: the lock passes on
    waiters_.pop_front();
    loop_.post([next] { next.resume(); });
  }

  Loop& loop_;
  bool locked_ = false;
  std::deque<std::coroutine_handle<>> waiters_;
};

namespace task_internal {

template <class T>
Task<void> collect(Task<T> task, std::optional<T>& slot, std::size_t& left, OneShot<bool> done) {
  slot.emplace(co_await task);
  if (--left == 0) done.set(true);
}

}  // namespace task_internal

// Runs all tasks at once; their results in the same order, when the last has ended.
template <class T>
Task<std::vector<T>> all(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> slots(tasks.size());
  std::size_t left = tasks.size();
  OneShot<bool> done;
  if (tasks.empty()) done.set(true);
  Trace* const trace = co_await current_trace();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Task<void> one = task_internal::collect(std::move(tasks[i]), slots[i], left, done);
    one.part_of(trace);
    spawn(std::move(one));
  }
  co_await done;
  std::vector<T> results;
  results.reserve(slots.size());
  for (auto& slot : slots) results.push_back(std::move(*slot));
  co_return results;
}

}  // namespace slice

#endif  // SLICE_COMMON_TASK_H
