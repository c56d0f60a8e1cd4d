#include "control/slicectl/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/slicectl/render_status.h"
#include "rpc/call.h"
#include "service/testing/service_fixture.h"

namespace slice::slicectl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kNow = 1'800'000'000'000'000'000;
constexpr std::int64_t kSeconds = 1'000'000'000;

// A well ensemble, of which each test breaks something.
class HealthTest : public service::testing::ServiceFixture {
 protected:
  HealthTest() : ServiceFixture("dir1") {
    heard_.now = WallTime{kNow};
    heard_.tables = tables_.get()->wire();
    heard_.tables->generation = Generation{4};
    heard_.members.emplace();
    heard_.members->generation = Generation{4};
    heard_.members->settings = SettingsGeneration{2};
    heard_.moves.emplace();
    heard_.backing.emplace();
    for (const wire::ServerEntry& entry : heard_.tables->servers) add(entry);
  }
  void add(const wire::ServerEntry& entry) {
    wire::HeartbeatArgs told;
    told.server = entry.server;
    told.started_ns = kNow - 100 * kSeconds;
    told.generation = Generation{4};
    told.tables_digest = wire::digest(*heard_.tables);
    if (static_cast<std::size_t>(entry.role) < wire::kSiteClasses)
      told.record_digest = wire::digest(wire::sites_of(*heard_.tables, entry.name));
    told.free_bytes = 60;
    told.total_bytes = 100;
    told.state = "serving";
    told.settings = SettingsGeneration{2};
    heard_.members->members.push_back({.entry = entry, .last = told, .age_ms = 300, .alive = true});
    HeardServer own{.entry = entry};
    own.about = {.name = entry.name,
                 .version = "0.1.0",
                 .told = told,
                 .wall_ns = kNow,
                 .state_ms = 90'000,
                 .manager_silent_ms = 100,
                 .shared = wire::shared_keys(config_)};
    heard_.servers.push_back(std::move(own));
  }
  wire::Member& member(const std::string& name) {
    return heard_.members->members.at(config_.find(name)->index);
  }
  HeardServer& own(const std::string& name) { return heard_.servers.at(config_.find(name)->index); }
  wire::AboutResult& about(const std::string& name) { return *own(name).about; }
  void set_state(const std::string& name, const std::string& state) {
    member(name).last.state = about(name).told.state = state;
  }
  void die(const std::string& name, std::uint64_t age_ms = 12'000) {
    member(name).alive = false;
    member(name).age_ms = age_ms;
    fall_silent(name);
  }
  void fall_silent(const std::string& name) {
    own(name).silence = Error{Errc::kUnavailable, "connection refused"};
    own(name).about.reset();
  }
  void lose_manager() {
    heard_.manager_silence = Error{Errc::kTimedOut, "no answer"};
    heard_.members.reset();
    heard_.tables.reset();
    heard_.moves.reset();
    fall_silent("manager1");
  }
  wire::MoveState& begin_move() {
    wire::MoveState move;
    move.move = {.id = wire::MoveId{7},
                 .site_class = wire::Role::kStorage,
                 .from = config_.find("store1")->index,
                 .to = config_.find("store2")->index,
                 .sites = {1, 3}};
    move.began_ns = kNow - 60 * kSeconds;
    heard_.moves->moves.push_back(move);
    return heard_.moves->moves.back();
  }

  Health health() const { return judge(config_, heard_); }
  // "NAME SERVER" of each finding.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Finding& each : health().findings)
      names.push_back(each.name + (each.server.empty() ? "" : " " + each.server));
    return names;
  }
  Finding only() const {
    const Health all = health();
    EXPECT_THAT(names(), ::testing::SizeIs(1));
    return all.findings.empty() ? Finding{} : all.findings.front();
  }

  Heard heard_;
};

TEST_F(HealthTest, MembersOfEtcdThatAreNotWellAreAWarning) {
  config_.managers.etcd = {"http://a:2379", "http://b:2379", "http://c:2379"};
  wire::LeaderResult& said = own("manager1").leader.emplace();
  said = {.leads = true, .since_ms = 60'000, .leader = "manager1", .trouble = "", .places = {}};
  for (const std::string& each : config_.managers.etcd) said.places.push_back({each, ""});
  for (HeardServer& each : heard_.servers) each.about->shared = wire::shared_keys(config_);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(render_status(config_, heard_, health(), Format::kText),
              ::testing::ContainsRegex("etcd +3 of 3 well +manager1 leads"));
  said.places[1].trouble = "no answer";
  EXPECT_EQ(only().name, "ETCD_DEGRADED");
  EXPECT_EQ(only().level, HealthLevel::kWarning);
  EXPECT_THAT(only().what,
              HasSubstr("1 of 3 members of etcd are not well (http://b:2379: no answer): with one more"));
  const auto json = nlohmann::json::parse(render_status(config_, heard_, health(), Format::kJson));
  EXPECT_EQ(json["leader"], "manager1");
  EXPECT_EQ(json["etcd"][1]["trouble"], "no answer");
}

TEST_F(HealthTest, WhoIsNotHeardYetByANewLeaderIsNotSaidToBe) {
  config_.managers.etcd = {"http://a:2379"};
  for (HeardServer& each : heard_.servers) each.about->shared = wire::shared_keys(config_);
  wire::LeaderResult& said = own("manager1").leader.emplace();
  said = {.leads = true, .since_ms = 700, .leader = "manager1", .trouble = "", .places = {}};
  member("store1").alive = false;
  EXPECT_THAT(names(), IsEmpty());
  said.since_ms = 60'000;
  EXPECT_THAT(names(), ElementsAre("UNHEARD store1"));
}

TEST_F(HealthTest, OfSeveralManagersNoneNeedBeTheOneThatIsSilent) {
  config_.managers.etcd = {"http://a:2379"};
  for (HeardServer& each : heard_.servers) each.about->shared = wire::shared_keys(config_);
  lose_manager();
  EXPECT_EQ(health().findings.front().name, "MANAGER_SILENT");
  EXPECT_EQ(health().findings.front().server, "");
  EXPECT_THAT(health().findings.front().cure, HasSubstr("Several managers"));
}

TEST_F(HealthTest, IsWellWhereNothingIsWrong) {
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(health().level(), HealthLevel::kOk);
  EXPECT_EQ(render_status(config_, heard_, health(), Format::kText).substr(0, 10), "HEALTH_OK\n");
}

TEST_F(HealthTest, NamesAServerThatIsDownAndWhatIsOutOfReach) {
  die("store1");
  Finding found = only();
  EXPECT_EQ(found.name, "SERVER_DOWN");
  EXPECT_EQ(found.level, HealthLevel::kError);
  EXPECT_THAT(found.what, HasSubstr("512 of 1024 storage sites: what files with one copy have there"));
  EXPECT_THAT(found.what, HasSubstr("files with more are served from the others"));
  EXPECT_EQ(found.since_ns, kNow - 12 * kSeconds);
  EXPECT_THAT(found.cure, HasSubstr("at 10.77.4.2: systemctl start slice-stored@store1"));
  EXPECT_THAT(finding_text(found, heard_.now), HasSubstr("(12 s). Cure: at"));
  die("store2");
  for (const Finding& each : health().findings)
    EXPECT_THAT(each.what, HasSubstr("all its copies on store1, store2"));
  die("dir1");
  die("coord1");
  die("proxy1");
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN dir1", "SERVER_DOWN store1", "SERVER_DOWN store2",
                                   "SERVER_DOWN coord1", "SERVER_DOWN proxy1"));
  EXPECT_THAT(health().findings[0].what, HasSubstr("64 of 64 directory sites"));
  EXPECT_THAT(health().findings[4].what, HasSubstr("no client reaches the volume"));
}

TEST_F(HealthTest, OnlyWarnsOfADeadServerThatHasNothing) {
  for (std::uint32_t& owner : heard_.tables->sites[static_cast<std::size_t>(wire::Role::kStorage)])
    owner = config_.find("store2")->index;
  for (HeardServer& each : heard_.servers) {
    each.about->told.tables_digest = wire::digest(*heard_.tables);
    if (each.entry.role == wire::Role::kStorage)
      each.about->told.record_digest = wire::digest(wire::sites_of(*heard_.tables, each.entry.name));
  }
  die("store1");
  EXPECT_EQ(only().level, HealthLevel::kWarning);
  EXPECT_THAT(only().what, HasSubstr("it has no sites"));
}

TEST_F(HealthTest, TellsWhoIsUnheardFromWhoIsUnreachable) {
  member("store1").alive = false;
  EXPECT_THAT(names(), ElementsAre("UNHEARD store1"));
  member("store1").alive = true;
  fall_silent("store1");
  EXPECT_THAT(names(), ElementsAre("UNREACHABLE store1"));
  member("store1").age_ms = 2500;
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN store1")) << "a heartbeat is missing, too";
}

TEST_F(HealthTest, GivesAManagerThatHasStartedTimeToHearEverybody) {
  member("store1").alive = false;
  member("manager1").last.started_ns = kNow - 4 * kSeconds;
  EXPECT_THAT(names(), IsEmpty()) << "it answers here";
  fall_silent("store1");
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN store1"));
}

TEST_F(HealthTest, JudgesByServersThemselvesWhereTheManagerIsSilent) {
  lose_manager();
  for (HeardServer& each : heard_.servers) {
    if (each.about) each.about->manager_silent_ms = 30'000;
  }
  about("store2").manager_silent_ms = 31'000;
  EXPECT_THAT(names(), ElementsAre("MANAGER_SILENT manager1"));
  EXPECT_EQ(only().since_ns, kNow - 30 * kSeconds);
  EXPECT_EQ(only().level, HealthLevel::kError);
  fall_silent("store1");
  EXPECT_THAT(names(), ElementsAre("MANAGER_SILENT manager1", "SERVER_DOWN store1"));
}

TEST_F(HealthTest, SaysThatKeysDiffer) {
  own("store1").silence = rpc::other_key();
  own("store1").about.reset();
  member("store1").alive = false;
  EXPECT_THAT(names(), ElementsAre("KEY_DIFFERS store1"));
  lose_manager();
  heard_.manager_silence = rpc::other_key();
  own("manager1").silence = rpc::other_key();
  EXPECT_THAT(names(), ElementsAre("KEY_DIFFERS manager1", "KEY_DIFFERS store1"));
}

TEST_F(HealthTest, SaysWhoDoesNotServeAndWhy) {
  set_state("store1", "read-only: no space");
  EXPECT_EQ(only().name, "NO_SPACE");
  EXPECT_EQ(only().since_ns, kNow - 90 * kSeconds);
  set_state("store1", "serving");
  set_state("small1", "failed: cannot write, restart it");
  EXPECT_EQ(only().name, "SERVER_FAILED");
  EXPECT_THAT(only().cure, HasSubstr("systemctl restart slice-smallfiled@small1"));
  set_state("small1", "waiting: for the manager");
  fall_silent("small1");  // who waits does not listen
  EXPECT_EQ(only().name, "NOT_SERVING");
  EXPECT_EQ(only().since_ns, kNow - 100 * kSeconds) << "since it started";
  EXPECT_THAT(only().what, HasSubstr("64 of 64 small-file sites: the first 64 KiB"));
}

TEST_F(HealthTest, WarnsBeforeADiskIsFull) {
  member("dir1").last.free_bytes = 10;
  EXPECT_THAT(names(), IsEmpty());
  member("dir1").last.free_bytes = 9;
  EXPECT_EQ(only().name, "NEARLY_FULL");
  EXPECT_EQ(only().level, HealthLevel::kWarning);
}

TEST_F(HealthTest, TellsOfDamageAndOfDisksThatFail) {
  own("store1").figures["slice_store_checksum_errors_total"] = 2;
  own("dir1").figures["slice_kv_sync_failures_total"] = 1;
  EXPECT_THAT(names(), ElementsAre("DISK_ERRORS dir1", "DAMAGED_BYTES store1"));
}

TEST_F(HealthTest, TellsOfCopiesOfABackingSetThatDiffer) {
  own("dir1").figures["slice_backing_differing_pieces"] = 2;
  EXPECT_EQ(only().name, "COPIES_DIFFER");
  EXPECT_EQ(only().level, HealthLevel::kError);
  EXPECT_THAT(only().what, HasSubstr("in 2 pieces"));
}

TEST_F(HealthTest, TellsOfCopiesThatAreNotWhole) {
  own("coord1").figures["slice_coordinator_copies_missing_something"] = 5;
  EXPECT_EQ(only().name, "REDUNDANCY");
  EXPECT_THAT(only().what, HasSubstr("5 copies of mirrored files are not whole"));
  EXPECT_THAT(only().cure, HasSubstr("being made whole"));
  die("store2");
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN store2", "REDUNDANCY"));
  EXPECT_THAT(health().findings[1].cure, HasSubstr("bring the storage server back"));
}

TEST_F(HealthTest, TellsOfBackingSetsWithFewCopies) {
  const std::uint32_t store1 = config_.find("store1")->index, store2 = config_.find("store2")->index;
  wire::BackingSet set{.server = config_.find("dir1")->index, .epoch = BackingEpoch{3}, .copies = 2};
  set.members = {store1, store2};
  heard_.backing->sets = {set};
  EXPECT_THAT(names(), IsEmpty());
  heard_.backing->sets[0].members = {store2};
  EXPECT_THAT(names(), ElementsAre("BACKING_DEGRADED dir1"));
  EXPECT_THAT(only().what, HasSubstr("1 of 2 copies, on store2: it is lost with that one"));
  heard_.backing.reset();
  EXPECT_THAT(names(), IsEmpty()) << "a manager that does not know of them";
}

TEST_F(HealthTest, TellsOfServersWithSeveralPlacesForWhichNobodyStandsBy) {
  for (ServerConfig& each : config_.servers) {
    if (each.name == "dir1") each.places = {each.address, each.address.v4() + 256};
  }
  EXPECT_THAT(names(), IsEmpty()) << "a manager that does not know of them";
  heard_.standbys.emplace();
  EXPECT_THAT(names(), ElementsAre("NO_STANDBY dir1"));
  heard_.standbys->standbys = {{.server = config_.find("dir1")->index, .endpoint = {1, 2}}};
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(HealthTest, TellsOfMovesThatDoNotGoOn) {
  wire::MoveState& move = begin_move();
  EXPECT_THAT(names(), IsEmpty()) << "it goes on";
  heard_.moves->settings.paused = true;
  EXPECT_THAT(names(), ElementsAre("MOVES_PAUSED"));
  heard_.moves->settings.paused = false;
  move.last.trouble = "no space there";
  EXPECT_THAT(names(), IsEmpty()) << "at the first try";
  move.last.tries = 1;
  EXPECT_THAT(names(), ElementsAre("MOVES_STUCK store1"));
  EXPECT_THAT(only().what, HasSubstr("move 7 of 2 storage sites to store2: no space there"));
  EXPECT_EQ(only().since_ns, kNow - 60 * kSeconds);
  move.last = {};
  die("store2");
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN store2", "MOVES_STUCK store1"));
  move.ended_ns = kNow - 1;
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN store2"));
}

TEST_F(HealthTest, TellsOfExportsThatLetNobodyIn) {
  for (HeardServer& each : heard_.servers) each.figures["slice_manager_exports_of_no_tree"] = 2;
  EXPECT_EQ(only().name, "EXPORT_OF_NO_TREE") << "by the manager's word alone";
  EXPECT_THAT(only().what, HasSubstr("2 of the paths"));
}

TEST_F(HealthTest, TellsWhoLagsBehindForLong) {
  about("proxy1").told.generation = Generation{3};
  about("proxy1").late_ms = 500;
  EXPECT_THAT(names(), IsEmpty()) << "it takes a moment to get everywhere";
  about("proxy1").late_ms = 7000;
  EXPECT_EQ(only().name, "LATE_TABLES");
  EXPECT_EQ(only().since_ns, kNow - 7 * kSeconds);
  about("proxy1").told.settings = SettingsGeneration{1};
  EXPECT_THAT(names(), ElementsAre("LATE_TABLES proxy1", "LATE_SETTINGS proxy1"));
}

TEST_F(HealthTest, TellsOfTablesAndRecordsThatContradict) {
  about("proxy1").told.tables_digest ^= 1;
  about("store1").told.record_digest ^= 1;
  EXPECT_THAT(names(), ElementsAre("RECORD_DIFFERS store1", "TABLES_DIFFER proxy1"));
  about("proxy1").told.tables_digest ^= 1;
  wire::MoveState& move = begin_move();
  EXPECT_THAT(names(), IsEmpty()) << "a move gives sites away before tables say so";
  move.ended_ns = kNow - kSeconds;
  EXPECT_THAT(names(), IsEmpty()) << "and its end takes a moment to get everywhere";
  move.ended_ns = kNow - 10 * kSeconds;
  EXPECT_THAT(names(), ElementsAre("RECORD_DIFFERS store1"));
}

TEST_F(HealthTest, NamesKeysOfTheConfigurationThatDiffer) {
  EnsembleConfig other = config_;
  other.volume.threshold = 1 << 20;
  about("store1").shared = wire::shared_keys(other);
  EXPECT_EQ(only().name, "CONFIG_DIFFERS");
  EXPECT_THAT(only().what, HasSubstr("[volume] threshold (1048576, here 65536)"));
}

TEST_F(HealthTest, TellsOfVersionsThatDiffer) {
  about("store1").version = "0.2.0";
  EXPECT_EQ(only().name, "VERSIONS_DIFFER");
  EXPECT_THAT(only().what, HasSubstr("0.2.0: store1"));
  about("store1").version = "0.1.0";
  own("store2").about.reset();
  EXPECT_THAT(only().what, HasSubstr("older: store2")) << "it answers, and does not know the question";
}

TEST_F(HealthTest, TellsOfClocksAsFarAsTheyCanBeCompared) {
  own("store1").ahead_ns = 1'400'000'000;
  own("store1").inexact = std::chrono::milliseconds(500);
  EXPECT_THAT(names(), IsEmpty()) << "it may be 0.9 s";
  own("store1").inexact = std::chrono::milliseconds(1);
  EXPECT_EQ(only().name, "CLOCK");
  EXPECT_THAT(only().what, HasSubstr("its clock is 1.4 s ahead of the manager's"));
  own("store1").ahead_ns = 0;
  for (HeardServer& each : heard_.servers) each.ahead_ns = 5 * kSeconds;
  EXPECT_EQ(only().server, "") << "this host's is the wrong one";
  EXPECT_THAT(only().what, HasSubstr("this host's clock is 5.0 s behind"));
}

TEST_F(HealthTest, TellsThatXdpIsOffOnlyWhereItWasAskedFor) {
  member("proxy1").last.detail = "xdp: none: the kernel refuses the XDP program";
  EXPECT_THAT(names(), IsEmpty());
  config_.proxy.xdp = ProxyConfig::Xdp::kNative;
  EXPECT_EQ(only().name, "XDP_OFF");
  EXPECT_THAT(only().what, HasSubstr("asks for \"native\""));
  member("proxy1").last.detail = "xdp: native eth0";
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(HealthTest, TellsWhereNotExactlyOneProxyHasTheAddress) {
  own("proxy1").figures["slice_proxy_holds_address"] = 1;
  EXPECT_THAT(names(), IsEmpty());
  own("proxy1").figures["slice_proxy_holds_address"] = 0;
  EXPECT_EQ(only().name, "ADDRESS_UNHELD");
  EXPECT_EQ(only().level, HealthLevel::kError);
  for (const char* name : {"proxy1", "dir1"}) own(name).figures["slice_proxy_holds_address"] = 1;
  EXPECT_EQ(only().name, "ADDRESS_TWICE");
  EXPECT_THAT(only().what, HasSubstr(" and "));
}

TEST_F(HealthTest, TellsOfAServerThatWasDeclaredLost) {
  die("store1");
  member("store1").entry.lost = Verifier{9};
  EXPECT_THAT(names(), ElementsAre("SERVER_LOST store1"));
}

TEST_F(HealthTest, ShowsTheWorstFirst) {
  member("dir1").last.free_bytes = 1;
  die("store2");
  EXPECT_THAT(names(), ElementsAre("SERVER_DOWN store2", "NEARLY_FULL dir1"));
  EXPECT_EQ(health().level(), HealthLevel::kError);
  const auto said = nlohmann::json::parse(render_status(config_, heard_, health(), Format::kJson));
  EXPECT_EQ(said["health"], "HEALTH_ERR");
  EXPECT_EQ(said["findings"][0]["name"], "SERVER_DOWN");
  EXPECT_EQ(said["findings"][0]["since_seconds"], 12);
  EXPECT_EQ(said["findings"][1]["level"], "warning");
  EXPECT_EQ(said["findings"][1]["since_seconds"], nullptr);
  EXPECT_EQ(said["roles"]["storage"]["alive"], 1);
}

TEST_F(HealthTest, WritesWhatChanges) {
  const Health well = health();
  EXPECT_THAT(render_changes(nullptr, well, heard_.now, Format::kText), HasSubstr(" HEALTH_OK\n"));
  EXPECT_EQ(render_changes(&well, well, heard_.now, Format::kText), "");
  die("store1");
  const Health ill = health();
  std::string text = render_changes(&well, ill, heard_.now, Format::kText);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, HasSubstr(" HEALTH_ERR\n"));
  EXPECT_THAT(text, HasSubstr(" SERVER_DOWN store1: "));
  member("store1").age_ms = 14'000;
  EXPECT_EQ(render_changes(&ill, health(), heard_.now, Format::kText), "") << "it is the same finding";
  text = render_changes(&ill, well, heard_.now, Format::kText);
  EXPECT_THAT(text, HasSubstr(" over: SERVER_DOWN store1\n"));
  const auto said = nlohmann::json::parse(render_changes(&well, ill, heard_.now, Format::kJson));
  EXPECT_EQ(said["begun"][0]["name"], "SERVER_DOWN");
}

TEST(FiguresOf, AreMetricsWithoutLabels) {
  const auto figures = figures_of("# HELP a b\na 7\nb{c=\"d e\"} 3\nc 1.5\nno number\n\nd");
  EXPECT_THAT(figures, ElementsAre(::testing::Pair("a", 7), ::testing::Pair("c", 1.5)));
}

}  // namespace
}  // namespace slice::slicectl
