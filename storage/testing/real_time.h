// run_in_real_time(): for stores and disks with threads of their own, on a loop whose time a test makes.
#ifndef SLICE_STORAGE_TESTING_REAL_TIME_H
#define SLICE_STORAGE_TESTING_REAL_TIME_H

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "common/manual_loop.h"
#include "common/task.h"

namespace slice {

// Advances the loop, a millisecond in each tenth of one, until `done`; false after half a minute.
template <class Done>
bool run_in_real_time(ManualLoop& loop, const Done& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done() && std::chrono::steady_clock::now() < limit) {
    loop.advance(std::chrono::milliseconds(1));
    if (!done()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return done();
}

// The same until the task has ended, which it has to.
template <class T>
T end_in_real_time(ManualLoop& loop, Task<T> task) {
  std::optional<T> ended;
  spawn(std::move(task), ended);
  EXPECT_TRUE(run_in_real_time(loop, [&] { return ended.has_value(); })) << "it does not end";
  return std::move(*ended);
}

}  // namespace slice

#endif  // SLICE_STORAGE_TESTING_REAL_TIME_H
