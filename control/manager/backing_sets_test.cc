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

// A storage server, with that file or nothing of any set.
class FakeNode : public service::InternalProgram {
 public:
  FakeNode() : InternalProgram(wire::kBackingProgram) {
    on<wire::BackingReadArgs>(wire::BackingProcedure::kRead, [this](const wire::BackingReadArgs& args) {
      const bool has = contents_ && args.path == wire::kBackingMembersFile && args.owner.epoch.value == 0;
      return wire::BackingReadResult{.status = has ? wire::BackingStatus::kOk : wire::BackingStatus::kGap,
                                     .bytes = has ? contents_->view() : ByteView{}};
    });
  }
  void has(const wire::BackingMembersFile& file) {
    rpc::XdrWriter out;
    encode(out, file);
    contents_ = storage::with_checksum(out.take());
  }
  void damage() { contents_->data()[9] ^= 1; }

 private:
  std::optional<Buffer> contents_;
};

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
  // Each a later change, unless it is given.
  wire::BackingMembersResult set_members(std::uint32_t server, std::uint64_t epoch, std::uint64_t instance,
                                         Members members, std::uint64_t change = 0) {
    last_change_ = change != 0 ? change : last_change_ + 1;
    return ask<wire::BackingMembersResult>(
               Procedure::kBackingMembers,
               wire::BackingMembersArgs{
                   {server, BackingEpoch{epoch}, instance}, last_change_, std::move(members)})
        .value();
  }
  std::uint64_t last_change_ = 0;
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
  std::uint32_t add(const std::string& name, wire::Role role, IpAddress address, std::string host = "") {
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
  EXPECT_EQ(first.set, (wire::BackingSet{kDir, BackingEpoch{1}, 71, 2, 0, {kStore1, kStore2}}));
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
  EXPECT_THAT(claim_set(kSmall, 1).refused, HasSubstr("store1, store2 does not answer"));
  FakeNode empty;
  for (const char* store : {"store1", "store2"}) serve(store, empty);
  EXPECT_THAT(claim_set(kSmall, 1).refused, HasSubstr("small1 has served"));
  EXPECT_EQ(claim("dir1", dealt(1))->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_EQ(claim_set(kDir, 2).set.epoch, BackingEpoch{2});
  EXPECT_EQ(metrics_.counter("manager_backing_refused_total").value(), 5u);
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
  EXPECT_TRUE(loads({kDir, BackingEpoch{1}, 1, 1, 0, {kStore1}}));
  EXPECT_FALSE(loads({77, BackingEpoch{1}, 1, 1, 0, {kStore1}}));
  EXPECT_FALSE(loads({kDir, BackingEpoch{1}, 1, 1, 0, {77}}));
  EXPECT_TRUE(loads({kDir, BackingEpoch{1}, 1, 1, 0, {kStore1}}));
}

class NewBackingSetsTest : public BackingSetsTest {
 protected:
  NewBackingSetsTest() : BackingSetsTest(false) {}
};

TEST_F(NewBackingSetsTest, NothingIsClaimedWhileTheManagerFindsOut) {
  beat_all();
  EXPECT_THAT(claim_set(kDir, 1).refused, HasSubstr("waiting"));
  EXPECT_FALSE(ask<wire::BackingMembersResult>(
      Procedure::kBackingMembers, wire::BackingMembersArgs{{kDir, BackingEpoch{1}, 1}, 1, {kStore1}}))
      << "an owner that is refused ends";
  EXPECT_FALSE(spare(kDir).found);
}

TEST_F(BackingSetsTest, AChangeOfTheMembersThatComesLateChangesNothing) {
  beat_all();
  claim_set(kDir, 1);
  EXPECT_EQ(set_members(kDir, 1, 1, {kStore1}, 5).refused, "");
  EXPECT_THAT(set_members(kDir, 1, 1, {kStore1, kStore2}, 4).refused, HasSubstr("a later change"));
  EXPECT_THAT(set_members(kDir, 1, 1, {kStore1, kStore2}, 5).refused, HasSubstr("a later change"));
  EXPECT_EQ(set_members(kDir, 1, 1, {kStore1}, 5).refused, "") << "its answer was lost";
  EXPECT_EQ(sets().at(0).members, Members{kStore1});
  EXPECT_EQ(set_members(kDir, 1, 1, {kStore1, kStore2}, 6).refused, "");
  // The next owner counts anew.
  claim_set(kDir, 2, 1);
  EXPECT_EQ(set_members(kDir, 2, 2, {kStore2}, 1).refused, "");
}

// ---- sets that the state does not know ----

wire::BackingMembersFile says(std::uint64_t epoch, std::uint64_t change, Members members) {
  return {.set = {kDir, BackingEpoch{epoch}, 70 + epoch, 2, change, std::move(members)}};
}

SetOnNode on(std::uint32_t storage, std::optional<wire::BackingMembersFile> file) {
  return {.storage = storage, .answered = true, .file = std::move(file)};
}

class LostSetTest : public BackingSetsTest {
 protected:
  // `first` and `second` of the sample's storage servers, `others` besides.
  Result<wire::BackingSet> find(std::vector<SetOnNode> nodes) { return find_set_in(nodes, dealt(1)); }
};

TEST_F(LostSetTest, TheNewestFileCountsWhereAllWhomItNamesHaveOne) {
  auto found = find({on(kStore1, says(4, 2, {kStore1, kStore2})), on(kStore2, says(4, 1, {kStore2}))});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->members, ElementsAre(kStore1, kStore2));
  EXPECT_GT(found->epoch, BackingEpoch{1000}) << "behind those that runs were given since";
  EXPECT_EQ(found->instance, 74u);
  // A later epoch goes before a later change of an earlier one.
  found = find({on(kStore1, says(5, 1, {kStore1})), on(kStore2, says(4, 9, {kStore1, kStore2}))});
  EXPECT_THAT(found->members, ElementsAre(kStore1));
  // What others have does not matter.
  found = find({on(kStore1, says(5, 1, {kStore1})), on(kStore2, std::nullopt)});
  EXPECT_THAT(found->members, ElementsAre(kStore1));
}

TEST_F(LostSetTest, WhereOneThatMayHaveMoreIsMissingNobodyIsTaken) {
  const SetOnNode silent{.storage = kStore2, .answered = false, .file = {}};
  auto found = find({on(kStore1, says(4, 2, {kStore1, kStore2})), silent});
  EXPECT_EQ(found.error().code, Errc::kUnavailable);
  EXPECT_THAT(found.error().message, HasSubstr("store2 is a member"));
  found = find({on(kStore1, says(4, 2, {kStore1, kStore2})), on(kStore2, std::nullopt)});
  EXPECT_EQ(found.error().code, Errc::kUnavailable) << "its disk is another one now";
  found = find({on(kStore1, std::nullopt), silent});
  EXPECT_THAT(found.error().message, HasSubstr("store2 does not answer"));
  EXPECT_EQ(find({on(kStore1, std::nullopt), on(kStore2, std::nullopt)}).error().code, Errc::kNotFound);
  EXPECT_TRUE(find({on(kStore1, says(4, 2, {kStore1})), silent}));
}

TEST_F(LostSetTest, AClaimOfWhatIsNotKnownGoesByTheFiles) {
  EXPECT_EQ(claim("dir1", dealt(1))->verdict, wire::ClaimVerdict::kTaken);
  FakeNode first, second;
  serve("store1", first);
  serve("store2", second);
  first.has(says(4, 2, {kStore1, kStore2}));
  second.has(says(4, 2, {kStore1, kStore2}));
  second.damage();
  EXPECT_THAT(claim_set(kDir, 1).refused, HasSubstr("store2 is a member of it"));
  second.has(says(3, 1, {kStore1, kStore2}));
  auto claimed = claim_set(kDir, 1);
  EXPECT_EQ(claimed.refused, "");
  EXPECT_FALSE(claimed.made);
  EXPECT_THAT(claimed.set.members, ElementsAre(kStore1, kStore2));
  EXPECT_GT(claimed.set.epoch, BackingEpoch{1 << 20});
  EXPECT_EQ(claim_set(kDir, 1).set, claimed.set);
  ASSERT_TRUE(restart());
  EXPECT_THAT(sets(), ElementsAre(claimed.set));
}

TEST_F(LostSetTest, AnOwnerThatLivesIsBelieved) {
  const wire::BackingSet set{kDir, BackingEpoch{7}, 77, 2, 3, {kStore1, kStore2}};
  const auto keep = [&](wire::BackingSet said) {
    return ask<wire::BackingKeepResult>(Procedure::kBackingKeep, wire::BackingKeepArgs{std::move(said)})
        ->refused;
  };
  EXPECT_EQ(keep(set), "");
  EXPECT_THAT(sets(), ElementsAre(set));
  EXPECT_EQ(keep(set), "");
  EXPECT_EQ(metrics_.counter("manager_backing_found_total").value(), 1u);
  // The state was an older one: other members, or another owner.
  wire::BackingSet later = set;
  later.members = {kStore2};
  later.change = 4;
  EXPECT_EQ(keep(later), "");
  EXPECT_THAT(sets(), ElementsAre(later));
  EXPECT_EQ(keep(set), "") << "it comes late";
  EXPECT_THAT(sets(), ElementsAre(later));
  later.epoch = BackingEpoch{8};
  later.instance = 78;
  EXPECT_EQ(keep(later), "");
  EXPECT_EQ(keep(set), "") << "it hears of the later one from its nodes";
  EXPECT_THAT(sets(), ElementsAre(later));
  wire::BackingSet other = later;
  other.instance = 79;
  EXPECT_THAT(keep(other), HasSubstr("another run's"));
  other = {kSmall, BackingEpoch{1}, 1, 1, 0, {kCoord}};
  EXPECT_THAT(keep(other), HasSubstr("no storage server"));
  other = {kStore1, BackingEpoch{1}, 1, 1, 0, {kStore2}};
  EXPECT_THAT(keep(other), HasSubstr("no member that may have"));
  // The next run goes on from there.
  beat_all();
  EXPECT_EQ(claim_set(kDir, 80).set.epoch, BackingEpoch{9});
}

TEST_F(LostSetTest, AnOperatorIsBelievedWhereNobodyKnows) {
  EXPECT_EQ(claim("dir1", dealt(1))->verdict, wire::ClaimVerdict::kTaken);
  beat_all();
  EXPECT_THAT(claim_set(kDir, 1).refused, HasSubstr("does not answer"));
  const auto adopt = [&](Members members) {
    return ask<wire::BackingAdoptResult>(Procedure::kBackingAdopt,
                                         wire::BackingAdoptArgs{kDir, std::move(members)})
        ->refused;
  };
  EXPECT_THAT(adopt({kSmall}), HasSubstr("no storage server"));
  EXPECT_EQ(adopt({kStore2}), "");
  EXPECT_THAT(adopt({kStore1}), HasSubstr("is known"));
  auto claimed = claim_set(kDir, 2);
  EXPECT_EQ(claimed.refused, "");
  EXPECT_FALSE(claimed.made) << "there is something in it";
  EXPECT_THAT(claimed.set.members, ElementsAre(kStore2));
  EXPECT_GT(claimed.set.epoch, BackingEpoch{1ull << 40});
}

TEST_F(LostSetTest, AnOlderStateKnowsNoSets) {
  beat_all();
  EXPECT_EQ(claim_set(kDir, 1).refused, "");
  ASSERT_TRUE(beat("small1", 1, 1000));
  EXPECT_TRUE(sets().empty()) << "a verifier that it has not drawn: its sets may be others by now";
}

}  // namespace
}  // namespace slice::manager
