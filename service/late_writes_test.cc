#include "service/late_writes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bpf/shared/file_handle.h"
#include "common/manual_loop.h"
#include "rpc/dispatcher.h"

namespace slice::service {

using NfsStatus = nfs3::Status;

namespace {

using State = LateWrites::Seen::State;

class LateWritesTest : public ::testing::Test {
 protected:
  void wait_for(LateWrites::Key key, bool& over) {
    spawn([](LateWrites& writes, LateWrites::Key of, bool& ended) -> Task<void> {
      co_await writes.over(of);
      ended = true;
    }(writes_, key, over));
  }
  rpc::Call call(std::uint32_t xid, std::uint8_t relays = 0, std::uint32_t uid = 1000) const {
    return {.xid = Xid{xid},
            .has_auth_sys = true,
            .credential = {.machine_name = "", .uid = uid, .groups = {}},
            .client = client_,
            .relays = relays,
            .arguments = arguments_};
  }
  void answer(const rpc::Call& call, NfsStatus status = NfsStatus::kOk, std::string_view results = "reply") {
    writes_.end(writes_.begin(call).key, status, results);
  }
  ManualLoop loop_;
  rpc::Endpoint client_{0x0a4d0102, 700};
  ByteView arguments_ = as_bytes(std::string_view("arguments"));
  LateWrites writes_{loop_};
};

TEST_F(LateWritesTest, AnAnswerIsGivenAgain) {
  auto seen = writes_.begin(call(1));
  EXPECT_EQ(seen.state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kUnderWay);
  writes_.end(seen.key, NfsStatus::kOk, "reply");
  seen = writes_.begin(call(1, 1));
  EXPECT_EQ(seen.state, State::kAnswered);
  EXPECT_EQ(seen.status, NfsStatus::kOk);
  EXPECT_EQ(seen.reply, "reply");
}

TEST_F(LateWritesTest, AnotherCallIsNone) {
  answer(call(1));
  EXPECT_EQ(writes_.begin(call(2)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1, 0, 1001)).state, State::kNew) << "another user of the host";
  ++client_.port;
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  --client_.port;
  const IpAddress own = std::exchange(client_.address, client_.address.v4() + 1);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  client_.address = IpAddress::of_words(0xfd77ull << 48, own.low());
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
  client_.address = own;
  arguments_ = as_bytes(std::string_view("others"));
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew) << "with a number that was used before";
  arguments_ = as_bytes(std::string_view("arguments"));
  EXPECT_EQ(writes_.begin(call(1)).state, State::kAnswered);
}

// Sent again through another proxy, which knows another size of the file.
TEST_F(LateWritesTest, TheHintOfTheHandleIsNoPartOfTheCall) {
  Buffer one(std::size_t{200}), other(std::size_t{200}), else_where(std::size_t{200});
  for (Buffer* each : {&one, &other, &else_where}) std::fill_n(each->data(), each->size(), 7);
  other.data()[4 + SLICE_HANDLE_AT_HINT] = 1;
  other.data()[4 + SLICE_HANDLE_AT_HINT + 7] = 2;
  else_where.data()[4 + SLICE_HANDLE_AT_HINT + 8] = 1;
  arguments_ = one.view();
  answer(call(1));
  arguments_ = other.view();
  EXPECT_EQ(writes_.begin(call(1)).state, State::kAnswered);
  arguments_ = else_where.view();
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew) << "its MAC is another";
}

TEST_F(LateWritesTest, WhatComesBackIsToldFromWhatComesTwice) {
  auto first = writes_.begin(call(1));
  EXPECT_EQ(first.state, State::kNew);
  EXPECT_EQ(writes_.begin(call(1, 2)).state, State::kPassedOn) << "by one that this one has not asked";
  *first.passed_on = true;
  EXPECT_EQ(writes_.begin(call(1, 2)).state, State::kComesBack);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kNew);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kUnderWay);
}

// A proxy whose connection broke sends it to another server, which passes it on to this one.
TEST_F(LateWritesTest, ACopyThatWasPassedOnIsAnsweredAsTheFirst) {
  auto first = writes_.begin(call(1));
  auto second = writes_.begin(call(1, 1));
  ASSERT_EQ(second.state, State::kPassedOn);
  bool over = false;
  wait_for(second.key, over);
  EXPECT_FALSE(over);
  writes_.end(first.key, NfsStatus::kOk, "done");
  EXPECT_TRUE(over);
  EXPECT_EQ(writes_.begin(call(1, 1)).state, State::kAnswered);
  auto other = writes_.begin(call(2));
  over = false;
  wait_for(other.key, over);
  writes_.forget(other.key);
  EXPECT_TRUE(over);
  EXPECT_EQ(writes_.begin(call(2, 1)).state, State::kNew) << "it was not done";
}

TEST_F(LateWritesTest, AFailureStaysOneAndNoAnswerMayBecomeOne) {
  answer(call(1), NfsStatus::kNoSpc, "");
  auto seen = writes_.begin(call(1, 1));
  EXPECT_EQ(seen.state, State::kAnswered);
  EXPECT_EQ(seen.status, NfsStatus::kNoSpc);
  writes_.forget(writes_.begin(call(2)).key);
  EXPECT_EQ(writes_.begin(call(2)).state, State::kNew);
}

TEST_F(LateWritesTest, ALongAnswerIsNotKeptButThatThereWasOneIs) {
  answer(call(1), NfsStatus::kOk, std::string(136, 'x'));
  EXPECT_EQ(writes_.begin(call(1)).reply.size(), 136u) << "WRITE3resok with all attributes";
  answer(call(2), NfsStatus::kOk, std::string(1000, 'x'));
  EXPECT_EQ(writes_.begin(call(2)).state, State::kAnswered);
  EXPECT_EQ(writes_.begin(call(2)).reply, "");
}

// Of the last ones the answer, of many more that there was one; whoever made those between them.
TEST_F(LateWritesTest, IsBounded) {
  answer(call(0));
  std::uint32_t next = 1;
  auto others_until = [&](std::uint32_t end) {
    for (; next <= end; ++next) answer(call(next, 0, 1001));
  };
  others_until(LateWrites::kReplies - 1);
  EXPECT_EQ(writes_.begin(call(0)).reply, "reply");
  others_until(LateWrites::kCalls - 1);
  EXPECT_EQ(writes_.begin(call(0)).state, State::kAnswered);
  EXPECT_EQ(writes_.begin(call(0)).reply, "");
  others_until(LateWrites::kCalls);
  EXPECT_EQ(writes_.begin(call(0)).state, State::kNew);
  for (std::uint32_t xid = 1; xid <= LateWrites::kCalls; ++xid) {
    ASSERT_EQ(writes_.begin(call(xid, 0, 1001)).state, State::kAnswered) << xid;
  }
}

// E.g. by a client that was switched off and begins with the same numbers.
TEST_F(LateWritesTest, WhatIsLongAgoIsForgotten) {
  answer(call(1));
  loop_.advance(LateWrites::kLife / 2);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kAnswered);
  loop_.advance(LateWrites::kLife);
  EXPECT_EQ(writes_.begin(call(1)).state, State::kNew);
}

TEST_F(LateWritesTest, AnotherServerLearnsThoseOfItsSites) {
  writes_.end(writes_.begin(call(1)).key, NfsStatus::kOk, "one", 7);
  writes_.end(writes_.begin(call(2)).key, NfsStatus::kNoSpc, "", 8);
  writes_.end(writes_.begin(call(3)).key, NfsStatus::kOk, "three", 9);
  LateWrites other(loop_);
  for (const wire::LateWrite& each : writes_.of({7, 8})) other.learn(each);
  EXPECT_EQ(other.begin(call(1)).reply, "one");
  EXPECT_EQ(other.begin(call(2)).status, NfsStatus::kNoSpc);
  EXPECT_EQ(other.begin(call(3)).state, State::kNew);
  EXPECT_EQ(other.of({7}).size(), 1u) << "and tells the next one";
  loop_.advance(LateWrites::kLife);
  EXPECT_TRUE(writes_.of({7, 8}).empty());
}

}  // namespace
}  // namespace slice::service
