#include "control/proxyd/address_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/manual_loop.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kSelf = 2, kOther = 3;
constexpr std::uint64_t kRun = 0x1234567890;

// What is done to it is written down, in order.
class FakeHost : public AddressHost {
 public:
  explicit FakeHost(std::vector<std::string>& done) : done_(done) {}
  Look look() override { return {.has = has, .unfit = unfit}; }
  Status put(unsigned seconds) override {
    life = seconds;
    ++puts;
    if (refuses) return fail(Errc::kIo, "eth0: no");
    if (!has) done_.push_back("put");
    has = true;
    return {};
  }
  Status take_off() override {
    done_.push_back("take off");
    has = false;
    return {};
  }
  Status put_at_loopback(unsigned) override { return {}; }
  Status take_off_loopback() override { return {}; }
  void drop_connections(const Keep&) override { done_.push_back("drop"); }
  void announce() override { ++announcements; }
  void probe() override { ++probes; }

  std::vector<wire::AddressPeer> peers() override { return connected; }
  void wake(const std::vector<wire::AddressPeer>& peers) override {
    woken.insert(woken.end(), peers.begin(), peers.end());
  }

  std::vector<wire::AddressPeer> connected, woken;
  bool has = false, refuses = false;
  std::string unfit;
  unsigned life = 0, puts = 0, announcements = 0, probes = 0;

 private:
  std::vector<std::string>& done_;
};

// Of a process that was stopped: time has passed, and nothing of what was due has come.
class StoppedLoop : public ManualLoop {
 public:
  MonoTime now_exactly() const override { return now() + stood_still; }
  Duration stood_still{};
};

class AddressHolderTest : public ::testing::Test {
 protected:
  AddressHolderTest()
      : holder_({.loop = loop_,
                 .metrics = metrics_,
                 .host = host_,
                 .self = kSelf,
                 .run = kRun,
                 .patience = 2s,
                 .name_of = [](std::uint32_t server) { return "s" + std::to_string(server); },
                 .ask = [this](const wire::HoldAddressArgs& args,
                               Duration patience) { return answer(args, patience); },
                 .begin_anew =
                     [this] {
                       done_.push_back("forget");
                       return true;
                     },
                 .save = [this] { return save(); },
                 .serve_until = [this](MonoTime end) { serves_until_ = end; },
                 .remember_nothing = [this](bool on) { remembers_ = !on; },
                 .keeps = {}}) {
    loop_.advance(10s);
  }

  // What is under way ends.
  void TearDown() override {
    spawn(holder_.stop());
    loop_.advance(10s);
  }

  Task<Result<wire::HoldAddressResult>> answer(wire::HoldAddressArgs args, Duration patience) {
    asked_.push_back(args);
    const wire::HoldAddressResult told{.known = known_,
                                       .holder = holder_is_,
                                       .patience_ms = 2000,
                                       .askers = {},
                                       .peers_digest = told_,
                                       .peers = predecessors_,
                                       .refused = {}};
    if (silent_) {
      co_await loop_.sleep(patience);
      co_return fail(Errc::kUnavailable, "no answer");
    }
    co_await loop_.sleep(delay_);
    co_return told;
  }
  Task<void> save() {
    co_await loop_.sleep(10ms);
    done_.push_back("saved");
  }
  void start() {
    spawn(holder_.start());
    loop_.advance(silent_ ? 600ms : 10ms);
    holder_.begin();
    loop_.advance(50ms);
  }
  void hold() {
    holder_is_ = kSelf;
    start();
    ASSERT_TRUE(holder_.holds());
    loop_.advance(1s);
    done_.clear();
    asked_.clear();
  }
  void pass(Duration time) { loop_.advance(time); }
  bool serves() const { return loop_.now_exactly() <= serves_until_; }
  std::uint64_t metric(std::string_view name) { return metrics_.counter(name).value(); }

  StoppedLoop loop_;
  Metrics metrics_;
  std::vector<std::string> done_;
  std::vector<wire::HoldAddressArgs> asked_;
  FakeHost host_{done_};
  bool known_ = true, silent_ = false, remembers_ = true;
  Duration delay_ = 1ms;
  std::uint32_t holder_is_ = kOther;
  std::uint64_t told_ = 0;  // digest of what the manager has of its connections
  std::vector<wire::AddressPeer> predecessors_;
  MonoTime serves_until_ = MonoTime::max();
  AddressHolder holder_;
};

TEST_F(AddressHolderTest, StandsByWhileAnotherHasIt) {
  start();
  pass(10s);
  EXPECT_FALSE(holder_.holds());
  EXPECT_THAT(done_, ElementsAre());
  EXPECT_GT(asked_.size(), 20u);
  EXPECT_TRUE(asked_.back().ready);
  EXPECT_FALSE(asked_.back().holds);
  EXPECT_FALSE(serves());
  EXPECT_EQ(holder_.describe(), "stands by");
}

TEST_F(AddressHolderTest, TakesItInTheRightOrderAndAnnouncesItAgainAndAgain) {
  start();
  holder_is_ = kSelf;
  pass(400ms);
  EXPECT_TRUE(holder_.holds());
  EXPECT_THAT(done_, ElementsAre("forget", "drop", "put"));
  EXPECT_EQ(host_.life, 3u) << "the kernel takes it away a second after the patience";
  EXPECT_TRUE(asked_.back().holds) << "the manager is told at once";
  EXPECT_TRUE(serves());
  pass(5s);
  EXPECT_EQ(host_.announcements, 7u);
  pass(50s);
  EXPECT_EQ(host_.announcements, 17u);
  EXPECT_GT(host_.puts, 55u);
  EXPECT_EQ(holder_.describe(), "holds the address");
}

TEST_F(AddressHolderTest, TellsOfAClientThatHasConnectedAtOnce) {
  hold();
  pass(310ms);
  asked_.clear();
  host_.connected = {{1, 700, 3}};
  holder_.connected();
  pass(5ms);
  ASSERT_FALSE(asked_.empty());
  EXPECT_EQ(asked_[0].peers, host_.connected);
  told_ = digest(host_.connected);
  pass(1s);
  asked_.clear();
  holder_.connected();
  EXPECT_THAT(asked_, ElementsAre()) << "it is known";
}

TEST_F(AddressHolderTest, WakesTheClientsOfTheHolderBefore) {
  start();
  predecessors_ = {{1, 40000, 3}};
  holder_is_ = kSelf;
  pass(10s);
  EXPECT_EQ(host_.woken, (std::vector<wire::AddressPeer>(7, {1, 40000, 3})))
      << "with each announcement at first";
}

TEST_F(AddressHolderTest, WakesClientsAtAllPortsThatTheyMayHaveTakenSince) {
  start();
  predecessors_ = {{1, 700, 3}};
  holder_is_ = kSelf;
  pass(10s);
  EXPECT_EQ(std::ranges::count(host_.woken, wire::AddressPeer{1, 700, 3}), 7);
  for (const std::uint16_t port : std::initializer_list<std::uint16_t>{665, 699, 701, 1023})
    EXPECT_EQ(std::ranges::count(host_.woken, wire::AddressPeer{1, port, 3}), 3) << port;
  EXPECT_EQ(host_.woken.size(), 7u + 3 * 358);
  EXPECT_EQ(metric("proxy_address_unswept_total"), 0u);
}

TEST_F(AddressHolderTest, SweepsPortsInSmallStepsAndCountsWhomItLeavesOut) {
  start();
  for (std::uint32_t client = 1; client <= 300; ++client) predecessors_.push_back({client, 700, 3});
  holder_is_ = kSelf;
  ASSERT_TRUE(loop_.run_until([this] { return holder_.holds(); }, 1s));
  EXPECT_EQ(metric("proxy_address_unswept_total"), 44u);
  pass(1s);  // with five announcements, each of which wakes those known
  EXPECT_LE(host_.woken.size(), 5 * 300 + 201 * 128u);
  EXPECT_GE(host_.woken.size(), 20000u);
  const std::size_t before = host_.woken.size();
  holder_is_ = kOther;
  ASSERT_TRUE(loop_.run_until([this] { return !holder_.holds(); }, 1s));
  const std::size_t woken = host_.woken.size();
  EXPECT_GT(woken, before);
  pass(5s);
  EXPECT_EQ(host_.woken.size(), woken) << "nothing more once another has the address";
}

TEST_F(AddressHolderTest, TellsOfItsOwnClientsUntilTheManagerHasThem) {
  hold();
  EXPECT_TRUE(asked_.empty() || asked_.back().peers.empty());
  host_.connected = {{1, 2, 3}};
  pass(1s);
  EXPECT_EQ(asked_.back().peers, host_.connected);
  told_ = digest(host_.connected);
  pass(1s);
  EXPECT_TRUE(asked_.back().peers.empty());
  host_.connected.push_back({4, 5, 6});
  pass(1s);
  EXPECT_EQ(asked_.back().peers, host_.connected);
}

TEST_F(AddressHolderTest, GivesItUpWhereTheManagerGaveItToAnother) {
  hold();
  holder_is_ = kOther;
  ASSERT_TRUE(loop_.run_until([this] { return !holder_.holds(); }, 400ms));
  EXPECT_FALSE(serves());
  EXPECT_TRUE(asked_.back().holds) << "before it is saved another is not to serve";
  pass(300ms);
  EXPECT_THAT(done_, ElementsAre("take off", "drop", "saved"));
  EXPECT_FALSE(asked_.back().holds);
  EXPECT_EQ(metric("proxy_address_lost_total"), 1u);
}

TEST_F(AddressHolderTest, KeepsItWhileNoManagerAnswersButRemembersNothing) {
  hold();
  silent_ = true;
  pass(600ms);
  EXPECT_TRUE(remembers_);
  pass(700ms);
  EXPECT_FALSE(remembers_) << "another may take over in a moment";
  EXPECT_THAT(done_, ElementsAre("saved"));
  pass(10min);
  EXPECT_TRUE(holder_.holds());
  EXPECT_TRUE(serves());
  EXPECT_TRUE(host_.has);
  silent_ = false;
  pass(2s);
  EXPECT_TRUE(remembers_);
  EXPECT_TRUE(holder_.holds());
}

TEST_F(AddressHolderTest, KeepsItWhileTheManagerDoesNotKnowYet) {
  hold();
  known_ = false;
  holder_is_ = wire::kNoServer;
  pass(10s);
  EXPECT_TRUE(holder_.holds());
  EXPECT_TRUE(remembers_);
  EXPECT_TRUE(asked_.back().holds);
}

TEST_F(AddressHolderTest, NobodyTakesItWithoutTheManager) {
  silent_ = true;
  start();
  pass(1min);
  EXPECT_FALSE(holder_.holds());
}

TEST_F(AddressHolderTest, WhoStoodStillGivesItUpAndAsksBeforeItHasItAgain) {
  hold();
  loop_.stood_still = 10s;
  ASSERT_TRUE(loop_.run_until([this] { return !holder_.holds(); }, 400ms));
  EXPECT_FALSE(serves());
  EXPECT_THAT(done_, ElementsAre("take off", "drop"));
  pass(100ms);
  EXPECT_TRUE(holder_.holds()) << "nobody has it meanwhile: the manager says so";
  EXPECT_THAT(done_, ElementsAre("take off", "drop", "saved", "forget", "drop", "put"));
}

// It was sent before this process stood still, and is read after.
TEST_F(AddressHolderTest, AnAnswerFromBeforeItStoodStillCountsForNothing) {
  hold();
  delay_ = 250ms;
  pass(310ms);
  loop_.stood_still = 10s;
  delay_ = 1ms;
  holder_is_ = kOther;
  pass(2s);
  EXPECT_FALSE(holder_.holds());
  EXPECT_THAT(done_, ElementsAre("take off", "drop", "saved"));
}

TEST_F(AddressHolderTest, OldAnswersCountForNothing) {
  holder_is_ = kSelf;
  delay_ = 1500ms;
  start();
  pass(10s);
  EXPECT_FALSE(holder_.holds());
  delay_ = 1ms;
  pass(2s);
  EXPECT_TRUE(holder_.holds());
}

TEST_F(AddressHolderTest, WithoutALinkItIsGivenUpAndNotTaken) {
  hold();
  host_.unfit = "the interface eth0 has no link";
  pass(350ms);
  EXPECT_FALSE(holder_.holds());
  EXPECT_FALSE(asked_.back().ready);
  pass(5s);
  EXPECT_FALSE(holder_.holds()) << "whatever the manager says";
  EXPECT_THAT(holder_.describe(), HasSubstr("no link"));
  host_.unfit.clear();
  pass(1s);
  EXPECT_TRUE(holder_.holds());
}

TEST_F(AddressHolderTest, WhatIsTakenAwayBySomebodyIsPutThereAgain) {
  hold();
  host_.has = false;
  pass(350ms);
  EXPECT_TRUE(host_.has);
  EXPECT_TRUE(holder_.holds());
}

TEST_F(AddressHolderTest, WhatIsThereAndNotItsOwnIsTakenOff) {
  start();
  host_.has = true;
  pass(350ms);
  EXPECT_FALSE(host_.has);
}

TEST_F(AddressHolderTest, AHostThatRefusesItIsNotReadyForAWhile) {
  host_.refuses = true;
  holder_is_ = kSelf;
  start();
  pass(1s);
  EXPECT_FALSE(asked_.back().ready);
  host_.refuses = false;
  pass(5s);
  EXPECT_TRUE(holder_.holds());
}

TEST_F(AddressHolderTest, AfterARestartItIsKeptWhereTheManagerSaysSo) {
  host_.has = true;
  holder_is_ = kSelf;
  start();
  EXPECT_TRUE(holder_.holds());
  EXPECT_TRUE(asked_.front().holds);
  EXPECT_FALSE(asked_.front().ready);
  EXPECT_THAT(done_, ElementsAre("forget")) << "connections that wait are its own";
}

TEST_F(AddressHolderTest, AfterARestartItIsKeptWhereNoManagerAnswers) {
  host_.has = true;
  silent_ = true;
  start();
  EXPECT_TRUE(holder_.holds());
  EXPECT_TRUE(serves());
}

TEST_F(AddressHolderTest, AfterARestartItIsTakenOffWhereAnotherHasIt) {
  host_.has = true;
  start();
  EXPECT_FALSE(holder_.holds());
  EXPECT_FALSE(host_.has);
}

TEST_F(AddressHolderTest, AClaimThatTheManagerDoesNotKnowIsAnsweredByARP) {
  hold();
  const unsigned before = host_.announcements;
  for (int i = 0; i < 100; ++i) {
    holder_.claimed("02:00:00:00:00:09");
    pass(10ms);
  }
  EXPECT_TRUE(holder_.holds());
  EXPECT_THAT(done_, ElementsAre());
  EXPECT_GT(host_.announcements, before + 3);
  EXPECT_LT(host_.announcements, before + 9) << "not for each";
  EXPECT_EQ(metric("proxy_address_claims_total"), 100u);
}

TEST_F(AddressHolderTest, AClaimThatTheManagerConfirmsEndsIt) {
  hold();
  holder_is_ = kOther;
  holder_.claimed("02:00:00:00:00:09");
  pass(2ms);
  EXPECT_FALSE(holder_.holds());
}

TEST_F(AddressHolderTest, AClaimWhileNoManagerAnswersIsYieldedToAndItIsTakenBackWhereNobodyHasIt) {
  hold();
  silent_ = true;
  holder_.claimed("02:00:00:00:00:09");
  pass(350ms);
  EXPECT_FALSE(holder_.holds());
  for (int i = 0; i < 30; ++i) {
    holder_.claimed("02:00:00:00:00:09");
    pass(300ms);
  }
  EXPECT_FALSE(holder_.holds()) << "another has it";
  EXPECT_GT(host_.probes, 6u);
  for (int i = 0; i < 300 && !holder_.holds(); ++i) pass(10ms);
  EXPECT_TRUE(holder_.holds());
  EXPECT_FALSE(remembers_) << "the manager may give it to another at any moment";
  silent_ = false;
  pass(1s);
  EXPECT_TRUE(remembers_);
}

TEST_F(AddressHolderTest, QuestionsAreCounted) {
  hold();
  pass(1s);
  ASSERT_GE(asked_.size(), 3u);
  for (std::size_t i = 1; i < asked_.size(); ++i) {
    EXPECT_EQ(asked_[i].number, asked_[i - 1].number + 1);
    EXPECT_EQ(asked_[i].run, kRun);
  }
}

TEST_F(AddressHolderTest, ACleanStopSavesAndTellsTheManager) {
  hold();
  bool stopped = false;
  spawn([](AddressHolder& holder, bool& done) -> Task<void> {
    co_await holder.stop();
    done = true;
  }(holder_, stopped));
  pass(100ms);
  EXPECT_TRUE(stopped);
  EXPECT_THAT(done_, ElementsAre("take off", "drop", "saved"));
  EXPECT_FALSE(asked_.back().holds);
  EXPECT_FALSE(asked_.back().ready);
  const std::size_t asked = asked_.size();
  pass(10s);
  EXPECT_FALSE(holder_.holds());
  EXPECT_EQ(asked_.size(), asked);
}

}  // namespace
}  // namespace slice::proxy
