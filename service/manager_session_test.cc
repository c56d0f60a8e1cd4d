#include "service/manager_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/admin_program.h"
#include "service/internal_call.h"
#include "service/testing/service_fixture.h"
#include "storage/durable_file.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;

class FakeManager : public rpc::Program {
 public:
  explicit FakeManager(const EnsembleConfig& config) : tables(routing::RoutingTables::initial(config)) {
    tables.generation = Generation{5};
  }
  std::uint32_t number() const override { return wire::kManagerProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    switch (static_cast<wire::ManagerProcedure>(call.procedure)) {
      case wire::ManagerProcedure::kHeartbeat:
        heartbeats.emplace_back();
        if (!decode(call.arguments, heartbeats.back())) co_return rpc::Outcome::kGarbage;
        encode(results, wire::HeartbeatResult{.generation = has_tables ? tables.generation : Generation{},
                                              .largest_drawn = drawn,
                                              .offer = asks,
                                              .claim = asks_claim,
                                              .settings = settings});
        co_return rpc::Outcome::kReply;
      case wire::ManagerProcedure::kDrawVerifier:
        drawn.value += 1;
        encode(results, wire::DrawVerifierResult{drawn});
        co_return rpc::Outcome::kReply;
      case wire::ManagerProcedure::kGetTables:
        if (!has_tables) co_return rpc::Outcome::kError;
        ++tables_asked;
        encode(results, tables);
        co_return rpc::Outcome::kReply;
      case wire::ManagerProcedure::kClaim: {
        claims.emplace_back();
        if (!decode(call.arguments, claims.back())) co_return rpc::Outcome::kGarbage;
        const auto verdict = claims.back().has_record ? wire::ClaimVerdict::kTaken : without_record;
        encode(results, wire::ClaimResult{verdict, tables.generation});
        co_return rpc::Outcome::kReply;
      }
      case wire::ManagerProcedure::kOfferTables:
        offers.emplace_back();
        if (!decode(call.arguments, offers.back())) co_return rpc::Outcome::kGarbage;
        encode(results, wire::OfferTablesResult{true});
        co_return rpc::Outcome::kReply;
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
  }

  wire::Tables tables;
  SettingsGeneration settings;
  bool has_tables = true, asks = false, asks_claim = false;
  wire::ClaimVerdict without_record = wire::ClaimVerdict::kGrant;
  std::vector<wire::ClaimArgs> claims;
  std::vector<wire::OfferTablesArgs> offers;
  Verifier drawn{41};
  int tables_asked = 0;
  std::vector<wire::HeartbeatArgs> heartbeats;
};

class ManagerSessionTest : public testing::ServiceFixture {
 protected:
  ManagerSessionTest() : testing::ServiceFixture("store1"), manager_(config_) {}
  ManagerSession::Seams seams() {
    return {.loop = loop_,
            .channel = network_,
            .metrics = metrics_,
            .disk = disk_,
            .config = config_,
            .self = self_,
            .tables = tables_};
  }
  // As a server's start does.
  void load(ManagerSession& session) {
    bool ended = false;
    start_void(load_all(session), [&] { ended = true; });
    ASSERT_TRUE(loop_.run_until([&] { return ended; }));
  }
  static Task<void> load_all(ManagerSession& session) {
    EXPECT_TRUE(co_await session.load_kept());
    co_await session.load_tables();
  }
  // Whether a start with these seams waits for the manager; it is given one in the end.
  bool waits(const ManagerSession::Seams& of) {
    ManagerSession session(of);
    bool ended = false;
    start_void(load_all(session), [&] { ended = true; });
    loop_.advance(30s);
    bool waited = !ended;
    serve("manager1", manager_);
    EXPECT_TRUE(loop_.run_until([&] { return ended; }));
    silence("manager1");
    return waited;
  }
  // What a session of these seams tells the manager.
  wire::HeartbeatArgs told(const ManagerSession::Seams& of) {
    ManagerSession session(of);
    bool ended = false;
    start(session.load_kept(), [&](const Status& read) { ended = read.has_value(); });
    EXPECT_TRUE(loop_.run_until([&] { return ended; }));
    session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
    std::size_t before = manager_.heartbeats.size();
    serve("manager1", manager_);
    EXPECT_TRUE(loop_.run_until([&] { return manager_.heartbeats.size() > before; }, 5s));
    silence("manager1");
    return manager_.heartbeats[before];
  }

  FakeManager manager_;
};

TEST_F(ManagerSessionTest, TakesTheManagersSettingsAtTheStartAndWithAHeartbeat) {
  Settings now{.generation = SettingsGeneration{3}};
  AdminProgram admin("manager1", metrics_,
                     {.refresh = {},
                      .misdirected = {},
                      .new_tables = {},
                      .settings = [&now] { return now; },
                      .new_settings = [](SettingsGeneration) -> Task<void> { co_return; },
                      .reload = {}});
  serve("manager1", manager_);
  serve("manager1", admin);
  ManagerSession::Seams of = seams();
  of.settings = &settings_;
  ManagerSession session(of);
  load(session);
  EXPECT_EQ(*settings_.get(), now) << "before the server serves";
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  now.generation = manager_.settings = SettingsGeneration{4};
  loop_.advance(1100ms);
  EXPECT_EQ(settings_.get()->generation, SettingsGeneration{4});
  loop_.advance(1s);
  EXPECT_EQ(manager_.heartbeats.back().settings, SettingsGeneration{4});
  EXPECT_EQ(manager_.heartbeats.back().settings_digest, wire::digest(now));
}

TEST_F(ManagerSessionTest, TakesTheManagersTablesAndKeepsACopy) {
  serve("manager1", manager_);
  manager_.tables.sites[2][0] = config_.find("store2")->index;
  ManagerSession first(seams());
  load(first);
  EXPECT_EQ(tables_.get()->generation(), Generation{5});

  // A later start, with the manager away.
  silence("manager1");
  tables_.set(routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value());
  ManagerSession second(seams());
  load(second);
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
  EXPECT_TRUE(tables_.get()->owns(config_.find("store2")->index, wire::Role::kStorage, SiteId{0}));
}

TEST_F(ManagerSessionTest, AServerWithoutTablesWaitsForTheManager) {
  EXPECT_TRUE(waits(seams()));
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
  EXPECT_FALSE(waits(seams())) << "it has a copy now";
  ASSERT_TRUE(disk_.corrupt("tables.copy", 40, 1));
  EXPECT_TRUE(waits(seams())) << "and lost it";
}

TEST_F(ManagerSessionTest, ServesNoSitesBeforeTheManagerKnowsOfItsRecord) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  ASSERT_EQ(manager_.claims.size(), 2u);
  EXPECT_FALSE(manager_.claims[0].has_record);
  EXPECT_FALSE(manager_.claims[0].has_data);
  EXPECT_TRUE(manager_.claims[1].has_record);
  EXPECT_EQ(manager_.claims[1].sites.size(), 512u);
  ManagerSession again(seams());
  load(again);
  ASSERT_EQ(manager_.claims.size(), 3u);
  EXPECT_EQ(manager_.claims[2].sites, manager_.claims[1].sites);
  manager_.asks_claim = true;
  again.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  loop_.advance(100ms);
  EXPECT_EQ(manager_.claims.size(), 4u);
  EXPECT_EQ(manager_.heartbeats.back().record_digest,
            wire::digest(wire::sites_of(manager_.tables, self_.name)));
}

TEST_F(ManagerSessionTest, AServerThatLostItsDataWaitsForEver) {
  serve("manager1", manager_);
  manager_.without_record = wire::ClaimVerdict::kLost;
  ManagerSession session(seams());
  bool ended = false;
  start_void(load_all(session), [&] { ended = true; });
  loop_.advance(60s);
  EXPECT_FALSE(ended);
  EXPECT_THAT(session.waits_for(), ::testing::HasSubstr("neither a record of them nor data"));
  EXPECT_TRUE(disk_.paths().empty()) << "nor may it seem to have served at its next start";
  manager_.without_record = wire::ClaimVerdict::kGrant;
  EXPECT_TRUE(loop_.run_until([&] { return ended; }));
  EXPECT_EQ(session.waits_for(), "");
}

TEST_F(ManagerSessionTest, TablesThatSayOtherwiseThanTheRecordAreNotGoneBy) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  manager_.tables.generation = Generation{6};
  manager_.tables.sites[2][0] = config_.find("store2")->index;
  loop_.advance(3s);
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
  EXPECT_GE(metrics_.counter("tables_against_the_record_total").value(), 1u);
  // Nor after a restart, nor where another has kept them.
  EXPECT_FALSE(waits(seams()));
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
  manager_.tables.generation = Generation{7};
  manager_.tables.sites[2][0] = self_.index;
  serve("manager1", manager_);
  ManagerSession other(seams());
  load(other);
  EXPECT_EQ(tables_.get()->generation(), Generation{7});
}

// As a process kept them before storage servers that came later counted, before servers could be lost, and
// before they had more than a role, an endpoint and a name.
TEST_F(ManagerSessionTest, ACopyOfAnOlderVersionIsUsed) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  silence("manager1");
  rpc::XdrWriter out;
  wire::Tables tables = manager_.tables;
  tables.generation = Generation{9};
  encode(out, tables);
  const Buffer now = out.take();
  const std::size_t of_birth = now.size() - 4 - 4 * tables.servers.size();
  const std::size_t unlost = of_birth - 4 - 8 * tables.servers.size();
  const std::size_t places = unlost - 4 - 28 * tables.servers.size();
  for (std::size_t length :
       {of_birth, unlost, places, places - 4}) {  // the last without layout sites, of which there are none
    ASSERT_TRUE(run(storage::replace_file(disk_, "tables.copy", Buffer(now.view().first(length)))));
    tables_.set(routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value());
    ManagerSession later(seams());
    load(later);
    EXPECT_EQ(tables_.get()->generation(), Generation{9});
  }
}

TEST_F(ManagerSessionTest, TablesWithoutThisServerEndItsService) {
  int removed = 0;
  auto of = seams();
  of.removed = [&removed] { ++removed; };
  serve("manager1", manager_);
  ManagerSession session(of);
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  wire::Tables& tables = manager_.tables;
  tables.servers[self_.index].role = wire::Role::kRemoved;
  for (std::uint32_t& owner : tables.sites[2]) owner = config_.find("store2")->index;
  tables.generation = Generation{6};
  loop_.advance(3s);
  EXPECT_EQ(removed, 1);
  const std::size_t beats = manager_.heartbeats.size();
  loop_.advance(5s);
  EXPECT_EQ(manager_.heartbeats.size(), beats) << "it is silent from then on";
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
  // Also where it starts by what it had kept before.
  auto kept = run(read_kept_tables(disk_));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->servers[self_.index].role, wire::Role::kRemoved);
}

// A manager that had it served here was lost before anybody had its tables, and the next one goes by those of
// before.
TEST_F(ManagerSessionTest, AServerThatItsOwnTablesHaveElsewhereIsTold) {
  serve("manager1", manager_);
  IpAddress& address = manager_.tables.servers[self_.index].endpoint.address;
  address = address.v4() + 100;
  {
    ManagerSession before(seams());
    load(before);
  }
  silence("manager1");
  std::vector<rpc::Endpoint> told;
  auto of = seams();
  of.moved = [&told](rpc::Endpoint there) { told.push_back(there); };
  ManagerSession session(of);
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  loop_.advance(3s);
  EXPECT_TRUE(told.empty()) << "what it has kept may be old";
  serve("manager1", manager_);
  loop_.advance(3s);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), manager_.tables.servers[self_.index].endpoint);
}

TEST_F(ManagerSessionTest, AServerThatIsLostServesNoMore) {
  int removed = 0;
  auto of = seams();
  of.removed = [&removed] { ++removed; };
  serve("manager1", manager_);
  ManagerSession session(of);
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  manager_.tables.servers[self_.index].lost = Verifier{9};
  manager_.tables.generation = Generation{6};
  loop_.advance(3s);
  EXPECT_EQ(removed, 1);
  // Nor does it start by what it had kept before, whoever is away.
  silence("manager1");
  ManagerSession later(seams());
  auto kept = run(later.load_kept());
  ASSERT_FALSE(kept);
  EXPECT_NE(kept.error().message.find("declared lost"), std::string::npos) << kept.error().message;
}

TEST_F(ManagerSessionTest, ADamagedRecordEndsTheStart) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  ASSERT_TRUE(disk_.corrupt("ownership", 20, 1));
  ManagerSession damaged(seams());
  auto read = run(damaged.load_kept());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::kCorrupt);
}

TEST_F(ManagerSessionTest, AManagerThatHasNoTablesIsAsOneThatIsAway) {
  serve("manager1", manager_);
  manager_.has_tables = false;
  ManagerSession session(seams());
  bool ended = false;
  start_void(load_all(session), [&] { ended = true; });
  loop_.advance(30s);
  EXPECT_FALSE(ended);
  manager_.has_tables = true;
  ASSERT_TRUE(loop_.run_until([&] { return ended; }));
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
}

TEST_F(ManagerSessionTest, AProxyGoesByItsHintsOrByTheConfiguration) {
  auto of = seams();
  const ServerConfig& proxy = *config_.find("proxy1");
  ManagerSession::Seams of_proxy{.loop = of.loop,
                                 .channel = of.channel,
                                 .metrics = of.metrics,
                                 .disk = of.disk,
                                 .config = of.config,
                                 .self = proxy,
                                 .tables = of.tables};
  EXPECT_FALSE(waits(of_proxy));
  EXPECT_EQ(tables_.get()->generation(), Generation{0});
  of_proxy.hints = [this]() -> std::optional<wire::Tables> {
    wire::Tables tables = manager_.tables;
    tables.generation = Generation{3};
    return tables;
  };
  ManagerSession session(of_proxy);
  load(session);
  EXPECT_EQ(tables_.get()->generation(), Generation{3});
}

TEST_F(ManagerSessionTest, TellsTheManagerWhatItHolds) {
  EXPECT_EQ(told(seams()).holding, wire::Holding::kNothing);
  auto with_data = seams();
  with_data.served_before = [] { return true; };
  EXPECT_EQ(told(with_data).holding, wire::Holding::kData);
  EXPECT_TRUE(waits(with_data)) << "until then: now it has a copy";
  wire::HeartbeatArgs with_copy = told(with_data);
  EXPECT_EQ(with_copy.holding, wire::Holding::kTables);
  EXPECT_EQ(with_copy.generation, Generation{5});
  EXPECT_EQ(with_copy.tables_digest, wire::digest(manager_.tables));
}

TEST_F(ManagerSessionTest, OffersItsTablesToAManagerThatAsks) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  wire::Tables kept = manager_.tables;
  manager_.has_tables = false;
  manager_.asks = true;
  loop_.advance(2s);
  ASSERT_FALSE(manager_.offers.empty());
  EXPECT_EQ(manager_.offers[0].server, self_.index);
  EXPECT_EQ(wire::digest(manager_.offers[0].tables), wire::digest(kept));
  EXPECT_EQ(manager_.tables_asked, 1) << "it has none to give";
}

TEST_F(ManagerSessionTest, TheManagersOwnProcessHasTheTablesThatItsRoleSet) {
  const ServerConfig& self = *config_.find("manager1");
  ManagerSession session({.loop = loop_,
                          .channel = network_,
                          .metrics = metrics_,
                          .disk = disk_,
                          .config = config_,
                          .self = self,
                          .tables = tables_});
  load(session);
  EXPECT_EQ(tables_.get()->generation(), Generation{0});
  tables_.set(routing::RoutingTables::make(config_, manager_.tables).value());
  serve("manager1", manager_);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  loop_.advance(2s);
  ASSERT_FALSE(manager_.heartbeats.empty());
  EXPECT_EQ(manager_.heartbeats.back().generation, Generation{5});
  EXPECT_EQ(manager_.heartbeats.back().holding, wire::Holding::kTables);
}

TEST_F(ManagerSessionTest, NeverGoesBackToOlderTables) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  manager_.tables.generation = Generation{1};
  manager_.tables.sites[2][0] = config_.find("store2")->index;
  loop_.advance(3s);
  EXPECT_EQ(tables_.get()->generation(), Generation{5});
  EXPECT_TRUE(tables_.get()->owns(config_.find("store1")->index, wire::Role::kStorage, SiteId{0}));
}

TEST_F(ManagerSessionTest, RefusesTablesThatDoNotFitTheConfiguration) {
  serve("manager1", manager_);
  manager_.tables.sites[2].resize(512);
  ManagerSession session(seams());
  bool ended = false;
  start_void(load_all(session), [&] { ended = true; });
  loop_.advance(10s);
  EXPECT_FALSE(ended);
  EXPECT_TRUE(disk_.paths().empty());
  manager_.tables = routing::RoutingTables::initial(config_);
  manager_.tables.generation = Generation{6};
  ASSERT_TRUE(loop_.run_until([&] { return ended; }));
}

TEST_F(ManagerSessionTest, KnowsForHowLongItLagsBehind) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  loop_.advance(3s);
  EXPECT_EQ(session.late(), 0s);
  const wire::Tables good = manager_.tables;
  manager_.tables.generation.value += 1;
  manager_.tables.sites[2].resize(512);  // which it refuses
  loop_.advance(6s);
  EXPECT_GE(session.late(), 4s);
  manager_.tables = good;
  manager_.tables.generation.value += 2;
  loop_.advance(2s);
  EXPECT_EQ(session.late(), 0s);
}

TEST_F(ManagerSessionTest, SaysThatTheKeysDiffer) {
  serve("manager1", manager_);
  rpc::EnsembleKey other = config_.ensemble_key;
  other[0] ^= 1;
  rpc::InProcessNetwork stranger(network_, other, endpoint("store1"));
  auto refused = run(internal_call<wire::Tables>(stranger, endpoint("manager1"), wire::kManagerProgram,
                                                 wire::ManagerProcedure::kGetTables, NoArguments{}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
  EXPECT_EQ(why_the_manager_refuses(refused.error()), "this host's key differs from the manager's");
  // Any other failure is told as it is.
  silence("manager1");
  auto silent = run(internal_call<wire::Tables>(network_, endpoint("manager1"), wire::kManagerProgram,
                                                wire::ManagerProcedure::kGetTables, NoArguments{}));
  ASSERT_FALSE(silent);
  EXPECT_EQ(why_the_manager_refuses(silent.error()), silent.error().message);
}

TEST_F(ManagerSessionTest, WaitsForTheManagerToDrawAVerifier) {
  ManagerSession session(seams());
  std::optional<Verifier> drawn;
  start(session.draw_verifier(), [&](Verifier verifier) { drawn = verifier; });
  loop_.advance(60s);
  EXPECT_FALSE(drawn);
  serve("manager1", manager_);
  ASSERT_TRUE(loop_.run_until([&] { return drawn.has_value(); }, 5s));
  EXPECT_EQ(*drawn, Verifier{42});
}

TEST_F(ManagerSessionTest, RefreshesNowAndAsksOnceForAllWhoWait) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  manager_.tables.generation = Generation{6};
  MonoTime began = loop_.now();
  int ended = 0;
  for (int i = 0; i < 3; ++i) start_void(session.refresh(), [&] { ++ended; });
  ASSERT_TRUE(loop_.run_until([&] { return ended == 3; }));
  EXPECT_EQ(tables_.get()->generation(), Generation{6});
  EXPECT_EQ(manager_.tables_asked, 2) << "at the start and now";
  EXPECT_LT(loop_.now() - began, ManagerSession::kInterval) << "not at the next heartbeat";
  start_void(session.refresh(), [&] { ++ended; });
  ASSERT_TRUE(loop_.run_until([&] { return ended == 4; }));
  EXPECT_EQ(manager_.tables_asked, 3);
  // A manager that is away is waited for no longer than a start does.
  silence("manager1");
  began = loop_.now();
  start_void(session.refresh(), [&] { ++ended; });
  ASSERT_TRUE(loop_.run_until([&] { return ended == 5; }));
  EXPECT_EQ(loop_.now() - began, ManagerSession::kStartTimeout);
  EXPECT_EQ(tables_.get()->generation(), Generation{6});
}

TEST_F(ManagerSessionTest, TakesTablesThatItIsToldOf) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  manager_.tables.generation = Generation{6};
  int ended = 0;
  start_void(session.catch_up(Generation{5}), [&] { ++ended; });
  ASSERT_TRUE(loop_.run_until([&] { return ended == 1; }));
  EXPECT_EQ(tables_.get()->generation(), Generation{5}) << "it has those";
  // The manager answers a question of before, and then publishes.
  start_void(session.refresh(), [&] { ++ended; });
  start_void(session.catch_up(Generation{7}), [&] { ++ended; });
  manager_.tables.generation = Generation{7};
  ASSERT_TRUE(loop_.run_until([&] { return ended == 3; }));
  EXPECT_EQ(tables_.get()->generation(), Generation{7});
}

TEST_F(ManagerSessionTest, BeatsOnceASecondAndLearnsTheLargestVerifier) {
  serve("manager1", manager_);
  verifier_.see(Verifier{9});
  ManagerSession session(seams());
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs& args) {
    args.state = "serving";
    args.free_bytes = 77;
  });
  loop_.advance(3500ms);
  ASSERT_EQ(manager_.heartbeats.size(), 4u);
  EXPECT_EQ(manager_.heartbeats[0].server, self_.index);
  EXPECT_EQ(manager_.heartbeats[0].largest_seen, Verifier{9});
  EXPECT_EQ(manager_.heartbeats[0].state, "serving");
  EXPECT_EQ(manager_.heartbeats[0].free_bytes, 77u);
  EXPECT_EQ(manager_.heartbeats[0].generation, Generation{5});
  EXPECT_GT(manager_.heartbeats[0].started_ns, 0u);
  EXPECT_EQ(verifier_.largest(), Verifier{41});
}

TEST_F(ManagerSessionTest, RefreshesTheTablesWhenTheGenerationMoved) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  load(session);
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  loop_.advance(3s);
  EXPECT_EQ(manager_.tables_asked, 1);
  Generation told{};
  tables_.watch([&](const auto& tables) { told = tables->generation(); });
  manager_.tables.generation = Generation{6};
  loop_.advance(1100ms);
  EXPECT_EQ(tables_.get()->generation(), Generation{6});
  EXPECT_EQ(told, Generation{6});
  EXPECT_EQ(manager_.tables_asked, 2);
}

TEST_F(ManagerSessionTest, GoesOnBeatingThroughASilenceOfTheManager) {
  serve("manager1", manager_);
  ManagerSession session(seams());
  session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
  loop_.advance(100ms);
  silence("manager1");
  loop_.advance(30s);
  EXPECT_GT(metrics_.counter("manager_heartbeat_failures_total").value(), 5u);
  EXPECT_GE(session.manager_silent(), 29s);
  std::size_t before = manager_.heartbeats.size();
  serve("manager1", manager_);
  loop_.advance(5s);
  EXPECT_GE(manager_.heartbeats.size(), before + 4);
  EXPECT_LT(session.manager_silent(), 2s);
}

TEST_F(ManagerSessionTest, EndsItsHeartbeatsWithItself) {
  serve("manager1", manager_);
  {
    ManagerSession session(seams());
    session.start_heartbeats(verifier_, [](wire::HeartbeatArgs&) {});
    loop_.advance(100ms);
  }
  loop_.advance(10s);
  EXPECT_EQ(manager_.heartbeats.size(), 1u);
}

class DurableFileTest : public testing::ServiceFixture {
 protected:
  DurableFileTest() : testing::ServiceFixture("store1") {}
  Status write(std::string_view text) {
    return run(storage::replace_file(disk_, "state", Buffer(as_bytes(text))));
  }
  Result<std::string> read() {
    auto contents = run(storage::read_file(disk_, "state"));
    if (!contents) return fail(std::move(contents).error());
    return std::string(as_text(contents->view()));
  }
};

TEST_F(DurableFileTest, ReadsWhatWasWrittenLast) {
  EXPECT_EQ(read().error().code, Errc::kNotFound);
  ASSERT_TRUE(write("a longer text, first"));
  ASSERT_TRUE(write("short"));
  EXPECT_EQ(read().value(), "short");
  EXPECT_EQ(disk_.paths(), std::vector<std::string>{"state"});
}

TEST_F(DurableFileTest, IsTheOldOrTheNewOneAfterACrashAtAnyPoint) {
  bool old_seen = false, new_seen = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (std::uint64_t point = 0; point < 8; ++point) {
      storage::MemoryDisk disk(loop_);
      ASSERT_TRUE(run(storage::replace_file(disk, "state", Buffer(as_bytes("old")))));
      std::uint64_t begin = disk.operations();
      bool crashed = false;
      disk.set_fault([&](const auto&) -> std::optional<Error> {
        if (crashed || disk.operations() < begin + point) return std::nullopt;
        crashed = true;
        disk.crash(storage::MemoryDisk::Crash::kSeeded, seed);
        return Error{Errc::kIo, "crash"};
      });
      Status written = run(storage::replace_file(disk, "state", Buffer(as_bytes("new"))));
      disk.set_fault(nullptr);
      if (!crashed) disk.crash(storage::MemoryDisk::Crash::kDropUnsynced);
      auto contents = run(storage::read_file(disk, "state"));
      ASSERT_TRUE(contents) << contents.error().message;
      std::string text(as_text(contents->view()));
      if (written) {
        EXPECT_EQ(text, "new");
      }
      old_seen = old_seen || text == "old";
      new_seen = new_seen || text == "new";
      EXPECT_TRUE(text == "old" || text == "new") << text;
    }
  }
  EXPECT_TRUE(old_seen && new_seen);
}

TEST_F(DurableFileTest, RefusesWhatIsDamagedOrTooLarge) {
  ASSERT_TRUE(write("contents"));
  EXPECT_EQ(run(storage::read_file(disk_, "state", 4)).error().code, Errc::kTooLarge);
  ASSERT_TRUE(disk_.corrupt("state", 3, 0x10));
  EXPECT_EQ(read().error().code, Errc::kCorrupt);
  auto file = run(disk_.open("state", storage::Disk::Mode::kMustExist)).value();
  ASSERT_TRUE(run(file->truncate(2)));
  EXPECT_EQ(read().error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace slice::service
