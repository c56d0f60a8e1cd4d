#include "service/site_gate.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/manual_loop.h"
#include "common/trace.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;

class SiteGateTest : public ::testing::Test {
 protected:
  // Whether what waited has ended with this.
  static Task<void> note(Task<bool> task, std::optional<bool>& out) { out = co_await std::move(task); }
  void start(Task<bool> task, std::optional<bool>& out) { spawn(note(std::move(task), out)); }

  ManualLoop loop_;
  SiteGate gate_{loop_};
};

TEST_F(SiteGateTest, WhoCameBeforeIsWaitedForAndWhoComesAfterIsNot) {
  std::optional<SiteGate::Pass> before(std::in_place, gate_, 3);
  std::optional<bool> drained;
  start(gate_.drained({3}, 2s), drained);
  std::optional<SiteGate::Pass> after(std::in_place, gate_, 3);
  loop_.advance(1s);
  EXPECT_FALSE(drained);
  before.reset();
  loop_.advance(1ms);
  EXPECT_EQ(drained, true);
}

TEST_F(SiteGateTest, NobodyIsWaitedForLongerThanThePatience) {
  SiteGate::Pass stays(gate_, 3);
  std::optional<bool> first, second;
  start(gate_.drained({3}, 2s), first);
  loop_.advance(1s);
  start(gate_.drained({3}, 2s), second);
  loop_.advance(1100ms);
  EXPECT_EQ(first, false);
  EXPECT_FALSE(second);
  loop_.advance(1s);
  EXPECT_EQ(second, false);
}

TEST_F(SiteGateTest, WithoutAnybodyItIsDrainedAtOnce) {
  for (int i = 0; i < 3; ++i) {
    std::optional<bool> drained;
    start(gate_.drained({3}, 2s), drained);
    EXPECT_EQ(drained, true);
    SiteGate::Pass pass(gate_, 3);
  }
}

TEST_F(SiteGateTest, RequestsOfOtherSitesAreNotWaitedFor) {
  SiteGate::Pass other(gate_, 4);
  std::optional<bool> drained;
  start(gate_.drained({3, 5}, 2s), drained);
  EXPECT_EQ(drained, true);
}

// Who waits for something leaves off when its site is held; what it has begun goes on by itself.
TEST_F(SiteGateTest, WhoWouldWaitLongLeavesOffWhenTheSiteIsHeld) {
  OneShot<bool> first, second;
  auto call = [](OneShot<bool> of) -> Task<bool> { co_return co_await of; };
  std::optional<std::optional<bool>> stopped, waits, after;
  auto tell = [](Task<std::optional<bool>> task, std::optional<std::optional<bool>>& out) -> Task<void> {
    out = co_await std::move(task);
  };
  std::optional<bool> paused, rests;
  spawn(tell(gate_.unless_held(3, call(first)), stopped));
  spawn(tell(gate_.unless_held(4, call(second)), waits));
  start(gate_.pause(3, 10s), paused);
  start(gate_.pause(4, 1s), rests);
  loop_.advance(100ms);
  EXPECT_FALSE(stopped || waits || paused || rests);
  gate_.hold({3});
  loop_.advance(1ms);
  EXPECT_TRUE(stopped && !*stopped);
  EXPECT_EQ(paused, false);
  EXPECT_FALSE(waits);
  spawn(tell(gate_.unless_held(3, call(first)), after));
  EXPECT_TRUE(after && !*after) << "it is not begun";
  loop_.advance(1s);
  EXPECT_EQ(rests, true);
  first.set(true);
  second.set(true);
  EXPECT_TRUE(waits && *waits == true);
}

TEST_F(SiteGateTest, AHeldSiteIsWaitedForAndOthersAreNot) {
  gate_.hold({3, 4});
  EXPECT_TRUE(gate_.holds(3) && gate_.holds(4) && !gate_.holds(5));
  std::optional<bool> released;
  start(gate_.released(4), released);
  loop_.advance(1s);
  gate_.release({3});
  loop_.advance(1ms);
  EXPECT_FALSE(released);
  gate_.release({4});
  loop_.advance(1ms);
  EXPECT_EQ(released, true);
  gate_.hold({4});
  std::optional<bool> never;
  start(gate_.released(4), never);
  loop_.advance(9s);
  EXPECT_EQ(never, false);
}

// What goes on by itself is a part of the operation as long as somebody waits for it, and harms none later.
TEST_F(SiteGateTest, WhatIsWaitedForIsPartOfTheOperation) {
  auto slow = [](Loop& loop) -> Task<bool> {
    TraceScope step(co_await current_trace(), TraceStep::Kind::kSync, "a");
    co_await loop.sleep(1s);
    co_return true;
  };
  auto operation = [](SiteGate& gate, Trace& trace, Task<bool> task, bool& ended) -> Task<void> {
    co_await begin_trace(trace);
    (void)co_await gate.unless_held(3, std::move(task));
    ended = true;
  };
  bool ended = false;
  auto trace = std::make_shared<Trace>(loop_, loop_.now());
  spawn(operation(gate_, *trace, slow(loop_), ended));
  loop_.advance(2s);
  EXPECT_TRUE(ended);
  ASSERT_EQ(trace->steps().size(), 1u);
  EXPECT_EQ(trace->steps()[0].took, 1s);

  ended = false;
  trace = std::make_shared<Trace>(loop_, loop_.now());
  spawn(operation(gate_, *trace, slow(loop_), ended));
  gate_.hold({3});
  loop_.advance(10ms);
  EXPECT_TRUE(ended);
  std::weak_ptr<Trace> left = trace;
  trace.reset();
  EXPECT_FALSE(left.expired());  // the task that was left has it
  loop_.advance(2s);
  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace slice::service
