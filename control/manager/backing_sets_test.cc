#include "control/manager/backing_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/manager/testing/manager_fixture.h"
#include "storage/durable_file.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Procedure = wire::ManagerProcedure;
using Members = std::vector<std::uint32_t>;

constexpr std::uint32_t kDir = 0, kSmall = 1, kStore1 = 2, kStore2 = 3, kCoord = 4;

class BackingSetsTest : public testing::ManagerFixture {
 protected:
  using ManagerFixture::ManagerFixture;
  void beat_all() {
    for (const char* name : {"store1", "store2"}) ASSERT_TRUE(beat(name, 1));
  }
  wire::BackingClaimResult claim_set(std::uint32_t server, std::uint64_t instance, std::uint64_t former = 0,
                                     std::uint32_t copies = 2) {
    return ask<wire::BackingClaimResult>(Procedure::kBackingClaim,
                                         wire::BackingClaimArgs{server, instance, former, copies})
        .value();
  }
  wire::BackingMembersResult set_members(std::uint32_t server, std::uint64_t epoch, std::uint64_t instance,
                                         Members members) {
    return ask<wire::BackingMembersResult>(
               Procedure::kBackingMembers,
               wire::BackingMembersArgs{{server, BackingEpoch{epoch}, instance}, std::move(members)})
        .value();
  }
  wire::BackingSpareResult spare(std::uint32_t server) {
    return ask<wire::BackingSpareResult>(Procedure::kBackingSpare, wire::BackingSpareArgs{server}).value();
  }
  std::vector<wire::BackingSet> sets() {
    return ask<wire::BackingSetsResult>(Procedure::kBackingSets, service::NoArguments{})->sets;
  }
  wire::ChangeServerResult change_server(wire::ServerChange what, const std::string& name) {
    return ask<wire::ChangeServerResult>(Procedure::kChangeServer,
                                         wire::ChangeServerArgs{what, {.name = name}})
        .value();
  }
  // One more of a role, and it is heard of.
  std::uint32_t add(const std::string& name, wire::Role role, std::uint32_t address, std::string host = "") {
    auto added = ask<wire::ChangeServerResult>(
        Procedure::kChangeServer,
        wire::ChangeServerArgs{
            wire::ServerChange::kAdd,
            {.role = role, .endpoint = {address, 2049}, .name = name, .host = std::move(host)},
            wire::ChangeServerArgs::kAll});
    EXPECT_EQ(added->refused, "");
    beat_as(added->entry.server, 1);
    return added->entry.server;
  }
  void beat_as(std::uint32_t server, std::uint64_t pid) {
    wire::HeartbeatArgs args{.server = server, .pid = pid};
    args.state = "serving";
    ASSERT_TRUE(ask<wire::HeartbeatResult>(Procedure::kHeartbeat, args));
  }
};

TEST_F(BackingSetsTest, TheFirstClaimMakesTheSetAndEachOtherRunGetsALaterEpoch) {
  beat_all();
  auto first = claim_set(kDir, 71);
  EXPECT_EQ(first.refused, "");
  EXPECT_TRUE(first.made);
  EXPECT_EQ(first.set, (wire::BackingSet{kDir, BackingEpoch{1}, 71, 2, {kStore1, kStore2}}));
  auto same = claim_set(kDir, 71);
  EXPECT_TRUE(same.made) << "the first answer may have been lost";
  EXPECT_EQ(same.set, first.set);
  auto second = claim_set(kDir, 72);
  EXPECT_FALSE(second.made);
  EXPECT_EQ(second.set.epoch, BackingEpoch{2});
  EXPECT_EQ(second.set.members, first.set.members);
  for (std::uint64_t epoch = 3; epoch < 6; ++epoch) {
    disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
    restart().value();
    EXPECT_EQ(claim_set(kDir, 70 + epoch, 0, 3).set.epoch, BackingEpoch{epoch}) << "also by a new manager";
  }
  EXPECT_EQ(sets().at(0).copies, 3u) << "what is to be changes with what its owner says";
  EXPECT_EQ(claim_set(kDir, 75, 0, 1).set.copies, 1u);
  beat_all();
  EXPECT_EQ(claim_set(kCoord, 9, 0, 1).set.members, Members{kStore1});
  EXPECT_EQ(sets().size(), 2u);
  EXPECT_EQ(metrics_.counter("manager_backing_claims_total").value(), 6u);
}

TEST_F(BackingSetsTest, WhatCannotBeClaimed) {
  EXPECT_THAT(claim_set(kDir, 1).refused, HasSubstr("no storage server"));
  beat("store2", 1);
  EXPECT_THAT(claim_set(kStore1, 1).refused, HasSubstr("has no backing set"));
  EXPECT_THAT(claim_set(99, 1).refused, HasSubstr("no member"));
  auto one = claim_set(kDir, 1);
  EXPECT_EQ(one.set.members, Members{kStore2}) << "the other is silent";
  EXPECT_EQ(one.set.copies, 2u);
  // It has served, without a set that the manager knows of.
  EXPECT_EQ(claim("small1", dealt(1))->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_THAT(claim_set(kSmall, 1).refused, HasSubstr("small1 has served"));
  EXPECT_EQ(claim("dir1", dealt(1))->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_EQ(claim_set(kDir, 2).set.epoch, BackingEpoch{2});
  EXPECT_EQ(metrics_.counter("manager_backing_refused_total").value(), 4u);
}

TEST_F(BackingSetsTest, WhileAnotherRunIsHeardOfTheSetIsIts) {
  beat_all();
  beat_as(kDir, 500);
  EXPECT_EQ(claim_set(kDir, 1).set.epoch, BackingEpoch{1});
  loop_.advance(500ms);
  beat_as(kDir, 600);
  EXPECT_THAT(claim_set(kDir, 2).refused, HasSubstr("another run of dir1 is alive"));
  EXPECT_EQ(claim_set(kDir, 1).set.epoch, BackingEpoch{1});
  loop_.advance(1s);
  beat_as(kDir, 500);
  beat_as(kDir, 600);
  loop_.advance(1900ms);
  EXPECT_THAT(claim_set(kDir, 2).refused, HasSubstr("another run of dir1 is alive"));
  EXPECT_EQ(claim_set(kDir, 3, 1).set.epoch, BackingEpoch{2}) << "who knows that the other one has ended";
  beat_as(kDir, 600);
  loop_.advance(200ms);
  EXPECT_EQ(claim_set(kDir, 4).set.epoch, BackingEpoch{3}) << "the other one is heard no more";
}

TEST_F(BackingSetsTest, OnlyTheOwnerChangesItsMembers) {
  beat_all();
  claim_set(kDir, 1);
  claim_set(kDir, 2);
  EXPECT_THAT(set_members(kDir, 1, 1, {kStore1}).refused, HasSubstr("epoch 1 is over"));
  EXPECT_THAT(set_members(kDir, 2, 1, {kStore1}).refused, HasSubstr("another run"));
  EXPECT_THAT(set_members(kDir, 3, 2, {kStore1}).refused, HasSubstr("is over"));
  EXPECT_THAT(set_members(kSmall, 1, 1, {kStore1}).refused, HasSubstr("has no backing set"));
  EXPECT_THAT(set_members(kDir, 2, 2, {kDir}).refused, HasSubstr("no storage server"));
  EXPECT_THAT(set_members(kDir, 2, 2, {kStore1, 99}).refused, HasSubstr("no storage server"));
  auto changed = set_members(kDir, 2, 2, {kStore2});
  EXPECT_EQ(changed.refused, "");
  EXPECT_EQ(changed.set.members, Members{kStore2});
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  restart().value();
  EXPECT_EQ(sets().at(0), changed.set) << "durable";
  EXPECT_EQ(change_server(wire::ServerChange::kLose, "store1").refused, "");
  EXPECT_THAT(set_members(kDir, 2, 2, {kStore1}).refused, HasSubstr("was lost"));
}

TEST_F(BackingSetsTest, ASpareIsOnAnotherHostAndHasFewCopies) {
  EXPECT_FALSE(spare(kDir).found) << "no set";
  beat_all();
  EXPECT_EQ(claim_set(kDir, 1, 0, 1).set.members, Members{kStore1});
  EXPECT_EQ(spare(kDir).storage, kStore2);
  const std::uint32_t three = add("store3", wire::Role::kStorage, 0x0a4d6302, "h3");
  EXPECT_EQ(claim_set(kSmall, 1, 0, 1).set.members, Members{kStore2}) << "store1 has one already";
  EXPECT_EQ(spare(kDir).storage, three);
  EXPECT_EQ(claim_set(kCoord, 1, 0, 2).set.members, (Members{three, kStore1}));
  // The same host, by its name or, where that is not said, by its address.
  const std::uint32_t beside = add("store4", wire::Role::kStorage, 0x0a4d6402, "h3");
  EXPECT_EQ(set_members(kCoord, 1, 1, {three}).refused, "");
  EXPECT_EQ(set_members(kDir, 1, 1, {three}).refused, "");
  EXPECT_EQ(spare(kCoord).storage, kStore1) << "none has fewer but the one beside it";
  EXPECT_EQ(change_server(wire::ServerChange::kDrain, "store1").refused, "");
  EXPECT_EQ(spare(kCoord).storage, kStore2);
  loop_.advance(10s);
  beat_as(beside, 1);
  EXPECT_FALSE(spare(kCoord).found) << "the other hosts' are silent; they may come back";
  EXPECT_EQ(change_server(wire::ServerChange::kDrain, "store2").refused, "");
  EXPECT_EQ(spare(kCoord).storage, beside) << "there is no other host";
  EXPECT_EQ(change_server(wire::ServerChange::kUse, "store2").refused, "");
  beat("store2", 1);
  EXPECT_EQ(spare(kCoord).storage, kStore2);
}

TEST_F(BackingSetsTest, WhoHasACopyIsNotRemovedAndARemovedOwnersSetIsForgotten) {
  beat_all();
  const std::uint32_t three = add("store3", wire::Role::kStorage, 0x0a4d6302);
  const std::uint32_t dir2 = add("dir2", wire::Role::kDirectory, 0x0a4d6402);
  claim_set(dir2, 1);
  EXPECT_EQ(set_members(dir2, 1, 1, {three}).refused, "");
  EXPECT_EQ(change_server(wire::ServerChange::kDrain, "store3").refused, "");
  EXPECT_THAT(change_server(wire::ServerChange::kRemove, "store3").refused,
              HasSubstr("has a copy of the backing set of dir2"));
  EXPECT_EQ(change_server(wire::ServerChange::kRemove, "dir2").refused, "");
  EXPECT_TRUE(sets().empty());
  EXPECT_THAT(claim_set(dir2, 1).refused, HasSubstr("has no backing set"));
  EXPECT_EQ(change_server(wire::ServerChange::kRemove, "store3").refused, "");
}

// As a version 6 has it: without the number of sets before the tables.
TEST_F(BackingSetsTest, AStateOfBeforeThereWereSetsIsRead) {
  rpc::XdrWriter out;
  out.u32(0x534c4d53);
  out.u32(6);
  out.u64(9);
  out.u32(config_.volume.id.value);
  out.u64(config_.volume.threshold);
  out.u32(static_cast<std::uint32_t>(config_.volume.policy));
  out.u32(static_cast<std::uint32_t>(config_.volume.hash));
  out.u32(0);
  out.u64(71);
  out.boolean(false);
  out.u64(0);
  out.u32(0);
  encode(out, dealt(6));
  ASSERT_TRUE(run(storage::replace_file(disk_, kStateFile, out.take())));
  for (int starts = 0; starts < 2; ++starts) {
    ASSERT_TRUE(restart());
    EXPECT_EQ(tables_told()->generation, Generation{6});
    EXPECT_EQ(manager_->durable_state().last_move, wire::MoveId{71});
    EXPECT_EQ(sets().size(), starts == 0 ? 0u : 1u);
    beat_all();
    EXPECT_EQ(claim_set(kDir, 5).refused, "");  // which writes it in today's format
  }
}

TEST_F(BackingSetsTest, SetsOfNobodyAreADamagedState) {
  auto loads = [this](wire::BackingSet set) {
    ManagerState state{.drawn = {}, .volume = config_.volume, .tables = dealt(1)};
    state.backing_sets = {std::move(set)};
    EXPECT_TRUE(run(save_state(store_, state)));
    return restart().has_value();
  };
  EXPECT_TRUE(loads({kDir, BackingEpoch{1}, 1, 1, {kStore1}}));
  EXPECT_FALSE(loads({77, BackingEpoch{1}, 1, 1, {kStore1}}));
  EXPECT_FALSE(loads({kDir, BackingEpoch{1}, 1, 1, {77}}));
  EXPECT_TRUE(loads({kDir, BackingEpoch{1}, 1, 1, {kStore1}}));
}

class NewBackingSetsTest : public BackingSetsTest {
 protected:
  NewBackingSetsTest() : BackingSetsTest(false) {}
};

TEST_F(NewBackingSetsTest, NothingIsClaimedWhileTheManagerFindsOut) {
  beat_all();
  EXPECT_THAT(claim_set(kDir, 1).refused, HasSubstr("waiting"));
  EXPECT_THAT(set_members(kDir, 1, 1, {kStore1}).refused, HasSubstr("waiting"));
  EXPECT_FALSE(spare(kDir).found);
}

}  // namespace
}  // namespace slice::manager
