// Workers: a few threads for system calls that block. The only threads beside the loops.
#ifndef SLICE_STORAGE_WORKERS_H
#define SLICE_STORAGE_WORKERS_H

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/loop.h"

namespace slice::storage {

class Workers {
 public:
  Workers(Loop& loop, unsigned threads);
  // Runs what was handed over to its end, then joins. Nobody may await run() any more.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // auto result = co_await workers.run([=] { return ::fsync(fd); });
  // Runs `call` on a worker and resumes on the loop with what it returned.
  template <class Call>
  auto run(Call call) {
    using Value = std::invoke_result_t<Call>;
    struct Awaiter {
      Workers& workers;
      Call call;
      std::optional<Value> value;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        workers.start([this, waiter] {
          value.emplace(call());
          workers.loop_.post_from_any_thread([waiter] { waiter.resume(); });
        });
      }
      Value await_resume() { return std::move(*value); }
    };
    return Awaiter{*this, std::move(call), std::nullopt};
  }

  // The same without waiting for its end.
  void start(std::function<void()> call);

 private:
  void work();

  Loop& loop_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> calls_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_WORKERS_H
