#include "service/managers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/internal_program.h"
#include "service/testing/service_fixture.h"
#include "wire/leader.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Procedure = wire::ManagerProcedure;

class OneOfSeveral : public InternalProgram {
 public:
  explicit OneOfSeveral(std::uint64_t drawn) : InternalProgram(wire::kManagerProgram) {
    on<NoArguments>(Procedure::kLeader, [this](const auto&) {
      return wire::LeaderResult{.leads = leads, .leader = "", .trouble = trouble, .places = {}};
    });
    on<wire::DrawVerifierArgs>(Procedure::kDrawVerifier,
                               [this, drawn](const auto&, rpc::XdrWriter& results) -> Task<rpc::Outcome> {
                                 ++calls;
                                 if (!leads || refuses) co_return rpc::Outcome::kError;
                                 encode(results, wire::DrawVerifierResult{Verifier{drawn}});
                                 co_return rpc::Outcome::kReply;
                               });
  }
  bool leads = false, refuses = false;
  std::string trouble;
  int calls = 0;
};

EnsembleConfig three_managers() {
  EnsembleConfig config = testing::sample_config();
  testing::add_server(config, "manager2", ServerRole::kManager);
  testing::add_server(config, "manager3", ServerRole::kManager);
  return config;
}

class ManagersTest : public testing::ServiceFixture {
 protected:
  ManagersTest() : ServiceFixture("store1", three_managers()) {
    for (int i = 0; i < 3; ++i) serve(kNames[i], fakes_[i]);
  }
  Result<wire::DrawVerifierResult> draw() {
    const MonoTime began = loop_.now();
    auto result = run(managers_.call<wire::DrawVerifierResult>(network_, Procedure::kDrawVerifier,
                                                               wire::DrawVerifierArgs{2}, 1s));
    took_ = loop_.now() - began;
    return result;
  }
  Result<wire::DrawVerifierResult> draw_within(Duration limit) {
    const MonoTime began = loop_.now();
    auto result = run(managers_.call_within<wire::DrawVerifierResult>(
        loop_, network_, Procedure::kDrawVerifier, wire::DrawVerifierArgs{2}, limit));
    took_ = loop_.now() - began;
    return result;
  }
  static constexpr const char* kNames[] = {"manager1", "manager2", "manager3"};
  OneOfSeveral fakes_[3]{OneOfSeveral(1), OneOfSeveral(2), OneOfSeveral(3)};
  Managers managers_{config_};
  Duration took_{};
};

TEST_F(ManagersTest, GoesOnToWhoLeads) {
  EXPECT_TRUE(managers_.several());
  for (int leader : {1, 0, 2}) {
    for (int i = 0; i < 3; ++i) fakes_[i].leads = i == leader;
    auto drawn = draw();
    ASSERT_TRUE(drawn) << drawn.error().message;
    EXPECT_EQ(drawn->verifier.value, static_cast<std::uint64_t>(leader) + 1);
    EXPECT_LT(took_, 200ms);
  }
  const int before = fakes_[2].calls;
  ASSERT_TRUE(draw());
  EXPECT_EQ(fakes_[2].calls, before + 1) << "it is remembered";
}

TEST_F(ManagersTest, GoesOnWhereTheLeaderFellSilent) {
  fakes_[0].leads = true;
  ASSERT_TRUE(draw());
  silence("manager1");
  fakes_[1].leads = true;
  auto drawn = draw();
  ASSERT_TRUE(drawn) << drawn.error().message;
  EXPECT_EQ(drawn->verifier, Verifier{2});
  EXPECT_LE(took_, 1s + Managers::kFindTimeout);
}

TEST_F(ManagersTest, WhoCannotWaitHasItsAnswerInTimeOrNone) {
  fakes_[0].leads = true;
  auto drawn = draw_within(300ms);
  ASSERT_TRUE(drawn) << drawn.error().message;
  EXPECT_EQ(drawn->verifier, Verifier{1});
  for (const char* name : kNames) silence(name);
  for (int i = 0; i < 4; ++i) {  // the leader's silence, and the search for another one
    drawn = draw_within(300ms);
    ASSERT_FALSE(drawn);
    EXPECT_EQ(drawn.error().code, Errc::kTimedOut);
    EXPECT_EQ(took_, 300ms);
  }
  fakes_[1].leads = true;
  serve(kNames[1], fakes_[1]);
  loop_.advance(10s);
  drawn = draw_within(600ms);
  ASSERT_TRUE(drawn) << drawn.error().message;
  EXPECT_EQ(drawn->verifier, Verifier{2});
}

TEST_F(ManagersTest, SaysThatNoneLeadsAndWhy) {
  fakes_[1].trouble = "its disk is full";
  auto drawn = draw();
  ASSERT_FALSE(drawn);
  EXPECT_EQ(drawn.error().code, Errc::kUnavailable);
  EXPECT_THAT(drawn.error().message, HasSubstr("none of 3 managers leads: its disk is full"));
  for (const char* name : kNames) silence(name);
  EXPECT_FALSE(draw());
  EXPECT_LE(took_, Managers::kFindTimeout);
}

TEST_F(ManagersTest, WhatTheLeaderRefusesIsRefused) {
  fakes_[1].leads = fakes_[1].refuses = true;
  EXPECT_EQ(draw().error().code, Errc::kIo);
  EXPECT_EQ(fakes_[1].calls, 1);
  EXPECT_EQ(fakes_[0].calls + fakes_[2].calls, 0);
}

TEST_F(ManagersTest, LearnsOfOneThatCameSince) {
  EnsembleConfig config = testing::sample_config();
  config.managers.etcd = {"http://a:2379"};
  Managers managers(config);
  EXPECT_FALSE(managers.several());
  const wire::Tables tables = routing::RoutingTables::initial(config_);
  managers.learn(tables);
  managers.learn(tables);
  fakes_[2].leads = true;
  auto drawn = run(managers.call<wire::DrawVerifierResult>(network_, Procedure::kDrawVerifier,
                                                           wire::DrawVerifierArgs{2}, 1s));
  ASSERT_TRUE(drawn) << drawn.error().message;
  EXPECT_EQ(drawn->verifier, Verifier{3});
  const std::string text = managers.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), ','), 2);
  Managers only(testing::sample_config());
  only.learn(tables);
  EXPECT_FALSE(only.several()) << "it shares nothing";
}

TEST_F(ManagersTest, TheOnlyOneIsAskedAsEver) {
  EnsembleConfig config = testing::sample_config();
  Managers managers(config);
  EXPECT_FALSE(managers.several());
  OneOfSeveral& only = fakes_[0];
  only.leads = true;
  auto drawn = run(managers.call<wire::DrawVerifierResult>(network_, Procedure::kDrawVerifier,
                                                           wire::DrawVerifierArgs{2}, 1s));
  ASSERT_TRUE(drawn);
  EXPECT_EQ(only.calls, 1);
  only.refuses = true;
  EXPECT_EQ(run(managers.call<wire::DrawVerifierResult>(network_, Procedure::kDrawVerifier,
                                                        wire::DrawVerifierArgs{2}, 1s))
                .error()
                .code,
            Errc::kIo);
  EXPECT_EQ(only.calls, 2);
}

}  // namespace
}  // namespace slice::service
