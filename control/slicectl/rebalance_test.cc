#include "control/slicectl/rebalance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/slicectl/move_commands.h"

namespace slice::slicectl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RebalanceTest : public ::testing::Test {
 protected:
  // Sites dealt in turn over this many servers, from 0.
  void deal(std::uint32_t sites, std::uint32_t servers) {
    for (std::uint32_t site = 0; site < sites; ++site) owners_.push_back(site % servers);
  }
  // Carries the plan out, and tells how many sites moved.
  std::size_t plan(const std::vector<Share>& shares) {
    auto planned = plan_rebalance(owners_, shares);
    EXPECT_TRUE(planned);
    std::size_t moved = 0;
    for (const SitesToMove& each : *planned) {
      EXPECT_NE(each.from, each.to);
      EXPECT_TRUE(std::is_sorted(each.sites.begin(), each.sites.end()));
      for (std::uint32_t site : each.sites) {
        EXPECT_EQ(owners_.at(site), each.from);
        owners_[site] = each.to;
        ++moved;
      }
    }
    return moved;
  }
  std::size_t count(std::uint32_t server) const {
    return static_cast<std::size_t>(std::count(owners_.begin(), owners_.end(), server));
  }
  std::vector<std::uint32_t> owners_;
};

TEST_F(RebalanceTest, OneMoreGetsItsShareAndNothingElseMoves) {
  deal(1024, 3);
  EXPECT_EQ(plan({{0, 1}, {1, 1}, {2, 1}, {3, 1}}), 256u);
  for (std::uint32_t server = 0; server < 4; ++server) EXPECT_EQ(count(server), 256u);
}

TEST_F(RebalanceTest, WhatIsBalancedStays) {
  deal(1024, 3);
  EXPECT_EQ(plan({{0, 7}, {1, 7}, {2, 7}}), 0u);
}

TEST_F(RebalanceTest, SharesGoByWeight) {
  deal(1000, 2);
  EXPECT_EQ(plan({{0, 300}, {1, 100}, {2, 600}}), 600u);
  EXPECT_EQ(count(0), 300u);
  EXPECT_EQ(count(1), 100u);
  EXPECT_EQ(count(2), 600u);
}

TEST_F(RebalanceTest, AServerOfWeightNothingGivesEverything) {
  deal(1000, 4);
  EXPECT_EQ(plan({{0, 1}, {1, 0}, {2, 1}, {3, 1}}), 250u);
  EXPECT_EQ(count(1), 0u);
  EXPECT_NEAR(static_cast<double>(count(0)), 333, 1);
}

TEST_F(RebalanceTest, WhoIsNotNamedKeepsWhatItHas) {
  deal(100, 2);
  EXPECT_EQ(plan({{0, 1}, {5, 1}}), 25u);
  EXPECT_EQ(count(1), 50u);
  EXPECT_EQ(count(5), 25u);
}

TEST_F(RebalanceTest, NobodyToGiveToIsAnError) {
  deal(10, 2);
  EXPECT_FALSE(plan_rebalance(owners_, {}));
  EXPECT_FALSE(plan_rebalance(owners_, {{0, 0}, {1, 0}}));
}

TEST(ParseSites, NumbersAndRangesInOrder) {
  EXPECT_THAT(*parse_sites("7"), ElementsAre(7));
  EXPECT_THAT(*parse_sites("9-11,3,10"), ElementsAre(3, 9, 10, 11));
  for (const char* wrong : {"", ",", "3,", "-3", "4-3", "a", "3-", "4096", "0-4096", "3 4", "99999999999"}) {
    EXPECT_FALSE(parse_sites(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace slice::slicectl
