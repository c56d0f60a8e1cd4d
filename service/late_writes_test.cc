#include "service/late_writes.h"

#include <gtest/gtest.h>

namespace slice::service {
namespace {

using State = LateWrites::Seen::State;

class LateWritesTest : public ::testing::Test {
 protected:
  rpc::Call call(std::uint32_t xid, std::uint8_t relays = 0) const {
    return {.xid = Xid{xid},
            .credential = {},
            .client = {0x0a4d0102, 700},
            .relays = relays,
            .arguments = arguments_};
  }
  ByteView arguments_ = as_bytes(std::string_view("arguments"));
  LateWrites writes_;
};

TEST_F(LateWritesTest, AnAnswerIsGivenAgain) {
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kUnderWay);
  writes_.end(call(1), "reply");
  auto seen = writes_.begin(call(1, 1));
  EXPECT_EQ(seen.state, State::kAnswered);
  EXPECT_EQ(seen.reply, "reply");
  EXPECT_EQ(writes_.begin(call(2)).state, State::kNew);
  arguments_ = as_bytes(std::string_view("others"));
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew) << "another call with a number that was used before";
}

TEST_F(LateWritesTest, WhatComesBackIsToldFromWhatComesTwice) {
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1, 2)).state, State::kComesBack);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kUnderWay);
}

TEST_F(LateWritesTest, AFailureStaysOneAndNoAnswerMayBecomeOne) {
  writes_.begin(call(1));
  writes_.end(call(1), "");
  auto seen = writes_.begin(call(1, 1));
  EXPECT_EQ(seen.state, State::kAnswered);
  EXPECT_EQ(seen.reply, "");
  writes_.begin(call(2));
  writes_.forget(call(2));
  EXPECT_EQ(writes_.begin(call(2)).state, State::kNew);
}

TEST_F(LateWritesTest, IsBounded) {
  for (std::uint32_t i = 1; i <= LateWrites::kMaxEntries + 1; ++i) {
    writes_.begin(call(i));
    writes_.end(call(i), "reply");
  }
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(3)).state, State::kAnswered);
}

}  // namespace
}  // namespace slice::service
