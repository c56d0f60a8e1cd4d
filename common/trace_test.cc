#include "common/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/manual_loop.h"
#include "common/task.h"

namespace slice {
namespace {

using namespace std::chrono_literals;
using Kind = TraceStep::Kind;

Task<int> wait(Loop& loop, Kind kind, const char* what, Duration time) {
  TraceScope step(co_await current_trace(), kind, what);
  co_await loop.sleep(time);
  co_return 1;
}

Task<void> wait_twice(Loop& loop) {
  co_await wait(loop, Kind::kWrite, "a", 2ms);
  co_await loop.sleep(1ms);
  co_await wait(loop, Kind::kSync, "a", 5ms);
}

Task<void> as_operation(Trace& trace, Task<void> task) {
  co_await begin_trace(trace);
  co_await task;
}

class TraceTest : public ::testing::Test {
 protected:
  // The steps of an operation that is this task.
  std::vector<TraceStep> steps_of(Task<void> task) {
    Trace trace(loop_, loop_.now());
    spawn(as_operation(trace, std::move(task)));
    loop_.advance(1s);
    left_off_ = trace.left_off();
    return trace.take_steps();
  }

  ManualLoop loop_;
  std::uint32_t left_off_ = 0;
};

TEST_F(TraceTest, WhatATaskAwaitsIsPartOfItsOperation) {
  auto steps = steps_of(wait_twice(loop_));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].kind, Kind::kWrite);
  EXPECT_EQ(steps[0].took, 2ms);
  EXPECT_EQ(steps[1].kind, Kind::kSync);
  EXPECT_EQ(steps[1].what, "a");
  EXPECT_EQ(steps[1].began, 3ms);
  EXPECT_EQ(steps[1].took, 5ms);
}

TEST_F(TraceTest, NothingIsMeasuredWithoutAnOperation) {
  spawn(wait_twice(loop_));
  loop_.advance(1s);
  EXPECT_TRUE(loop_.idle());
}

TEST_F(TraceTest, WhatRunsAtOnceIsPartOfItToo) {
  auto both = [](Loop& loop) -> Task<void> {
    std::vector<Task<int>> tasks;
    tasks.push_back(wait(loop, Kind::kRead, "a", 3ms));
    tasks.push_back(wait(loop, Kind::kRead, "b", 7ms));
    co_await all(std::move(tasks));
  };
  auto steps = steps_of(both(loop_));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].what, "a");
  EXPECT_EQ(steps[1].began, 0ms);
  EXPECT_EQ(steps[1].took, 7ms);
}

TEST_F(TraceTest, WhatIsSpawnedIsPartOfNone) {
  auto spawner = [](Loop& loop) -> Task<void> {
    spawn(wait_twice(loop));
    co_return;
  };
  EXPECT_TRUE(steps_of(spawner(loop_)).empty());
}

TEST_F(TraceTest, TheSameWithoutAPauseIsOneStep) {
  auto again = [](Loop& loop) -> Task<void> {
    for (int i = 0; i < 3; ++i) co_await wait(loop, Kind::kRead, "a", 1ms);
    co_await wait(loop, Kind::kRead, "b", 1ms);
  };
  auto steps = steps_of(again(loop_));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].took, 3ms);
  EXPECT_EQ(left_off_, 0u);
}

TEST_F(TraceTest, TheShortestAreLeftOffWhereThereIsNoRoom) {
  auto many = [](Loop& loop) -> Task<void> {
    for (std::size_t i = 0; i < 2 * Trace::kMostSteps; ++i) {
      co_await loop.sleep(1ms);
      co_await wait(loop, Kind::kRead, "a", (i == 3 ? 50ms : 1ms + Duration(i)));
    }
  };
  auto steps = steps_of(many(loop_));
  EXPECT_EQ(steps.size(), Trace::kMostSteps);
  EXPECT_EQ(left_off_, Trace::kMostSteps);
  EXPECT_THAT(steps, ::testing::Contains(::testing::Field(&TraceStep::took, Duration(50ms))));
}

}  // namespace
}  // namespace slice
