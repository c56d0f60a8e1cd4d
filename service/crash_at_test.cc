#include "service/crash_at.h"

#include <gtest/gtest.h>

#include <csignal>

namespace slice::service {
namespace {

TEST(CrashAtTest, ReadsAPointAndItsCount) {
  auto once = parse_crash_at("truncate.durable");
  ASSERT_TRUE(once);
  EXPECT_EQ(once->point, "truncate.durable");
  EXPECT_EQ(once->count, 1u);
  auto later = parse_crash_at("object.epoch-kept:12");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->point, "object.epoch-kept");
  EXPECT_EQ(later->count, 12u);
}

TEST(CrashAtTest, RefusesWhatIsNeither) {
  for (const char* text :
       {"", ":1", "a.b:", "a.b:0", "a.b:x", "a.b:1:2", "a.b:-1", "A.b", "a b", "a.b:99999999999999999999"}) {
    auto parsed = parse_crash_at(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find("SLICE_CRASH_AT='"), std::string::npos) << parsed.error().message;
  }
}

// Reaches this point; a process that is to die there does not come back.
bool passes(const CrashPoints& points, std::string_view name) {
  return points.reach(name).await_ready();
}

TEST(CrashAtDeathTest, DiesAtTheGivenReachOfThatPointAlone) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        CrashPoints points;
        arm(points, {.point = "a.b", .count = 2});
        bool went_on = passes(points, "a.b") && passes(points, "a.c") && passes(points, "a.c");
        if (!went_on) std::_Exit(1);
        passes(points, "a.b");
      },
      ::testing::KilledBySignal(SIGKILL), "crash point a.b is reached for time 2");
}

}  // namespace
}  // namespace slice::service
