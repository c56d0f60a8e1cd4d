#include "control/manager/failovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/manager/testing/manager_fixture.h"
#include "service/admin_program.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Procedure = wire::ManagerProcedure;

class FailoversTest : public testing::ManagerFixture {
 protected:
  static constexpr std::uint32_t kDir = 0, kSmall = 1, kStore1 = 2;
  static constexpr rpc::Endpoint kB{0x0a4d2102, 2049}, kC{0x0a4d2202, 2049};

  explicit FailoversTest(bool has_state = true) : ManagerFixture(has_state) {}

  Result<wire::StandbyResult> stand_by(rpc::Endpoint at, std::uint64_t instance,
                                       std::uint32_t server = kDir) {
    return ask<wire::StandbyResult>(Procedure::kStandby, wire::StandbyArgs{server, at, instance});
  }
  wire::FailoverResult failover(const std::string& name, IpAddress address = 0) {
    return ask<wire::FailoverResult>(Procedure::kFailover, wire::FailoverArgs{name, address}).value();
  }
  std::vector<wire::Standby> standbys() {
    return ask<wire::StandbysResult>(Procedure::kStandbys, service::NoArguments{})->standbys;
  }
  wire::BackingClaimResult claim_set(std::uint32_t server, std::uint64_t instance) {
    return ask<wire::BackingClaimResult>(Procedure::kBackingClaim,
                                         wire::BackingClaimArgs{server, instance, 0, 1})
        .value();
  }
  void beat_as(std::uint32_t server, std::uint64_t pid) {
    wire::HeartbeatArgs args{.server = server, .pid = pid};
    args.state = "serving";
    ASSERT_TRUE(ask<wire::HeartbeatResult>(Procedure::kHeartbeat, args));
  }
  // dir1 has a set, whose owner is its run 1, and beats as process 500.
  void have_set() {
    ASSERT_TRUE(beat("store1", 1));
    a_ = endpoint("dir1");
    ASSERT_TRUE(stand_by(a_, 1)->take);
    ASSERT_EQ(claim_set(kDir, 1).refused, "");
    beat_as(kDir, 500);
  }
  // Time goes on: dir1 beats as this process each second, where one is given, and runs stand by.
  void pass(Duration time, std::uint64_t pid = 0, std::vector<rpc::Endpoint> waiting = {kB}) {
    for (Duration passed{}; passed < time; passed += 100ms) {
      if (pid != 0 && passed % 1s == Duration(0)) beat_as(kDir, pid);
      for (rpc::Endpoint each : waiting) ASSERT_TRUE(stand_by(each, each.address.v4()));
      loop_.advance(100ms);
    }
  }
  rpc::Endpoint dir1() { return tables_told()->servers.at(kDir).endpoint; }
  std::uint64_t moved(std::string_view why) {
    return metrics_
        .counter("manager_failovers_total",
                 "times that a server was made to be served by a run that stood by", {{"why", why}})
        .value();
  }
  // dir1's process answers, or is told of tables, at this endpoint.
  service::AdminProgram& admin(const std::string& server, std::uint32_t index) {
    admins_.push_back(std::make_unique<service::AdminProgram>(
        server, metrics_,
        service::AdminProgram::Hooks{
            .refresh = {},
            .misdirected = {},
            .new_tables = [this](Generation generation) -> Task<void> {
              told_.push_back(generation);
              co_return;
            },
            .settings = {},
            .new_settings = {},
            .reload = {},
            .about = [index] { return wire::AboutResult{.told = {.server = index, .pid = 500}}; }}));
    serve(server, *admins_.back());
    return *admins_.back();
  }

  rpc::Endpoint a_;
  std::vector<Generation> told_;
  std::vector<std::unique_ptr<service::AdminProgram>> admins_;
};

TEST_F(FailoversTest, ARunServesWhereTheTablesHaveItsServer) {
  have_set();
  auto waits = stand_by(kB, 2);
  EXPECT_FALSE(waits->take);
  EXPECT_EQ(waits->serves, a_);
  loop_.advance(300ms);
  ASSERT_EQ(standbys().size(), 1u);
  EXPECT_EQ(standbys()[0].server, kDir);
  EXPECT_EQ(standbys()[0].endpoint, kB);
  EXPECT_EQ(standbys()[0].age_ms, 300u);
  EXPECT_FALSE(stand_by(kC, 3)->take);
  EXPECT_EQ(standbys().size(), 2u);
  loop_.advance(1100ms);
  EXPECT_THAT(standbys(), IsEmpty()) << "who asks no more";
  EXPECT_EQ(dir1(), a_);
}

TEST_F(FailoversTest, WhoCannotStandBy) {
  have_set();
  EXPECT_FALSE(stand_by(kB, 2, kStore1)) << "no backing set";
  EXPECT_FALSE(stand_by(kB, 2, 99));
  EXPECT_FALSE(stand_by(endpoint("small1"), 2)->take) << "another member's place";
  EXPECT_FALSE(stand_by({kB.address, 0}, 2)->take);
  EXPECT_FALSE(stand_by({config_.proxy.virtual_address, 2049}, 2)->take);
  EXPECT_THAT(standbys(), IsEmpty());
  for (std::uint16_t i = 0; i < 12; ++i) EXPECT_TRUE(stand_by({kB.address, std::uint16_t(3000 + i)}, 9));
  EXPECT_EQ(standbys().size(), Failovers::kMaxOfOne);
  EXPECT_EQ(metrics_.counter("manager_standbys_refused_total").value(), 5u + 4);
  loop_.advance(1100ms);
  EXPECT_TRUE(stand_by(kC, 3));
  EXPECT_EQ(standbys().size(), 1u) << "there is room again";
}

TEST_F(FailoversTest, ByHandAndTheOneBeforeIsTold) {
  have_set();
  admin("dir1", kDir);
  ASSERT_FALSE(stand_by(kB, 2)->take);
  auto done = failover("dir1");
  EXPECT_EQ(done.refused, "");
  EXPECT_EQ(done.serves, kB);
  EXPECT_EQ(done.generation, Generation{2});
  EXPECT_EQ(dir1(), kB);
  loop_.advance(10ms);
  EXPECT_THAT(told_, ::testing::Contains(Generation{2})) << "where it was, it is to let go";
  EXPECT_EQ(stand_by(a_, 1)->serves, kB);
  EXPECT_TRUE(stand_by(kB, 2)->take);
  ASSERT_EQ(standbys().size(), 1u);
  EXPECT_EQ(standbys()[0].endpoint, a_) << "the place is another by now";
  EXPECT_EQ(moved("asked"), 1u);
  EXPECT_EQ(moved("silent"), 0u);
  manager_->stop();
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  restart().value();
  EXPECT_EQ(dir1(), kB) << "durable";
  EXPECT_TRUE(stand_by(kB, 2)->take) << "also for a manager that has never heard of it";
}

TEST_F(FailoversTest, WhatByHandIsRefused) {
  have_set();
  EXPECT_THAT(failover("dir9").refused, HasSubstr("no server has the name 'dir9'"));
  EXPECT_THAT(failover("small1").refused, HasSubstr("small1 has no backing set"));
  EXPECT_THAT(failover("dir1").refused, HasSubstr("no run of dir1 stands by"));
  EXPECT_TRUE(stand_by(kB, 2));
  EXPECT_THAT(failover("dir1", kC.address).refused, HasSubstr("no run of dir1 stands by at 10.77.34.2"));
  EXPECT_THAT(failover("dir1", a_.address).refused, HasSubstr(rpc::to_string(a_) + " already"));
  loop_.advance(1100ms);
  EXPECT_THAT(failover("dir1", kB.address.v4()).refused, HasSubstr("no run of dir1 stands by at"));
  EXPECT_EQ(tables_told()->generation, Generation{1});
  EXPECT_TRUE(stand_by(kB, 2));
  EXPECT_EQ(failover("dir1", kB.address.v4()).refused, "");
  EXPECT_EQ(moved("asked"), 1u);
}

TEST_F(FailoversTest, WhoIsToServeGetsTheSetAlthoughTheOtherIsHeardOf) {
  have_set();
  EXPECT_TRUE(stand_by(kB, 2));
  loop_.advance(500ms);
  beat_as(kDir, 600);  // as if a second one had been started
  EXPECT_THAT(claim_set(kDir, 2).refused, HasSubstr("another run of dir1 is alive"));
  EXPECT_TRUE(stand_by(kB, 2));
  EXPECT_EQ(failover("dir1").refused, "");
  beat_as(kDir, 500);
  beat_as(kDir, 600);
  EXPECT_THAT(claim_set(kDir, 2).refused, HasSubstr("another run")) << "it was not told yet";
  EXPECT_TRUE(stand_by(kB, 2)->take);
  EXPECT_THAT(claim_set(kDir, 3).refused, HasSubstr("another run")) << "it was not told";
  auto claimed = claim_set(kDir, 2);
  EXPECT_EQ(claimed.refused, "");
  EXPECT_EQ(claimed.set.instance, 2u);
  EXPECT_EQ(claimed.set.epoch, BackingEpoch{2});
  // And back: from then on the run at the place of before is told no more.
  EXPECT_FALSE(stand_by(a_, 5)->take);
  EXPECT_EQ(failover("dir1").refused, "");
  beat_as(kDir, 500);
  beat_as(kDir, 600);
  EXPECT_TRUE(stand_by(a_, 5)->take);
  EXPECT_EQ(claim_set(kDir, 5).refused, "");
  EXPECT_THAT(claim_set(kDir, 2).refused, HasSubstr("another run"));
}

TEST_F(FailoversTest, OneThatIsSilentIsServedElsewhereInTime) {
  have_set();
  pass(5s, 500);
  EXPECT_EQ(dir1(), a_) << "it beats";
  beat_as(kDir, 500);
  pass(1900ms);
  EXPECT_EQ(dir1(), a_);
  pass(500ms);
  EXPECT_EQ(dir1(), kB) << "within 2.5 s of the last that was heard";
  EXPECT_EQ(moved("silent"), 1u);
  EXPECT_TRUE(stand_by(kB, kB.address.v4())->take);
  EXPECT_EQ(claim_set(kDir, kB.address.v4()).refused, "");
}

TEST_F(FailoversTest, NobodyElseNoSettingOrNoSetAndItStaysWhereItIs) {
  have_set();
  pass(30s, 0, {});
  EXPECT_EQ(dir1(), a_) << "nobody stands by";
  pass(1500ms, 500);
  Settings never = *settings_.get();
  never.failover_ms = 0;
  settings_.set(never);
  pass(30s);
  EXPECT_EQ(dir1(), a_) << "only by hand";
  beat_as(kDir, 500);
  Settings late = never;
  late.failover_ms = 20'000;
  settings_.set(late);
  pass(19s);
  EXPECT_EQ(dir1(), a_);
  EXPECT_FALSE(stand_by({kB.address, 2050}, 7, kSmall)->take);
  pass(2s);
  EXPECT_EQ(dir1(), kB);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(stand_by({kB.address, 2050}, 7, kSmall));
    loop_.advance(500ms);
  }
  EXPECT_EQ(tables_told()->servers.at(kSmall).endpoint, endpoint("small1")) << "it has no set";
}

TEST_F(FailoversTest, OneWhoseHeartbeatsAreLostGoesOnWhereItAnswers) {
  have_set();
  pass(3s, 500);
  admin("dir1", kDir);
  pass(20s);
  EXPECT_EQ(dir1(), a_);
  silence("dir1");
  admin("dir1", kSmall);  // another server has its place
  pass(4s);
  EXPECT_EQ(dir1(), kB);
}

TEST_F(FailoversTest, AManagerHearsFirst) {
  have_set();
  pass(1s, 500);
  manager_->stop();
  restart().value();
  pass(2900ms);
  EXPECT_EQ(dir1(), a_) << "it has led for less than 3 s";
  pass(500ms);
  EXPECT_EQ(dir1(), kB);
}

TEST_F(FailoversTest, ATakeOverHasItsTimeAndTheOneBeforeIsHeardOfForNothing) {
  have_set();
  pass(3s, 500);
  EXPECT_EQ(failover("dir1", kB.address.v4()).refused, "");
  EXPECT_TRUE(stand_by(kB, 2)->take);
  beat_as(kDir, 500);  // late
  pass(14s, 0, {a_, kC});
  EXPECT_EQ(dir1(), kB) << "it gets what the server knows";
  EXPECT_EQ(claim_set(kDir, 2).refused, "");
  pass(14s, 500, {a_, kC});
  EXPECT_EQ(dir1(), kB);
  pass(1500ms, 0, {a_, kC});
  EXPECT_EQ(dir1(), a_)
      << "it never came; as few members are there as at the other, and its address is lower";
  EXPECT_EQ(moved("silent"), 1u);
}

TEST_F(FailoversTest, NotTwiceAtOnce) {
  have_set();
  pass(3s, 500);
  beat_as(kDir, 500);
  pass(2300ms, 0, {kB, kC});
  ASSERT_EQ(dir1(), kB);
  EXPECT_TRUE(stand_by(kB, 2)->take);
  beat_as(kDir, 700);
  pass(4600ms, 0, {kC});
  EXPECT_EQ(dir1(), kB) << "5 s have not passed";
  pass(500ms, 0, {kC});
  EXPECT_EQ(dir1(), kC);
  EXPECT_EQ(moved("silent"), 2u);
}

TEST_F(FailoversTest, TheHostWithTheFewestMembersAndThenTheLowestAddress) {
  have_set();
  const rpc::Endpoint with_two{endpoint("small1").address, 3000};
  ASSERT_LT(with_two.address, kB.address.v4());
  for (rpc::Endpoint each : {with_two, kC, kB}) EXPECT_FALSE(stand_by(each, 9)->take);
  EXPECT_EQ(failover("dir1").serves, kB);
  EXPECT_FALSE(stand_by(with_two, 9)->take);
  EXPECT_EQ(failover("dir1").serves, kC) << "who stands by there asked within the second";
  EXPECT_EQ(failover("dir1", with_two.address).serves, with_two);
}

class NewFailoversTest : public FailoversTest {
 protected:
  NewFailoversTest() : FailoversTest(false) {}
};

TEST_F(NewFailoversTest, NothingIsDecidedWhileTheManagerFindsOut) {
  EXPECT_FALSE(stand_by(endpoint("dir1"), 1));
  EXPECT_FALSE(stand_by(kB, 2));
  EXPECT_THAT(failover("dir1").refused, HasSubstr("does not know the tables yet"));
  EXPECT_THAT(standbys(), IsEmpty());
  loop_.advance(10s);
  EXPECT_FALSE(tables_told());
}

}  // namespace
}  // namespace slice::manager
