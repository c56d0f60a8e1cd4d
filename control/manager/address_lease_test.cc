#include "control/manager/address_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/manual_loop.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using wire::kNoServer;

constexpr std::uint32_t kOne = 1, kTwo = 2, kThree = 3, kIdle = 4, kDirectory = 0;

wire::ServerEntry member(std::uint32_t server, wire::Role role) {
  return {.server = server, .role = role, .endpoint = {}, .name = "s" + std::to_string(server)};
}

class AddressLeaseTest : public ::testing::Test {
 protected:
  AddressLeaseTest() { start(); }
  // Anew, as of a manager that begins to lead.
  void start() { lease_.emplace(loop_, 2s, members_, metrics_); }
  wire::HoldAddressResult ask(std::uint32_t server, bool ready, bool holds,
                              std::vector<wire::AddressPeer> peers = {}) {
    return lease_->ask(
        {.server = server, .ready = ready, .holds = holds, .number = ++number_, .peers = std::move(peers)});
  }
  std::uint32_t holder(std::uint32_t asker, bool holds = false) {
    auto told = ask(asker, true, holds);
    return told.known ? told.holder : kNoServer;
  }
  std::string move(std::uint32_t to) { return lease_->ask({.wanted = to}).refused; }
  std::uint64_t moves() { return metrics_.counter("manager_address_moves_total").value(); }
  // One that is never ready asks all the time.
  void pass(Duration time) {
    for (const MonoTime end = loop_.now() + time; loop_.now() < end;) {
      ask(kIdle, false, false);
      loop_.advance(std::min<Duration>(end - loop_.now(), 300ms));
    }
  }
  // The manager leads for long.
  void listened() { pass(2100ms); }
  // One has it, and the others stand by.
  void one_holds() {
    listened();
    ASSERT_EQ(holder(kOne), kOne);
    ASSERT_EQ(holder(kOne, true), kOne);
    ASSERT_EQ(holder(kTwo), kOne);
  }

  ManualLoop loop_;
  Metrics metrics_;
  std::vector<wire::ServerEntry> members_{member(0, wire::Role::kDirectory), member(1, wire::Role::kProxy),
                                          member(2, wire::Role::kProxy), member(3, wire::Role::kProxy),
                                          member(4, wire::Role::kProxy)};
  std::uint64_t number_ = 0;  // of the last question
  std::optional<AddressLease> lease_;
};

TEST_F(AddressLeaseTest, TheFirstReadyOneGetsIt) {
  listened();
  EXPECT_FALSE(ask(kOne, false, false).known && ask(kOne, false, false).holder != kNoServer);
  EXPECT_EQ(holder(kTwo), kTwo);
  EXPECT_EQ(holder(kOne), kTwo) << "who comes later stands by";
  EXPECT_EQ(ask(kOne, true, false).patience_ms, 2000u);
}

TEST_F(AddressLeaseTest, AManagerThatHasJustBegunToLeadListensFirst) {
  loop_.advance(1min);  // until it could be asked
  EXPECT_FALSE(ask(kTwo, true, false).known);
  loop_.advance(1900ms);
  EXPECT_FALSE(ask(kTwo, true, false).known) << "who has it may be heard of yet";
  EXPECT_FALSE(ask(kOne, true, true).known);
  loop_.advance(200ms);
  EXPECT_EQ(holder(kTwo), kOne) << "who has it keeps it, whoever asks first";
  EXPECT_EQ(moves(), 0u);
}

// What the manager before knew of it is lost.
TEST_F(AddressLeaseTest, WhereManagerAndHolderDieTogetherNobodyGetsItBeforeThePatienceIsOver) {
  one_holds();
  start();
  const MonoTime died = loop_.now();
  while (loop_.now() - died <= 2s) {
    const auto told = ask(kTwo, true, false);
    EXPECT_TRUE(!told.known && told.holder == kNoServer);
    loop_.advance(100ms);
  }
  EXPECT_EQ(holder(kTwo), kTwo);
  EXPECT_EQ(holder(kOne), kTwo) << "it is back, without it";
}

TEST_F(AddressLeaseTest, AHolderThatIsBackInTimeKeepsItWithAManagerThatIsNew) {
  one_holds();
  start();
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(ask(kTwo, true, false).known);
    loop_.advance(300ms);
  }
  EXPECT_FALSE(ask(kOne, false, true).known) << "its successor on the same host has it, and is not ready yet";
  loop_.advance(300ms);
  EXPECT_EQ(holder(kTwo), kOne);
}

// As a process that stood still finds questions: of all at once, in any order.
TEST_F(AddressLeaseTest, AManagerThatStoodStillListensAgain) {
  one_holds();
  loop_.advance(1min);
  EXPECT_EQ(holder(kTwo), kOne) << "it was not heard of, and nobody else was";
  loop_.advance(1900ms);
  EXPECT_EQ(holder(kTwo), kOne);
  EXPECT_EQ(holder(kOne, true), kOne);
  EXPECT_EQ(moves(), 1u);
  loop_.advance(1min);
  pass(1900ms);
  EXPECT_EQ(holder(kTwo), kOne);
  pass(200ms);
  EXPECT_EQ(holder(kTwo), kTwo) << "it is silent";
}

TEST_F(AddressLeaseTest, WhatWasAskedBeforeCountsNoMore) {
  one_holds();
  EXPECT_EQ(move(kTwo), "");
  EXPECT_EQ(lease_->ask({.server = kOne, .ready = true, .number = 1}).holder, kTwo);
  EXPECT_EQ(holder(kTwo), kOne) << "that it had not yet is no word that it has let go";
  EXPECT_EQ(lease_->ask({.server = kOne, .ready = true, .run = 77, .number = 1}).holder, kTwo)
      << "another process of it";
  EXPECT_EQ(holder(kTwo), kTwo);
}

TEST_F(AddressLeaseTest, OfTwoWhoHaveItOneKeepsItWhicheverAsksFirst) {
  for (std::uint32_t first : {kOne, kTwo}) {
    start();
    ask(first, true, true);
    ask(kOne + kTwo - first, true, true);
    loop_.advance(1900ms);
    ask(kOne, true, true);
    ask(kTwo, true, true);
    loop_.advance(200ms);
    EXPECT_EQ(holder(first, true), kOne);
  }
}

TEST_F(AddressLeaseTest, TheHolderKeepsItAsLongAsItIsHeardOf) {
  one_holds();
  for (int i = 0; i < 20; ++i) {
    loop_.advance(1900ms);
    EXPECT_EQ(holder(kTwo), kOne);
    EXPECT_EQ(holder(kOne, true), kOne);
  }
}

TEST_F(AddressLeaseTest, ASilentHolderLosesItToOneWhoAsks) {
  one_holds();
  EXPECT_EQ(holder(kThree), kOne);
  pass(2s);
  EXPECT_EQ(holder(kTwo), kOne) << "not before the patience is over";
  loop_.advance(1ms);
  EXPECT_EQ(holder(kTwo), kTwo);
  EXPECT_EQ(holder(kThree), kTwo);
  EXPECT_EQ(holder(kOne, true), kTwo) << "it was away, and is told so";
  EXPECT_EQ(moves(), 2u);
}

TEST_F(AddressLeaseTest, ASilentHolderThatIsBackBeforeAnybodyAsksKeepsIt) {
  one_holds();
  loop_.advance(1min);
  EXPECT_EQ(holder(kOne, true), kOne);
}

TEST_F(AddressLeaseTest, NobodyGetsItWhoIsNotReady) {
  one_holds();
  pass(2100ms);
  EXPECT_EQ(ask(kTwo, false, false).holder, kNoServer);
  EXPECT_EQ(holder(kThree), kThree);
}

TEST_F(AddressLeaseTest, WhoLetsGoOfItIsSucceededAtOnce) {
  one_holds();
  EXPECT_EQ(ask(kOne, false, true).holder, kOne) << "it is not through with that yet";
  EXPECT_EQ(holder(kTwo), kOne);
  EXPECT_EQ(ask(kOne, false, false).holder, kNoServer);
  EXPECT_EQ(holder(kTwo), kTwo);
}

TEST_F(AddressLeaseTest, TheNewHolderIsToldOfTheOldOnesClients) {
  one_holds();
  const std::vector<wire::AddressPeer> peers{{0x0a4d0102, 789, 2049}};
  EXPECT_EQ(ask(kOne, true, true).peers_digest, 0u);
  EXPECT_EQ(ask(kOne, true, true, peers).peers_digest, digest(peers));
  EXPECT_EQ(ask(kOne, true, true).peers_digest, digest(peers)) << "it need not tell again";
  EXPECT_TRUE(ask(kTwo, true, false).peers.empty());
  pass(2100ms);
  EXPECT_EQ(ask(kTwo, true, false).peers, peers);
  EXPECT_EQ(ask(kTwo, true, false).peers, peers) << "the answer before may have been lost";
  EXPECT_TRUE(ask(kTwo, true, true).peers.empty());
}

TEST_F(AddressLeaseTest, WhoIsToHaveItMayTakeAWhileToPutItOn) {
  listened();
  EXPECT_EQ(holder(kOne), kOne);
  EXPECT_EQ(holder(kOne), kOne) << "it does not have it yet";
  EXPECT_EQ(holder(kTwo), kOne);
}

TEST_F(AddressLeaseTest, IsMovedOnceTheHolderHasLetGo) {
  one_holds();
  EXPECT_EQ(move(kTwo), "");
  EXPECT_EQ(holder(kTwo), kOne) << "before it has let go";
  EXPECT_EQ(holder(kOne, true), kTwo) << "it is told";
  EXPECT_EQ(holder(kTwo), kOne);
  EXPECT_EQ(holder(kThree), kOne);
  EXPECT_EQ(holder(kOne, false), kTwo);
  EXPECT_EQ(holder(kThree), kTwo);
  EXPECT_EQ(holder(kTwo), kTwo);
}

TEST_F(AddressLeaseTest, IsMovedFromAHolderThatDiesMeanwhile) {
  one_holds();
  EXPECT_EQ(move(kTwo), "");
  loop_.advance(1900ms);
  holder(kTwo);
  loop_.advance(200ms);
  EXPECT_EQ(holder(kThree), kTwo);
}

TEST_F(AddressLeaseTest, StaysWhereItIsWhereWhoIsToHaveItDies) {
  one_holds();
  EXPECT_EQ(move(kTwo), "");
  loop_.advance(1900ms);
  holder(kOne, true);
  loop_.advance(200ms);
  EXPECT_EQ(holder(kOne, true), kOne);
}

TEST_F(AddressLeaseTest, IsNotMovedToWhoCouldNotServe) {
  EXPECT_THAT(move(kDirectory), HasSubstr("no proxy"));
  EXPECT_THAT(move(17), HasSubstr("no proxy"));
  one_holds();
  EXPECT_THAT(move(kThree), HasSubstr("does not ask"));
  ask(kThree, false, false);
  EXPECT_THAT(move(kThree), HasSubstr("not ready"));
  EXPECT_EQ(move(kOne), "") << "it is there";
  EXPECT_EQ(holder(kOne, true), kOne);
}

TEST_F(AddressLeaseTest, OperatorsAndServersTakeNoPart) {
  one_holds();
  pass(2100ms);
  auto looked = lease_->ask({});
  EXPECT_EQ(looked.holder, kOne) << "to look changes nothing";
  EXPECT_THAT(looked.askers, SizeIs(3));
  EXPECT_EQ(looked.askers[0],
            (wire::AddressAsker{.server = kOne, .ready = true, .holds = true, .age_ms = 2100}));
  EXPECT_EQ(ask(kDirectory, true, false).holder, kOne);
  EXPECT_EQ(ask(999, true, true).holder, kOne);
  EXPECT_THAT(lease_->ask({}).askers, SizeIs(3));
  EXPECT_EQ(holder(kTwo), kTwo);
}

TEST_F(AddressLeaseTest, ARemovedHolderIsOneNoMore) {
  one_holds();
  members_[kOne].role = wire::Role::kRemoved;
  EXPECT_EQ(holder(kTwo), kTwo);
}

}  // namespace
}  // namespace slice::manager
