#include "service/relayed_changes.h"

#include <gtest/gtest.h>

#include "common/manual_loop.h"

namespace slice::service {
namespace {

using State = RelayedChanges::Seen::State;

class RelayedChangesTest : public ::testing::Test {
 protected:
  rpc::Call call(std::uint32_t xid, std::uint32_t uid = 1) {
    return {.xid = Xid{xid},
            .procedure = 12,
            .has_auth_sys = true,
            .credential = {.uid = uid},
            .client = {0x0a4d0102, 900},
            .arguments = as_bytes(arguments_)};
  }
  static Task<void> count_end(Task<void> task, int& ended) {
    co_await std::move(task);
    ++ended;
  }
  void answer(const rpc::Call& of, std::string_view results) {
    known_.begin(RelayedChanges::key_of(of));
    known_.end(RelayedChanges::key_of(of), results);
  }
  std::string arguments_ = "directory and name";
  ManualLoop loop_;
  RelayedChanges known_{loop_};
};

TEST_F(RelayedChangesTest, ACopyIsDroppedAndThenAnswered) {
  EXPECT_TRUE(known_.empty());
  EXPECT_EQ(known_.look(call(1)).state, State::kNew);
  known_.begin(RelayedChanges::key_of(call(1)));
  EXPECT_EQ(known_.look(call(1)).state, State::kUnderWay);
  EXPECT_EQ(known_.look(call(2)).state, State::kNew);
  known_.end(RelayedChanges::key_of(call(1)), "no such name");
  EXPECT_EQ(known_.look(call(1)).state, State::kAnswered);
  EXPECT_EQ(known_.look(call(1)).results, "no such name");
  EXPECT_EQ(known_.look(call(1, 2)).state, State::kNew) << "another user's";
}

TEST_F(RelayedChangesTest, WhoWaitsIsToldThatItIsOver) {
  const auto key = RelayedChanges::key_of(call(1));
  int over = 0;
  const auto wait = [&] { spawn(count_end(known_.over(key), over)); };
  known_.begin(key);
  wait();
  wait();
  loop_.advance(Duration(1));
  EXPECT_EQ(over, 0);
  known_.end(key, "done");
  loop_.advance(Duration(1));
  EXPECT_EQ(over, 2);
  wait();
  EXPECT_EQ(over, 3) << "it was over before";
  known_.begin(RelayedChanges::key_of(call(2)));
  spawn(count_end(known_.over(RelayedChanges::key_of(call(2))), over));
  known_.forget(RelayedChanges::key_of(call(2)));
  loop_.advance(Duration(1));
  EXPECT_EQ(over, 4);
}

TEST_F(RelayedChangesTest, WithoutAnAnswerItIsPassedOnAgain) {
  known_.begin(RelayedChanges::key_of(call(1)));
  known_.forget(RelayedChanges::key_of(call(1)));
  EXPECT_EQ(known_.look(call(1)).state, State::kNew);
}

TEST_F(RelayedChangesTest, AnswersAreForgotten) {
  answer(call(1), "old");
  loop_.advance(RelayedChanges::kLife / 2);
  answer(call(2), "young");
  loop_.advance(RelayedChanges::kLife * 2 / 3);
  EXPECT_EQ(known_.look(call(1)).state, State::kNew);
  EXPECT_EQ(known_.look(call(2)).state, State::kAnswered);
  for (std::uint32_t xid = 10; xid < 10 + 2 * RelayedChanges::kAnswers; ++xid) answer(call(xid), "many");
  EXPECT_EQ(known_.look(call(2)).state, State::kNew) << "too many came since";
}

}  // namespace
}  // namespace slice::service
