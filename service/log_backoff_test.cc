#include "service/log_backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace slice::service {
namespace {

using namespace std::chrono_literals;

TEST(LogBackoff, IsRarerAndRarerUntilItIsOver) {
  LogBackoff log;
  const MonoTime start{100s};
  std::vector<int> at;
  for (int second = 0; second <= 3600; ++second) {
    if (log.allow(start + std::chrono::seconds(second), "why")) at.push_back(second);
  }
  ASSERT_GE(at.size(), 7u);
  EXPECT_EQ((std::vector<int>(at.begin(), at.begin() + 7)), (std::vector<int>{0, 3, 9, 21, 45, 93, 189}));
  EXPECT_EQ(at.back() - at[at.size() - 2], 300) << "once in five minutes in the end";
  EXPECT_EQ(log.over(start + 4000s), 4000s);
  EXPECT_EQ(log.over(start + 4000s), std::nullopt);
  EXPECT_TRUE(log.allow(start + 4001s, "why"));
  EXPECT_FALSE(log.allow(start + 4003s, "why"));
  EXPECT_TRUE(log.allow(start + 4004s, "why")) << "it begins anew";
}

TEST(LogBackoff, TellsAnotherReasonSoonerButNotAlways) {
  LogBackoff log;
  const MonoTime start{100s};
  EXPECT_TRUE(log.allow(start, "refused"));
  EXPECT_FALSE(log.allow(start + 1s, "timed out"));
  EXPECT_TRUE(log.allow(start + 3s, "refused"));
  EXPECT_TRUE(log.allow(start + 6s, "timed out")) << "the next of the same would be at 9 s";
  EXPECT_FALSE(log.allow(start + 10s, "timed out"));
}

}  // namespace
}  // namespace slice::service
