#include "control/manager/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "control/manager/testing/manager_fixture.h"
#include "rpc/xdr.h"
#include "service/admin_program.h"
#include "service/internal_call.h"
#include "storage/durable_file.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using service::internal_call;
using ::testing::HasSubstr;

class ManagerTest : public testing::ManagerFixture {
 protected:
  using ManagerFixture::ManagerFixture;
};

class NewManagerTest : public ManagerTest {
 protected:
  NewManagerTest() : ManagerTest(false) {}
  static constexpr const char* kServers[] = {"dir1", "small1", "store1", "store2", "coord1"};
};

TEST_F(NewManagerTest, PublishesGenerationOneWhenEveryServerIsThereAndNew) {
  EXPECT_FALSE(tables_told());
  EXPECT_FALSE(draw());
  EXPECT_THAT(manager_->state(), HasSubstr("waiting: "));
  EXPECT_EQ(member("store1").entry.name, "store1") << "status is answered all the same";
  for (const char* name : kServers) {
    EXPECT_FALSE(tables_told()) << "before " << name;
    beat_holding(name, wire::Holding::kNothing);
  }
  EXPECT_EQ(manager_->state(), "serving");
  EXPECT_EQ(draw()->verifier, Verifier{1});
  auto tables = ask<wire::Tables>(wire::ManagerProcedure::kGetTables, service::NoArguments{});
  ASSERT_TRUE(tables);
  EXPECT_EQ(tables->generation, Generation{1});
  EXPECT_EQ(tables->servers.size(), config_.servers.size());
  EXPECT_EQ(tables->sites[2].size(), 1024u);
  EXPECT_EQ(tables_.get()->generation(), Generation{1});
}

TEST_F(NewManagerTest, GrantsSitesOnceTheyAreDealt) {
  EXPECT_FALSE(claim_nothing("store1", false)) << "nothing is dealt";
  for (const char* name : kServers) beat_holding(name, wire::Holding::kNothing);
  auto granted = claim_nothing("store1", false);
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->verdict, wire::ClaimVerdict::kGrant);
  EXPECT_EQ(granted->generation, Generation{1});
  EXPECT_EQ(claim_nothing("store1", false)->verdict, wire::ClaimVerdict::kGrant)
      << "it died before it had the record";
}

TEST_F(ManagerTest, AServerThatHadARecordAndHasNoDataIsGivenNoSites) {
  EXPECT_TRUE(asks_for_record("store1", dealt(1))) << "it is not known to have one";
  EXPECT_EQ(claim("store1", dealt(1))->verdict, wire::ClaimVerdict::kTaken);
  EXPECT_FALSE(asks_for_record("store1", dealt(1)));
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(claim_nothing("store1", false)->verdict, wire::ClaimVerdict::kLost);
    EXPECT_EQ(claim_nothing("store1", true)->verdict, wire::ClaimVerdict::kGrant)
        << "of its files only the record is gone";
    EXPECT_EQ(claim_nothing("store2", false)->verdict, wire::ClaimVerdict::kGrant);
    disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
    restart().value();
  }
}

TEST_F(ManagerTest, TablesFollowTheRecords) {
  wire::Tables moved = dealt(1);
  moved.sites[2][0] = config_.find("store2")->index;
  EXPECT_TRUE(asks_for_record("store2", moved));
  ASSERT_TRUE(claim("store2", moved));
  EXPECT_EQ(tables_told()->generation, Generation{2});
  EXPECT_EQ(tables_told()->sites[2], moved.sites[2]);
  // One that claims the same: the tables stay.
  ASSERT_TRUE(claim("store1", dealt(1)));
  EXPECT_EQ(tables_told()->generation, Generation{2});
  EXPECT_EQ(metrics_.counter("manager_record_conflicts_total").value(), 1u);
  ASSERT_TRUE(claim("store1", moved));
  EXPECT_EQ(tables_told()->generation, Generation{2});
  EXPECT_EQ(metrics_.counter("manager_record_conflicts_total").value(), 1u);
}

TEST_F(ManagerTest, WhoIsAliveIsToldOfNewTablesAtOnce) {
  std::vector<std::pair<std::string, Generation>> told;
  Metrics metrics;
  std::vector<std::unique_ptr<service::AdminProgram>> processes;
  for (const char* name : {"store1", "dir1", "proxy1"}) {
    auto note = [&told, name](Generation generation) -> Task<void> {
      told.emplace_back(name, generation);
      co_return;
    };
    processes.push_back(std::make_unique<service::AdminProgram>(
        name, metrics, service::AdminProgram::Hooks{.refresh = {}, .misdirected = {}, .new_tables = note}));
    serve(name, *processes.back());
  }
  beat("store1", 1);
  beat("proxy1", 1);
  wire::Tables moved = dealt(1);
  moved.sites[2][0] = config_.find("store2")->index;
  MonoTime began = loop_.now();
  ASSERT_TRUE(claim("store2", moved));
  ASSERT_TRUE(loop_.run_until([&] { return told.size() == 2; }));
  EXPECT_LT(loop_.now() - began, 100ms);
  EXPECT_THAT(told, ::testing::UnorderedElementsAre(std::make_pair("store1", Generation{2}),
                                                    std::make_pair("proxy1", Generation{2})));
  draw();
  loop_.advance(1s);
  EXPECT_EQ(told.size(), 2u) << "a verifier is no news";
}

TEST_F(ManagerTest, ClaimsOfNobodyAndOfStrangeSitesAreRefused) {
  wire::ClaimArgs strange{.server = 99, .has_record = true, .sites = {}};
  EXPECT_FALSE(ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim, strange));
  strange = {.server = config_.find("store1")->index, .has_record = true, .sites = {{5000, Generation{1}}}};
  EXPECT_FALSE(ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim, strange));
  EXPECT_EQ(tables_told()->generation, Generation{1});
}

TEST_F(NewManagerTest, RecordsOfAllServersMakeANewState) {
  wire::Tables was = dealt(7);
  was.sites[2][0] = config_.find("store2")->index;
  for (const char* name : kServers) {
    EXPECT_FALSE(tables_told());
    EXPECT_TRUE(asks_for_record(name, was));
    EXPECT_EQ(claim(name, was)->verdict, wire::ClaimVerdict::kTaken);
  }
  ASSERT_TRUE(tables_told());
  EXPECT_EQ(tables_told()->sites[2], was.sites[2]);
  EXPECT_EQ(tables_told()->generation, Generation{8});
  EXPECT_EQ(claim_nothing("store1", false)->verdict, wire::ClaimVerdict::kLost);
}

TEST_F(ManagerTest, AStateOfBeforeThereWereRecordsIsRead) {
  ManagerState state{.drawn = Verifier{9}, .volume = config_.volume, .tables = dealt(1)};
  rpc::XdrWriter out;
  out.u32(0x534c4d53);
  out.u32(1);
  out.u64(9);
  out.u32(config_.volume.id.value);
  out.u64(config_.volume.threshold);
  out.u32(static_cast<std::uint32_t>(config_.volume.policy));
  out.u32(static_cast<std::uint32_t>(config_.volume.hash));
  encode(out, state.tables);
  const Buffer now = out.take();  // with a number of layout sites, 0, and what came later, behind all
  const std::size_t length = now.size() - later_than_places(state.tables) - 4;
  ASSERT_TRUE(run(storage::replace_file(disk_, kStateFile, Buffer(now.view().first(length)))));
  ASSERT_TRUE(restart());
  EXPECT_EQ(draw()->verifier, Verifier{10});
  EXPECT_EQ(claim_nothing("store1", false)->verdict, wire::ClaimVerdict::kGrant);
}

TEST_F(ManagerTest, AStateWithDrainedServersOutsideItsTablesIsRead) {
  wire::Tables tables = dealt(6);
  wire::keep_layout_sites(tables);
  rpc::XdrWriter out;
  out.u32(0x534c4d53);
  out.u32(3);
  out.u64(9);
  out.u32(config_.volume.id.value);
  out.u64(config_.volume.threshold);
  out.u32(static_cast<std::uint32_t>(config_.volume.policy));
  out.u32(static_cast<std::uint32_t>(config_.volume.hash));
  out.u32(1);
  out.text("store1");
  out.u32(1);
  out.text("store2");
  out.u64(71);  // moves: the last number, not paused, no limit, none
  out.boolean(false);
  out.u64(0);
  out.u32(0);
  encode(out, tables);
  const Buffer now = out.take();
  const std::size_t length = now.size() - later_than_places(tables);
  ASSERT_TRUE(run(storage::replace_file(disk_, kStateFile, Buffer(now.view().first(length)))));
  for (int starts = 0; starts < 2; ++starts) {
    ASSERT_TRUE(restart());
    EXPECT_TRUE(member("store2").entry.drained);
    EXPECT_FALSE(member("store1").entry.drained);
    EXPECT_EQ(tables_told()->layout_sites, tables.layout_sites);
    EXPECT_EQ(tables_told()->generation, Generation{6});
    draw();  // which writes it in today's format
  }
  EXPECT_EQ(claim_nothing("store1", false)->verdict, wire::ClaimVerdict::kLost);
}

TEST_F(ManagerTest, DrawsEveryVerifierOnceThroughRestartsAndPowerLoss) {
  std::uint64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) {
      auto drawn = draw();
      ASSERT_TRUE(drawn);
      EXPECT_GT(drawn->verifier.value, last);
      last = drawn->verifier.value;
    }
    disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
    restart().value();
  }
}

TEST_F(ManagerTest, DrawsDifferentVerifiersForThoseWhoAskAtOnce) {
  disk_.set_delay(1ms, 5ms);
  std::set<std::uint64_t> drawn;
  for (int i = 0; i < 20; ++i) {
    start(internal_call<wire::DrawVerifierResult>(network_, endpoint("manager1"), wire::kManagerProgram,
                                                  wire::ManagerProcedure::kDrawVerifier,
                                                  wire::DrawVerifierArgs{2}),
          [&](auto result) { drawn.insert(result->verifier.value); });
  }
  ASSERT_TRUE(loop_.run_until([&] { return drawn.size() == 20; }, 10s));
}

TEST_F(ManagerTest, GivesNoVerifierThatItCouldNotKeep) {
  auto before = draw()->verifier.value;
  disk_.set_fault([](const auto& access) -> std::optional<Error> {
    if (access.operation == storage::MemoryDisk::Operation::kSync) return Error{Errc::kIo, "bad disk"};
    return std::nullopt;
  });
  EXPECT_FALSE(draw());
  disk_.set_fault(nullptr);
  EXPECT_EQ(draw()->verifier.value, before + 1);
}

TEST_F(ManagerTest, TellsTheLargestDrawnInHeartbeats) {
  auto drawn = draw()->verifier;
  auto result = beat("store1");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->largest_drawn, drawn);
  EXPECT_EQ(result->generation, Generation{1});
}

TEST_F(ManagerTest, CountsAProcessAsDeadAfterFiveSilentSeconds) {
  EXPECT_FALSE(member("store1").alive) << "never heard of";
  beat("store1").value();
  EXPECT_TRUE(member("store1").alive);
  EXPECT_EQ(member("store1").last.state, "serving");
  EXPECT_EQ(member("store1").entry.name, "store1");
  loop_.advance(4900ms);
  EXPECT_TRUE(member("store1").alive);
  loop_.advance(200ms);
  EXPECT_FALSE(member("store1").alive);
  EXPECT_GE(member("store1").age_ms, 5000u);
  EXPECT_FALSE(member("store2").alive);
  beat("store1").value();
  EXPECT_TRUE(member("store1").alive);
}

TEST_F(ManagerTest, CountsWhoIsAliveInItsDetailAndMetrics) {
  beat("store1").value();
  beat("dir1").value();
  loop_.advance(1100ms);
  EXPECT_EQ(manager_->detail(), "2 of 7 processes alive");
  EXPECT_EQ(metrics_.counter("manager_alive_processes").value(), 2u);
}

TEST_F(NewManagerTest, TakesOverTheTablesInUseWhereItsStateWasLost) {
  wire::Tables in_use = dealt(4);
  // Its server was added later and has no site: dealt anew it would get half of them.
  for (std::uint32_t& owner : in_use.sites[2]) owner = config_.find("store1")->index;
  for (const char* name : {"dir1", "small1", "store1", "coord1"}) {
    EXPECT_EQ(beat_with(name, in_use).generation, Generation{0});
    EXPECT_TRUE(taken_);
  }
  EXPECT_FALSE(draw()) << "one server has not told of its tables yet";
  beat_holding("store2", wire::Holding::kNothing);
  auto told = tables_told();
  ASSERT_TRUE(told) << manager_->state();
  EXPECT_EQ(wire::digest(*told), wire::digest(in_use));
  EXPECT_GT(draw()->verifier.value, static_cast<std::uint64_t>(loop_.wall().ns))
      << "beyond all that were drawn before";
  EXPECT_FALSE(beat_with("dir1", in_use).offer);
  EXPECT_EQ(metrics_.counter("manager_differing_tables_total").value(), 0u);
  restart().value();
  EXPECT_EQ(wire::digest(*tables_told()), wire::digest(in_use));
}

TEST_F(NewManagerTest, GoesOnWithoutAServerThatDoesNotComeAndThenTakesItsNewerTables) {
  beat_with("store1", dealt(4));
  loop_.advance(5s);
  EXPECT_FALSE(tables_told());
  loop_.advance(6s);
  EXPECT_EQ(tables_told()->generation, Generation{4});
  wire::Tables newer = dealt(6);
  newer.sites[2][0] = config_.find("store2")->index;
  EXPECT_TRUE(beat_with("dir1", newer).offer);
  EXPECT_EQ(wire::digest(*tables_told()), wire::digest(newer));
}

TEST_F(NewManagerTest, DealsNothingWhereAServerHoldsDataOfTablesThatNobodyKnows) {
  for (const char* name : kServers) beat_holding(name, wire::Holding::kNothing);
  disk_.crash(storage::MemoryDisk::Crash::kDropUnsynced);
  ASSERT_TRUE(run(disk_.remove(kStateFile)));
  restart().value();
  for (const char* name : kServers) beat_holding(name, wire::Holding::kData);
  loop_.advance(60s);
  EXPECT_FALSE(tables_told());
  EXPECT_FALSE(draw());
  EXPECT_THAT(manager_->state(), HasSubstr("these hold data: dir1, small1, store1, store2, coord1"));
  beat_with("proxy1", dealt(3), wire::Holding::kHints);
  EXPECT_EQ(tables_told()->generation, Generation{3}) << "a proxy's pinned ones are better than none";
}

TEST_F(ManagerTest, TakesOverNewerTablesWhereItsStateIsOlder) {
  wire::Tables newer = dealt(9);
  newer.sites[2][0] = config_.find("store2")->index;
  auto result = beat_with("store1", newer);
  EXPECT_TRUE(result.offer);
  EXPECT_TRUE(taken_);
  EXPECT_EQ(wire::digest(*tables_told()), wire::digest(newer));
  EXPECT_EQ(draw()->verifier, Verifier{71});
  restart().value();
  EXPECT_EQ(draw()->verifier, Verifier{72});
  EXPECT_EQ(tables_.get()->generation(), Generation{9});
  EXPECT_EQ(metrics_.counter("manager_offers_taken_total").value(), 1u);
}

TEST_F(ManagerTest, KeepsItsTablesWhereOthersDoNotFitOrAreOnlyHints) {
  wire::Tables strange = dealt(9);
  strange.servers[config_.find("store2")->index].name = "store9";
  EXPECT_TRUE(beat_with("store1", strange).offer);
  EXPECT_FALSE(taken_);
  EXPECT_FALSE(beat_with("proxy1", dealt(9), wire::Holding::kHints).offer);
  EXPECT_EQ(tables_told()->generation, Generation{1});
  EXPECT_EQ(metrics_.counter("manager_offers_refused_total").value(), 1u);
  wire::Tables other = dealt(1);
  other.sites[2][0] = config_.find("store2")->index;
  EXPECT_FALSE(beat_with("store1", other).offer);
  EXPECT_EQ(metrics_.counter("manager_differing_tables_total").value(), 1u);
}

TEST_F(ManagerTest, RefusesCallsFromOutside) {
  rpc::InProcessNetwork outside(loop_, std::nullopt, rpc::Endpoint{0x0a4d0102, 999});
  rpc::Dispatcher dispatcher(metrics_);
  dispatcher.add(*manager_);
  outside.attach(endpoint("manager1"), &dispatcher);
  auto result = run(internal_call<wire::DrawVerifierResult>(
      outside, endpoint("manager1"), wire::kManagerProgram, wire::ManagerProcedure::kDrawVerifier,
      wire::DrawVerifierArgs{2}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kDenied);
}

TEST_F(ManagerTest, SurvivesHeartbeatsOfUnknownServersAndGarbage) {
  wire::HeartbeatArgs args;
  args.server = 4000000000;
  EXPECT_TRUE((ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args)));
  EXPECT_FALSE((ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, service::NoArguments{})));
  EXPECT_FALSE((ask<wire::Tables>(wire::ManagerProcedure::kGetTables, args)));
  EXPECT_FALSE((ask<wire::Tables>(static_cast<wire::ManagerProcedure>(77), service::NoArguments{})));
}

TEST_F(ManagerTest, RefusesToStartFromADamagedState) {
  ASSERT_TRUE(disk_.corrupt(kStateFile, 12, 1));
  auto started = restart();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kCorrupt);
}

TEST_F(ManagerTest, RefusesAConfigurationThatWouldLookForBytesAndNamesElsewhere) {
  EnsembleConfig good = config_;
  auto refused = [&](std::string_view key) {
    auto started = restart();
    ASSERT_FALSE(started) << key;
    EXPECT_EQ(started.error().code, Errc::kInvalid);
    EXPECT_THAT(started.error().message, HasSubstr(fmt::format("{} of [volume] is not what", key)));
    config_.volume = good.volume;
  };
  config_.volume.threshold = 128 << 10;
  refused("threshold");
  config_.volume.policy = VolumeConfig::NamePolicy::kNameHashing;
  refused("name_policy");
  config_.volume.hash = VolumeConfig::NameHash::kSipHash13;
  refused("name_hash");
  config_.volume.id = VolumeId{9};
  refused("id");
  EXPECT_TRUE(restart());
}

TEST_F(NewManagerTest, NobodyIsAddedBeforeTheTablesAreKnown) {
  auto refused = ask<wire::ChangeServerResult>(
      wire::ManagerProcedure::kChangeServer,
      wire::ChangeServerArgs{
          wire::ServerChange::kAdd,
          {.role = wire::Role::kStorage, .endpoint = {0x0a4d6302, 2049}, .name = "store3"}});
  EXPECT_THAT(refused->refused, HasSubstr("the manager is waiting"));
}

// Its file may be of before servers were added: the state says who there is.
TEST_F(NewManagerTest, TablesThatAreTakenOverMayHaveMoreServersThanTheFile) {
  wire::Tables in_use = dealt(4);
  in_use.servers.push_back({7, wire::Role::kStorage, {0x0a4d6302, 2049}, "store3"});
  in_use.sites[2][5] = 7;
  for (const char* name : {"dir1", "small1", "store1", "store2", "coord1"}) beat_with(name, in_use);
  EXPECT_EQ(wire::digest(*tables_told()), wire::digest(in_use));
  EXPECT_EQ(manager_->members().members.size(), 8u);
}

}  // namespace
}  // namespace slice::manager
