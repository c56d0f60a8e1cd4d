#include "dirserver/store/fair_order.h"

#include <gtest/gtest.h>

namespace slice::dirserver {
namespace {

class FairOrderTest : public ::testing::Test {
 protected:
  FairOrder<int>::Place add(IpAddress address, std::uint32_t uid, int item, std::size_t weight = 1) {
    return order_.add({address, uid}, weight, MonoTime{Duration(item)}, item);
  }
  FairOrder<int> order_;
};

TEST_F(FairOrderTest, TheOldestOfTheLargestGoesFirst) {
  add(1, 1, 1);
  auto second = add(2, 1, 2);
  auto third = add(2, 1, 3);
  EXPECT_EQ(order_.oldest(), 1);
  EXPECT_EQ(order_.oldest_time(), MonoTime{Duration(1)});
  EXPECT_EQ(order_.next_to_go(), 2);
  order_.erase(second);
  add(1, 1, 4);
  EXPECT_EQ(order_.next_to_go(), 1);
  order_.erase(third);
  EXPECT_EQ(order_.size(), 2u);
}

TEST_F(FairOrderTest, AHostWithManyUsersIsOneHost) {
  add(1, 500, 1);
  add(1, 500, 2);
  for (int uid = 0; uid < 10; ++uid) add(2, static_cast<std::uint32_t>(uid), 10 + uid);
  add(2, 3, 20);
  EXPECT_EQ(order_.next_to_go(), 13) << "its largest user";
}

TEST_F(FairOrderTest, WeightCountsAndComesBack) {
  auto heavy = add(1, 1, 1, 100);
  add(2, 1, 2, 60);
  add(2, 1, 3, 30);
  EXPECT_EQ(order_.weight(), 190u);
  EXPECT_EQ(order_.next_to_go(), 1);
  order_.erase(heavy);
  EXPECT_EQ(order_.weight(), 90u);
  EXPECT_EQ(order_.next_to_go(), 2);
}

}  // namespace
}  // namespace slice::dirserver
