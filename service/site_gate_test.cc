#include "service/site_gate.h"

#include <gtest/gtest.h>

#include "common/manual_loop.h"

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

}  // namespace
}  // namespace slice::service
