#include "control/manager/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "rpc/xdr.h"
#include "service/admin_program.h"
#include "service/durable_file.h"
#include "service/internal_call.h"
#include "service/testing/service_fixture.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using service::internal_call;
using ::testing::HasSubstr;

class ManagerTest : public service::testing::ServiceFixture {
 protected:
  // `has_state`: of a volume whose tables are those of the configuration, generation 1.
  explicit ManagerTest(bool has_state = true) : ServiceFixture("manager1") {
    if (has_state) {
      ManagerState state{.drawn = {}, .volume = config_.volume, .tables = dealt(1)};
      EXPECT_TRUE(run(save_state(disk_, state)));
    }
    restart().value();
  }
  wire::Tables dealt(std::uint64_t generation) const {
    wire::Tables tables = routing::RoutingTables::initial(config_);
    tables.generation = Generation{generation};
    return tables;
  }

  // How many bytes tables end with that older formats do not have.
  static std::size_t later_than_places(const wire::Tables& tables) { return 4 + tables.servers.size() * 28; }

  // A new manager over what the disk holds.
  Result<bool> restart() {
    silence("manager1");
    if (manager_) retired_.push_back(std::move(manager_));
    manager_ = std::make_unique<Manager>(context_);
    Status started = run(manager_->start());
    if (!started) return fail(std::move(started).error());
    serve("manager1", *manager_);
    return true;
  }
  template <class R, class Args>
  Result<R> ask(wire::ManagerProcedure procedure, const Args& args) {
    return run(internal_call<R>(network_, endpoint("manager1"), wire::kManagerProgram, procedure, args));
  }
  Result<wire::HeartbeatResult> beat(const std::string& name, std::uint64_t generation = 0,
                                     std::uint64_t seen = 0) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.pid = 100 + args.server;
    args.generation = Generation{generation};
    args.largest_seen = Verifier{seen};
    args.state = "serving";
    return ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args);
  }
  // A process with these tables beats, and offers them where it is asked to. What the manager told it.
  wire::HeartbeatResult beat_with(const std::string& name, const wire::Tables& tables,
                                  wire::Holding holding = wire::Holding::kTables) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.generation = tables.generation;
    args.tables_digest = wire::digest(tables);
    args.holding = holding;
    args.largest_seen = Verifier{70};
    auto result = ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args);
    if (result->offer) {
      auto offered = ask<wire::OfferTablesResult>(wire::ManagerProcedure::kOfferTables,
                                                  wire::OfferTablesArgs{args.server, tables});
      EXPECT_TRUE(offered);
      taken_ = offered->taken;
    }
    return *result;
  }
  void beat_holding(const std::string& name, wire::Holding holding) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.holding = holding;
    EXPECT_TRUE(ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args));
  }
  // The claim of a server with a record of the sites that it has by these tables.
  Result<wire::ClaimResult> claim(const std::string& name, const wire::Tables& by) {
    wire::ClaimArgs args{.server = config_.find(name)->index,
                         .has_record = true,
                         .sites = {},
                         .layout_sites = wire::layout_sites_of(by, name)};
    for (std::uint32_t site : wire::sites_of(by, name)) args.sites.push_back({site, by.generation});
    return ask<wire::ClaimResult>(wire::ManagerProcedure::kClaim, args);
  }
  Result<wire::ClaimResult> claim_nothing(const std::string& name, bool has_data) {
    return ask<wire::ClaimResult>(
        wire::ManagerProcedure::kClaim,
        wire::ClaimArgs{.server = config_.find(name)->index, .has_data = has_data, .sites = {}});
  }
  // Whether the manager asks a server for the record that it has by these tables.
  bool asks_for_record(const std::string& name, const wire::Tables& by) {
    wire::HeartbeatArgs args;
    args.server = config_.find(name)->index;
    args.holding = wire::Holding::kTables;
    args.generation = by.generation;
    args.tables_digest = wire::digest(by);
    args.record_digest = wire::digest(wire::sites_of(by, name));
    return ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args)->claim;
  }
  Result<wire::Tables> tables_told() {
    return ask<wire::Tables>(wire::ManagerProcedure::kGetTables, service::NoArguments{});
  }
  Result<wire::DrawVerifierResult> draw() {
    return ask<wire::DrawVerifierResult>(wire::ManagerProcedure::kDrawVerifier, wire::DrawVerifierArgs{2});
  }
  wire::Member member(const std::string& name) {
    auto result = ask<wire::MembersResult>(wire::ManagerProcedure::kMembers, service::NoArguments{});
    return result->members.at(config_.find(name)->index);
  }

  std::unique_ptr<Manager> manager_;
  std::vector<std::unique_ptr<Manager>> retired_;
  bool taken_ = false;  // the last offer
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
  ASSERT_TRUE(run(service::replace_file(disk_, kStateFile, Buffer(now.view().first(length)))));
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
  ASSERT_TRUE(run(service::replace_file(disk_, kStateFile, Buffer(now.view().first(length)))));
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

class MembershipTest : public ManagerTest {
 protected:
  Result<wire::ChangeServerResult> change(bool add, const std::string& name, wire::Role role,
                                          std::uint32_t address, std::uint16_t port = 2049) {
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

TEST_F(RemovalTest, WhatIsRemovedKeepsItsNumberAndNothingElse) {
  beat_as(kNumber);
  ASSERT_EQ(claim_as(kNumber, true)->verdict, wire::ClaimVerdict::kTaken);
  auto removed = remove("store3");
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->refused, "");
  EXPECT_EQ(removed->entry.server, kNumber);
  EXPECT_EQ(removed->entry.role, wire::Role::kRemoved);
  EXPECT_EQ(removed->generation, Generation{3});
  EXPECT_EQ(remove("store3")->generation, Generation{3}) << "it is so";
  for (int starts = 0; starts < 2; ++starts) {
    const wire::Tables tables = *tables_told();
    ASSERT_EQ(tables.servers.size(), kNumber + 1);
    EXPECT_EQ(tables.servers[kNumber].role, wire::Role::kRemoved);
    EXPECT_EQ(tables.servers[kNumber].endpoint.port, 0);
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
  EXPECT_EQ(again->entry.since, Generation{4});
  EXPECT_EQ(claim_as(kNumber + 1, false)->verdict, wire::ClaimVerdict::kGrant) << "nothing of it was lost";
  EXPECT_FALSE(claim_as(kNumber, true));
  EXPECT_EQ(remove("store3")->entry.server, kNumber + 1);
  EXPECT_EQ(tables_told()->servers.size(), kNumber + 2);
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

TEST_F(RemovalTest, WhatHasSomethingStays) {
  EXPECT_THAT(remove("store1")->refused, HasSubstr("has 512 storage sites"));
  EXPECT_THAT(remove("store1")->refused, HasSubstr("and has 512 sites for files with copies or block maps"));
  EXPECT_THAT(remove("manager1")->refused, HasSubstr("the manager cannot be removed"));
  EXPECT_THAT(remove("dir1")->refused, HasSubstr("dir1 is the last directory server"));
  EXPECT_THAT(remove("proxy1")->refused, HasSubstr("proxy1 is the last proxy server"));
  EXPECT_THAT(remove("store9")->refused, HasSubstr("no server has the name 'store9'"));
  EXPECT_EQ(tables_told()->generation, Generation{2});
  // Its sites have moved, but files with a layout are there yet.
  wire::Tables moved = *tables_told();
  wire::keep_layout_sites(moved);
  for (std::uint32_t& owner : moved.sites[2]) owner = config_.find("store2")->index;
  ++moved.generation.value;
  beat_with("store2", moved);
  ASSERT_EQ(tables_told()->generation, moved.generation);
  EXPECT_EQ(
      remove("store1")->refused,
      "store1 cannot be removed: it has 512 sites for files with copies or block maps, which do not move");
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
