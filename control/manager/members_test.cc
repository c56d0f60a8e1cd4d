#include "control/manager/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/manager/testing/manager_fixture.h"
#include "service/admin_program.h"
#include "service/internal_program.h"
#include "service/manager_session.h"
#include "wire/coordinator.h"
#include "wire/layout.h"

namespace slice::manager {
namespace {

using ::testing::HasSubstr;

class MembershipTest : public testing::ManagerFixture {
 protected:
  Result<wire::ChangeServerResult> change(bool add, const std::string& name, wire::Role role,
                                          IpAddress address, std::uint16_t port = 2049) {
    return ask<wire::ChangeServerResult>(
        wire::ManagerProcedure::kChangeServer,
        wire::ChangeServerArgs{add ? wire::ServerChange::kAdd : wire::ServerChange::kSet,
                               {.server = 77, .role = role, .endpoint = {address, port}, .name = name}});
  }
  static constexpr std::uint32_t kFree = 0x0a4d6302;
};

TEST_F(MembershipTest, AServerIsAddedWhileAllServe) {
  auto added = change(true, "store3", wire::Role::kStorage, kFree);
  ASSERT_TRUE(added);
  EXPECT_EQ(added->refused, "");
  EXPECT_EQ(added->entry.server, 7u) << "behind all others";
  EXPECT_EQ(added->generation, Generation{2});
  EXPECT_EQ(change(true, "store3", wire::Role::kStorage, kFree)->generation, Generation{2}) << "it is there";
  restart().value();
  wire::Tables tables = *tables_told();
  ASSERT_EQ(tables.servers.size(), 8u);
  EXPECT_EQ(tables.servers[7].endpoint.address, kFree);
  EXPECT_EQ(tables.sites[2], dealt(1).sites[2]) << "it holds no sites";
  // It beats, and is granted nothing.
  wire::HeartbeatArgs args{.server = 7};
  args.state = "waiting";
  ASSERT_TRUE(ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args));
  auto granted =
      ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim, wire::ClaimArgs{.server = 7, .sites = {}});
  EXPECT_EQ(granted->verdict, wire::ClaimVerdict::kGrant);
  auto claimed = ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim,
                                        wire::ClaimArgs{.server = 7, .has_record = true, .sites = {}});
  EXPECT_EQ(claimed->verdict, wire::ClaimVerdict::kTaken);
  auto members = ask<wire::MembersResult>(wire::ManagerProcedure::kMembers, service::NoArguments{});
  ASSERT_EQ(members->members.size(), 8u);
  EXPECT_EQ(members->members[7].entry.name, "store3");
  EXPECT_TRUE(members->members[7].alive);
}

// A process knows them before it knows the state, and the file may list others behind those of the birth.
TEST_F(MembershipTest, AStartKnowsTheMembersByTheNewestTables) {
  EXPECT_EQ(change(true, "store3", wire::Role::kStorage, kFree)->refused, "");
  auto kept = run(service::read_kept_tables(disk_));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->generation, Generation{2});
  EXPECT_EQ(kept->servers.size(), 8u);
  // Where they are lost, or older: it cannot serve, and the next start can.
  ASSERT_TRUE(run(disk_.remove("tables.copy")));
  service::testing::add_server(config_, "another", ServerRole::kStorage);
  auto started = restart();
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("server 7 is 'store3'"));
  kept = run(service::read_kept_tables(disk_));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->servers.size(), 8u);
}

TEST_F(MembershipTest, ThereAreNotMoreServersThanAProxyHasRoomFor) {
  for (std::uint32_t i = 7; i < kMaxServers; ++i) {
    ASSERT_EQ(change(true, fmt::format("store{}", i), wire::Role::kStorage, kFree + i)->refused, "");
  }
  EXPECT_THAT(change(true, "more", wire::Role::kStorage, kFree)->refused, HasSubstr("1023 servers at most"));
  EXPECT_EQ(tables_told()->servers.size(), kMaxServers);
}

TEST_F(MembershipTest, AServerGetsAnotherAddress) {
  auto moved = change(false, "store1", {}, kFree, 2050);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->refused, "");
  EXPECT_EQ(moved->entry.role, wire::Role::kStorage);
  restart().value();
  const std::uint32_t index = config_.find("store1")->index;
  EXPECT_EQ(tables_told()->servers[index].endpoint, (rpc::Endpoint{kFree, 2050}));
  EXPECT_EQ(tables_told()->generation, Generation{2});
}

TEST_F(MembershipTest, WhatCannotBeIsRefused) {
  const rpc::Endpoint store2 = endpoint("store2");
  EXPECT_THAT(change(true, "store3", wire::Role::kStorage, store2.address)->refused,
              HasSubstr("store2 is at"));
  EXPECT_THAT(change(true, "store2", wire::Role::kProxy, kFree)->refused, HasSubstr("is a storage"));
  EXPECT_THAT(change(true, "store2", wire::Role::kStorage, kFree)->refused, HasSubstr("server set"));
  EXPECT_THAT(change(true, "a b", wire::Role::kStorage, kFree)->refused, HasSubstr("a name is"));
  EXPECT_THAT(change(true, "manager2", wire::Role::kManager, kFree)->refused, HasSubstr("manager"));
  EXPECT_THAT(change(false, "manager1", {}, kFree)->refused, HasSubstr("manager"));
  EXPECT_THAT(change(false, "store9", {}, kFree)->refused, HasSubstr("no server has the name"));
  EXPECT_THAT(change(true, "store3", wire::Role::kStorage, config_.proxy.virtual_address)->refused,
              HasSubstr("no address of a server"));
  EXPECT_THAT(change(true, "store3", wire::Role::kStorage, kFree, 0)->refused,
              HasSubstr("no address of a server"));
  EXPECT_EQ(tables_told()->generation, Generation{1});
}

// What is removed, and what others see of that: in the tests below store3, which was added and has nothing.
class RemovalTest : public MembershipTest {
 protected:
  static constexpr std::uint32_t kNumber = 7;
  RemovalTest() { EXPECT_EQ(change(true, "store3", wire::Role::kStorage, kFree)->entry.server, kNumber); }
  Result<wire::ChangeServerResult> remove(const std::string& name) {
    return ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                         wire::ChangeServerArgs{.change = wire::ServerChange::kRemove,
                                                                .entry = {.endpoint = {}, .name = name}});
  }
  void beat_as(std::uint32_t server, std::uint64_t record_digest = 0) {
    EXPECT_TRUE(ask<wire::HeartbeatResult>(
        wire::ManagerProcedure::kHeartbeat,
        wire::HeartbeatArgs{.server = server, .record_digest = record_digest, .state = "serving"}));
  }
  Result<wire::ClaimResult> claim_as(std::uint32_t server, bool has_record) {
    return ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim,
                                  wire::ClaimArgs{.server = server, .has_record = has_record, .sites = {}});
  }
};

// What a coordinator says of storage servers.
class FakeCoordinator : public service::InternalProgram {
 public:
  FakeCoordinator() : InternalProgram(wire::kCoordinatorProgram) {
    on<wire::EmptiedArgs>(wire::CoordinatorProcedure::kEmptied, [this](const wire::EmptiedArgs& args) {
      asked = args;
      if (meanwhile) meanwhile();
      return answer;
    });
  }
  std::optional<wire::EmptiedArgs> asked;
  wire::EmptiedResult answer;
  std::function<void()> meanwhile;
};

TEST_F(RemovalTest, WhatIsRemovedKeepsItsNumberAndNothingElse) {
  beat_as(kNumber);
  ASSERT_EQ(claim_as(kNumber, true)->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_TRUE(tables_told()->servers[kNumber].started);
  EXPECT_EQ(tables_told()->generation, Generation{3});
  EXPECT_THAT(remove("store3")->refused, HasSubstr("coord1 does not say whether stripes are left on it"));
  FakeCoordinator coordinator;
  serve("coord1", coordinator);
  auto removed = remove("store3");
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->refused, "");
  EXPECT_EQ(removed->entry.server, kNumber);
  EXPECT_EQ(removed->entry.role, wire::Role::kRemoved);
  EXPECT_EQ(removed->generation, Generation{4});
  EXPECT_EQ(remove("store3")->generation, Generation{4}) << "it is so";
  for (int starts = 0; starts < 2; ++starts) {
    const wire::Tables tables = *tables_told();
    ASSERT_EQ(tables.servers.size(), kNumber + 1);
    EXPECT_EQ(tables.servers[kNumber].role, wire::Role::kRemoved);
    EXPECT_EQ(tables.servers[kNumber].endpoint.port, 0);
    EXPECT_FALSE(tables.servers[kNumber].started);
    EXPECT_EQ(wire::find_member(tables, "store3"), nullptr);
    beat_as(kNumber, 5);
    EXPECT_FALSE(manager_->members().members.at(kNumber).alive) << "its process counts for nothing";
    EXPECT_FALSE(claim_as(kNumber, false));
    EXPECT_FALSE(claim_as(kNumber, true));
    EXPECT_THAT(manager_->detail(), HasSubstr("of 7 processes"));
    EXPECT_FALSE(manager_->durable_state().recorded.contains("store3"));
    EXPECT_THAT(change(false, "store3", {}, kFree + 1)->refused, HasSubstr("it was removed"));
    restart().value();
  }
  // Again, on the same address: another server.
  auto again = change(true, "store3", wire::Role::kStorage, kFree);
  EXPECT_EQ(again->refused, "");
  EXPECT_EQ(again->entry.server, kNumber + 1);
  EXPECT_EQ(again->entry.since, Generation{5});
  EXPECT_EQ(claim_as(kNumber + 1, false)->verdict, wire::ClaimVerdict::kGrant) << "nothing of it was lost";
  EXPECT_FALSE(claim_as(kNumber, true));
  EXPECT_EQ(remove("store3")->entry.server, kNumber + 1);
  EXPECT_EQ(tables_told()->servers.size(), kNumber + 2);
}

// It has no site, but may have stripes of files with a layout from then on. Those of the birth need no note.
TEST_F(RemovalTest, AStorageServerThatCameLaterIsKnownToHaveStarted) {
  ASSERT_EQ(claim_as(kNumber, false)->verdict, wire::ClaimVerdict::kGrant);
  EXPECT_FALSE(tables_told()->servers[kNumber].started) << "it has no record yet";
  ASSERT_EQ(claim_as(kNumber, true)->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_TRUE(tables_told()->servers[kNumber].started);
  restart().value();
  const wire::Tables tables = *tables_told();
  EXPECT_TRUE(tables.servers[kNumber].started);
  EXPECT_FALSE(tables.servers[config_.find("store1")->index].started);
  EXPECT_TRUE(routing::RoutingTables::make(config_, tables).value()->some_came_later());
  ASSERT_EQ(claim_as(kNumber, true)->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_EQ(tables_told()->generation, tables.generation) << "it is so";
}

TEST_F(RemovalTest, ItsProcessIsToldAtOnce) {
  std::vector<Generation> told;
  Metrics metrics;
  service::AdminProgram process(
      "store3", metrics,
      service::AdminProgram::Hooks{
          .refresh = {}, .misdirected = {}, .new_tables = [&told](Generation generation) -> Task<void> {
            told.push_back(generation);
            co_return;
          }});
  rpc::Dispatcher dispatcher(metrics);
  dispatcher.add(process);
  network_.attach({kFree, 2049}, &dispatcher);
  ASSERT_EQ(remove("store3")->refused, "");
  EXPECT_TRUE(loop_.run_until([&] { return !told.empty(); }));
  EXPECT_THAT(told, ::testing::ElementsAre(Generation{3}));
  network_.attach({kFree, 2049}, nullptr);
}

TEST_F(RemovalTest, OfManagersThatShareTheirStateOthersComeAndGo) {
  auto add_manager = [&](const std::string& name) {
    wire::ServerEntry entry{.role = wire::Role::kManager, .endpoint = {kFree + 7, 2049}, .name = name};
    return ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                         wire::ChangeServerArgs{.entry = entry})
        ->refused;
  };
  EXPECT_THAT(add_manager("manager2"), HasSubstr("is where every process's configuration says"));
  config_.managers.etcd = {"http://10.77.9.9:2379"};
  EXPECT_EQ(add_manager("manager2"), "");
  EXPECT_EQ(tables_told()->servers.back().name, "manager2");
  EXPECT_THAT(remove("manager1")->refused, HasSubstr("manager1 is the manager that leads"));
  EXPECT_EQ(remove("manager2")->refused, "");
  EXPECT_EQ(tables_told()->servers.back().role, wire::Role::kRemoved);
}

TEST_F(RemovalTest, WhatHasSomethingStays) {
  EXPECT_THAT(remove("store1")->refused, HasSubstr("has 512 storage sites"));
  EXPECT_THAT(remove("manager1")->refused, HasSubstr("the manager cannot be removed"));
  EXPECT_THAT(remove("dir1")->refused, HasSubstr("dir1 is the last directory server"));
  EXPECT_THAT(remove("proxy1")->refused, HasSubstr("proxy1 is the last proxy server"));
  EXPECT_THAT(remove("store9")->refused, HasSubstr("no server has the name 'store9'"));
  EXPECT_EQ(tables_told()->generation, Generation{2});
}

// store1's sites have moved; where files with a layout have stripes coordinators know.
TEST_F(RemovalTest, AServerOfTheVolumesBirthGoesWhenCoordinatorsHaveNothingThere) {
  wire::Tables moved = *tables_told();
  wire::keep_layout_sites(moved);
  const std::uint32_t store1 = config_.find("store1")->index;
  for (std::uint32_t& owner : moved.sites[2]) owner = config_.find("store2")->index;
  ++moved.generation.value;
  beat_with("store2", moved);
  ASSERT_EQ(tables_told()->generation, moved.generation);
  FakeCoordinator coordinator;
  serve("coord1", coordinator);
  coordinator.answer = {.status = nfs3::Status::kJukebox, .left = "so and so"};
  EXPECT_THAT(remove("store1")->refused, HasSubstr("may have stripes on it, says coord1: so and so"));
  EXPECT_EQ(coordinator.asked->server, store1);
  EXPECT_EQ(coordinator.asked->known, moved.generation);
  // It may be in use again since.
  coordinator.answer.status = nfs3::Status::kOk;
  coordinator.meanwhile = [&] { (void)change(true, "late", wire::Role::kStorage, kFree + 1); };
  EXPECT_THAT(remove("store1")->refused, HasSubstr("the tables have changed meanwhile"));
  coordinator.meanwhile = nullptr;
  EXPECT_EQ(remove("store1")->refused, "");
  const wire::Tables after = *tables_told();
  EXPECT_EQ(after.servers[store1].role, wire::Role::kRemoved);
  EXPECT_EQ(after.layout_sites, moved.layout_sites) << "who had a site is known for good";
  auto tables = routing::RoutingTables::make(config_, after);
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_TRUE((*tables)->is_left(SiteId{0}, 2));
  EXPECT_EQ((*tables)->copies_of(SiteId{0}, 2), std::vector<std::uint32_t>{config_.find("store2")->index});
  restart().value();
  EXPECT_EQ(tables_told()->layout_sites, moved.layout_sites);
}

class LossTest : public RemovalTest {
 protected:
  std::string lose(const std::string& name) {
    return ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                         wire::ChangeServerArgs{.change = wire::ServerChange::kLose,
                                                                .entry = {.endpoint = {}, .name = name}})
        ->refused;
  }
  const std::uint32_t store1_ = config_.find("store1")->index;
};

TEST_F(LossTest, AStorageServerThatIsSilentCanBeLost) {
  beat("store1");
  EXPECT_THAT(lose("store1"), HasSubstr("store1 is alive"));
  loop_.advance(Manager::kPatience + std::chrono::seconds(1));
  const Verifier drawn = manager_->durable_state().drawn;
  EXPECT_EQ(lose("store1"), "");
  const wire::Tables tables = *tables_told();
  EXPECT_GT(tables.servers[store1_].lost, drawn) << "no COMMIT is answered with one that it gave";
  EXPECT_EQ(tables.servers[store1_].lost, manager_->durable_state().drawn);
  EXPECT_TRUE(tables.servers[store1_].drained);
  EXPECT_EQ(lose("store1"), "");
  restart().value();
  EXPECT_EQ(wire::digest(*tables_told()), wire::digest(tables)) << "once; and it is durable";
  EXPECT_THAT(remove("store1")->refused, HasSubstr("storage sites"));
  EXPECT_THAT(lose("store9"), HasSubstr("no server has the name"));
}

TEST_F(LossTest, WhatOthersHaveNotCannotBeDoneWithout) {
  const std::string refused = lose("dir1");
  EXPECT_THAT(refused, HasSubstr("dir1 is a directory server: what it has no other has"));
  EXPECT_THAT(refused, HasSubstr("slicectl server set dir1 --address")) << "the cure";
  EXPECT_THAT(lose("small1"), HasSubstr("small-file"));
  EXPECT_THAT(lose("proxy1"), HasSubstr("proxy"));
}

TEST_F(LossTest, WhoComesBackIsNotHeard) {
  EXPECT_EQ(lose("store1"), "");
  const wire::Tables tables = *tables_told();
  EXPECT_FALSE(asks_for_record("store1", tables)) << "what its record says counts for nothing";
  EXPECT_FALSE(member("store1").alive);
  auto used =
      ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                    wire::ChangeServerArgs{.change = wire::ServerChange::kUse,
                                                           .entry = {.endpoint = {}, .name = "store1"}});
  EXPECT_THAT(used->refused, HasSubstr("was declared lost"));
}

TEST_F(RemovalTest, AProxyGoesAsLongAsThereIsAnother) {
  EXPECT_EQ(change(true, "proxy2", wire::Role::kProxy, kFree + 1)->refused, "");
  EXPECT_EQ(remove("proxy1")->refused, "");
  EXPECT_THAT(remove("proxy2")->refused, HasSubstr("proxy2 is the last proxy server"));
  restart().value();
  EXPECT_EQ(tables_told()->servers[config_.find("proxy1")->index].role, wire::Role::kRemoved);
}

// The numbers of those that were removed are gone for good.
TEST_F(RemovalTest, NumbersAreNotGivenTwice) {
  for (std::uint32_t i = kNumber + 1; i < kMaxServers; ++i) {
    ASSERT_EQ(change(true, "again", wire::Role::kStorage, kFree + 1)->entry.server, i);
    ASSERT_EQ(remove("again")->refused, "");
  }
  EXPECT_THAT(change(true, "again", wire::Role::kStorage, kFree + 1)->refused,
              HasSubstr("with those that were removed"));
}

TEST_F(RemovalTest, AManagerThatLostItsStateStillKnowsOfIt) {
  ASSERT_EQ(remove("store3")->refused, "");
  const wire::Tables in_use = *tables_told();
  ASSERT_TRUE(run(disk_.remove(kStateFile)));
  restart().value();
  for (const char* name : {"dir1", "small1", "store1", "store2", "coord1"}) beat_with(name, in_use);
  ASSERT_TRUE(tables_told());
  EXPECT_EQ(wire::digest(*tables_told()), wire::digest(in_use));
  EXPECT_EQ(change(true, "store3", wire::Role::kStorage, kFree)->entry.server, kNumber + 1);
}

TEST_F(RemovalTest, AServerGetsAWeightAHostAndARack) {
  using Field = wire::ChangeServerArgs::Field;
  auto set = [&](std::uint32_t fields, const wire::ServerEntry& entry) {
    return *ask<wire::ChangeServerResult>(
        wire::ManagerProcedure::kChangeServer,
        wire::ChangeServerArgs{.change = wire::ServerChange::kSet, .entry = entry, .fields = fields});
  };
  wire::ServerEntry wanted{.endpoint = {}, .name = "store3", .weight = 9, .host = "h1", .rack = "r1"};
  EXPECT_EQ(set(Field::kWeight | Field::kHost, wanted).refused, "");
  restart().value();
  wire::ServerEntry now = tables_told()->servers[kNumber];
  EXPECT_EQ(now.weight, 9u);
  EXPECT_EQ(now.host, "h1");
  EXPECT_EQ(now.rack, "");
  EXPECT_EQ(now.endpoint.address, kFree);
  EXPECT_EQ(tables_told()->generation, Generation{3});
  EXPECT_EQ(set(Field::kHost, wanted).generation, Generation{3}) << "it is so";
  wanted.weight = 0;
  EXPECT_EQ(set(Field::kWeight, wanted).entry.weight, 0u) << "by its disk again";
  wanted.host = "no host";
  EXPECT_THAT(set(Field::kHost, wanted).refused, HasSubstr("a host's name is"));
  EXPECT_EQ(change(true, "store3", wire::Role::kStorage, kFree)->refused, "") << "what it says is so";
  wire::ServerEntry other = now;
  other.rack = "r9";
  EXPECT_THAT(ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                            wire::ChangeServerArgs{.entry = other, .fields = Field::kRack})
                  ->refused,
              HasSubstr("another weight, host or rack"));
  wanted = {.role = wire::Role::kStorage,
            .endpoint = {kFree + 1, 2049},
            .name = "store4",
            .weight = 4,
            .rack = "r2"};
  EXPECT_EQ(ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                          wire::ChangeServerArgs{.entry = wanted})
                ->entry.rack,
            "r2");
}

}  // namespace
}  // namespace slice::manager
