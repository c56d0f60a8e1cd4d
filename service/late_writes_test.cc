#include "service/late_writes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bpf/shared/file_handle.h"

namespace slice::service {
namespace {

using State = LateWrites::Seen::State;

class LateWritesTest : public ::testing::Test {
 protected:
  rpc::Call call(std::uint32_t xid, std::uint8_t relays = 0, std::uint32_t uid = 1000) const {
    return {.xid = Xid{xid},
            .has_auth_sys = true,
            .credential = {.machine_name = "", .uid = uid, .groups = {}},
            .client = {0x0a4d0102, 700},
            .relays = relays,
            .arguments = arguments_};
  }
  ByteView arguments_ = as_bytes(std::string_view("arguments"));
  LateWrites writes_;
};

TEST_F(LateWritesTest, AnAnswerIsGivenAgain) {
  auto seen = writes_.begin(call(1));
  EXPECT_EQ(seen.state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kUnderWay);
  writes_.end(seen.key, "reply");
  seen = writes_.begin(call(1, 1));
  EXPECT_EQ(seen.state, State::kAnswered);
  EXPECT_EQ(seen.reply, "reply");
  EXPECT_EQ(writes_.begin(call(2)).state, State::kNew);
  arguments_ = as_bytes(std::string_view("others"));
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew) << "another call with a number that was used before";
}

// Sent again through another proxy, which knows another size of the file.
TEST_F(LateWritesTest, TheHintOfTheHandleIsNoPartOfTheCall) {
  Buffer one(std::size_t{200}), other(std::size_t{200}), else_where(std::size_t{200});
  for (Buffer* each : {&one, &other, &else_where}) std::fill_n(each->data(), each->size(), 7);
  other.data()[4 + SLICE_HANDLE_AT_HINT] = 1;
  other.data()[4 + SLICE_HANDLE_AT_HINT + 7] = 2;
  else_where.data()[4 + SLICE_HANDLE_AT_HINT + 8] = 1;
  arguments_ = one.view();
  writes_.end(writes_.begin(call(1)).key, "reply");
  arguments_ = other.view();
  EXPECT_EQ(writes_.begin(call(1)).state, State::kAnswered);
  arguments_ = else_where.view();
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew) << "its MAC is another";
}

TEST_F(LateWritesTest, WhatComesBackIsToldFromWhatComesTwice) {
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1, 2)).state, State::kComesBack);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kUnderWay);
}

TEST_F(LateWritesTest, AFailureStaysOneAndNoAnswerMayBecomeOne) {
  writes_.end(writes_.begin(call(1)).key, "");
  auto seen = writes_.begin(call(1, 1));
  EXPECT_EQ(seen.state, State::kAnswered);
  EXPECT_EQ(seen.reply, "");
  writes_.forget(writes_.begin(call(2)).key);
  EXPECT_EQ(writes_.begin(call(2)).state, State::kNew);
}

TEST_F(LateWritesTest, AnotherUsersCallIsAnotherCall) {
  writes_.end(writes_.begin(call(1)).key, "reply");
  EXPECT_EQ(writes_.begin(call(1, 0, 1001)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kAnswered);
}

TEST_F(LateWritesTest, OneUserDoesNotMakeAnothersGo) {
  writes_.end(writes_.begin(call(1)).key, "reply");
  for (std::uint32_t i = 2; i <= 2 * LateWrites::kMaxEntries; ++i) {
    writes_.end(writes_.begin(call(i, 0, 1001)).key, "reply");
  }
  EXPECT_EQ(writes_.begin(call(1)).state, State::kAnswered);
}

TEST_F(LateWritesTest, IsBounded) {
  for (std::uint32_t i = 1; i <= LateWrites::kMaxEntries + 1; ++i) {
    writes_.end(writes_.begin(call(i)).key, "reply");
  }
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(3)).state, State::kAnswered);
}

}  // namespace
}  // namespace slice::service
