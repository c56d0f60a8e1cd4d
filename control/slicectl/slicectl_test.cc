#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "control/manager/file_store.h"
#include "control/manager/manager.h"
#include "control/slicectl/failover_command.h"
#include "control/slicectl/plans.h"
#include "control/slicectl/queries.h"
#include "control/slicectl/render_status.h"
#include "service/admin_program.h"
#include "service/internal_call.h"
#include "service/nfs_program.h"
#include "service/testing/service_fixture.h"

namespace slice::slicectl {
namespace {

using namespace std::chrono_literals;
using nfs3::Procedure;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// A volume of a few names, as a directory server answers for it.
class FakeDirectory {
 public:
  FakeDirectory(service::ServiceContext& context)
      : context_(context), program_(context, wire::Role::kDirectory) {
    program_.on<nfs3::DirOpArgs>(Procedure::kLookup,
                                 [this](service::NfsRequest& request, const nfs3::DirOpArgs& args,
                                        rpc::XdrWriter& out) { return lookup(request, args, out); });
    program_.on<nfs3::HandleView>(Procedure::kGetattr,
                                  [this](service::NfsRequest& request, const nfs3::HandleView&,
                                         rpc::XdrWriter& out) { return getattr(request, out); });
  }
  routing::FileHandle& add(FileId parent, const std::string& name, routing::FileHandle handle,
                           std::uint64_t size) {
    sizes_[handle.fileid] = size;
    return names_[{parent, name}] = handle;
  }
  rpc::Program& program() { return program_; }
  int jukebox = 0;  // answers of that kind still to give

 private:
  Task<service::NfsAnswer> lookup(service::NfsRequest& request, const nfs3::DirOpArgs& args,
                                  rpc::XdrWriter& out) {
    EXPECT_TRUE(request.who.superuser());
    if (jukebox > 0) {
      --jukebox;
      co_return nfs3::Status::kJukebox;
    }
    auto found = names_.find({request.handle.fileid, std::string(args.name)});
    if (found == names_.end()) co_return nfs3::Status::kNoEnt;
    routing::HandleBytes bytes = context_.handles.mint(found->second);
    nfs3::encode_result(out, nfs3::LookupOk{.object = bytes});
    co_return service::NfsAnswer::written();
  }
  Task<service::NfsAnswer> getattr(service::NfsRequest& request, rpc::XdrWriter& out) {
    nfs3::Attributes attributes;
    attributes.type = request.handle.type;
    attributes.mode = 0640;
    attributes.uid = 12;
    attributes.size = sizes_[request.handle.fileid];
    attributes.rdev_major = 2;
    nfs3::encode_result(out, nfs3::GetattrOk{attributes});
    co_return service::NfsAnswer::written();
  }

  service::ServiceContext& context_;
  service::NfsProgram program_;
  std::map<std::pair<FileId, std::string>, routing::FileHandle> names_;
  std::map<FileId, std::uint64_t> sizes_;
};

class FakeObjects : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kObjectProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    wire::ObjectStatArgs args;
    if (call.procedure != 5 || !decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
    wire::ObjectStatResult result{.status = nfs3::Status::kNoEnt};
    if (args.object == holds) result = stat;
    encode(results, result);
    co_return rpc::Outcome::kReply;
  }
  wire::ObjectName holds;
  wire::ObjectStatResult stat;
};

// Directories' policies by fileID; merges nothing, only notes what it was asked.
class FakeAuthority : public rpc::Program {
 public:
  explicit FakeAuthority(const routing::HandleCodec& handles) : handles_(handles) {}
  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    wire::PolicyArgs args;
    if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
    auto directory = handles_.open(args.handle);
    asked.push_back({directory->fileid, args.fields, args.policy});
    encode(results, wire::PolicyResult{.status = answer, .policy = policies[directory->fileid]});
    co_return rpc::Outcome::kReply;
  }
  struct Asked {
    FileId directory;
    std::uint32_t fields;
    wire::FilePolicy policy;
    bool operator==(const Asked&) const = default;
  };
  std::vector<Asked> asked;
  std::map<FileId, wire::FilePolicy> policies;
  nfs3::Status answer = nfs3::Status::kOk;

 private:
  const routing::HandleCodec& handles_;
};

class SlicectlTest : public service::testing::ServiceFixture {
 protected:
  SlicectlTest()
      : ServiceFixture("dir1"),
        manager_context_{.loop = loop_,
                         .channel = network_,
                         .metrics = metrics_,
                         .disk = disk_,
                         .config = config_,
                         .self = *config_.find("manager1"),
                         .handles = handles_,
                         .tables = tables_,
                         .settings = settings_,
                         .verifier = verifier_,
                         .random = nullptr,
                         .crash = crash_points_},
        store_(disk_),
        manager_(manager_context_, store_),
        directory_(context_),
        authority_(handles_),
        ctl_(network_, rpc::Endpoint{0x0a4d0201, 999}, 0xffffffff),
        seams_{.loop = loop_, .channel = ctl_, .config = config_, .timeout = 1s} {
    manager::ManagerState state{.drawn = {}, .volume = config_.volume, .tables = tables_.get()->wire()};
    state.tables.generation = Generation{1};
    EXPECT_TRUE(run(save_state(store_, state)));
    EXPECT_TRUE(run(manager_.start()));
    serve("manager1", manager_);
    serve("dir1", directory_.program());
    serve("dir1", authority_);
    serve("small1", small_);
    serve("store1", store1_);
    serve("store2", store2_);
  }
  static routing::FileHandle handle(std::uint64_t id, nfs3::FileType type) {
    routing::FileHandle handle;
    handle.type = type;
    handle.fileid = FileId{id};
    handle.directory_site = SiteId{static_cast<std::uint32_t>(id % 64)};
    handle.tree = TreeId{static_cast<std::uint16_t>(id / 10)};
    handle.cell_key = 0xabc;
    return handle;
  }
  // /docs/big, 300 KiB.
  void make_volume() {
    directory_.add(FileId{1}, "docs", handle(20, nfs3::FileType::kDirectory), 4096);
    directory_.add(FileId{20}, "big", handle(21, nfs3::FileType::kRegular), 300 << 10);
    directory_.add(FileId{20}, "link", handle(22, nfs3::FileType::kSymlink), 5);
    wire::ObjectName name{.volume = VolumeId{1}, .fileid = FileId{21}};
    small_.holds = store1_.holds = name;
    small_.stat = {.end = 65536, .allocated = 65536, .epoch = Epoch{2}, .extents = {{0, 8192, 0x4000}}};
    store1_.stat = {.end = 300 << 10, .allocated = 131072, .epoch = Epoch{2}, .extents = {}};
  }
  std::string status(Format format) {
    const Heard heard = run(hear(seams_));
    return render_status(config_, heard, judge(config_, heard), format);
  }
  Result<Where> where(const std::string& path) { return run(ask_where(seams_, tables_.get(), path)); }

  service::ServiceContext manager_context_;
  manager::FileStore store_;
  manager::Manager manager_;
  FakeDirectory directory_;
  FakeAuthority authority_;
  FakeObjects small_, store1_, store2_;
  rpc::InProcessNetwork ctl_;
  Seams seams_;
};

TEST_F(SlicectlTest, FindsAFilesNameAttributesAndBytes) {
  make_volume();
  auto found = where("//docs/big");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, "/docs/big");
  EXPECT_EQ(found->handle.fileid, FileId{21});
  json said = json::parse(render_where(config_, *found, Format::kJson));
  EXPECT_EQ(said["size"], 300 << 10);
  EXPECT_EQ(said["directory"]["server"], "dir1");
  EXPECT_EQ(said["directory"]["site"], 21);
  EXPECT_EQ(said["handle"]["tree"], 2);
  EXPECT_EQ(said["name"]["site"], 20);
  EXPECT_EQ(said["coordinator"]["server"], "coord1");
  EXPECT_EQ(said["handle"]["fileid"], "0x0000000000000015");
  EXPECT_EQ(said["handle"]["bytes"].get<std::string>().size(), 112u);
  EXPECT_EQ(said["small_file"]["server"], "small1");
  EXPECT_EQ(said["small_file"]["allocated"], 65536);
  EXPECT_EQ(said["small_file"]["extents"][0]["place"], 0x4000);
  ASSERT_EQ(said["storage"].size(), 2u);
  EXPECT_EQ(said["storage"][0]["allocated"], 131072);
  EXPECT_EQ(said["storage"][1]["allocated"], 0);
  // Stripes 1 to 4, each at the one server that the tables say.
  std::vector<int> stripes = said["storage"][0]["stripes"];
  std::vector<int> others = said["storage"][1]["stripes"];
  stripes.insert(stripes.end(), others.begin(), others.end());
  EXPECT_THAT(stripes, ::testing::UnorderedElementsAre(1, 2, 3, 4));
  std::string text = render_where(config_, *found, Format::kText);
  EXPECT_THAT(text, HasSubstr("fileID 0x15"));
  EXPECT_THAT(text, HasSubstr("bytes below 65536: site"));
  EXPECT_THAT(text, HasSubstr("store2: holds nothing"));
}

TEST_F(SlicectlTest, FindsDirectoriesAndTheRootWithoutAskingDataServers) {
  make_volume();
  auto root = where("/");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->path, "/");
  EXPECT_EQ(root->handle.fileid, FileId{1});
  auto docs = where("/docs/");
  ASSERT_TRUE(docs);
  json said = json::parse(render_where(config_, *docs, Format::kJson));
  EXPECT_EQ(said["type"], "directory");
  EXPECT_FALSE(said.contains("storage"));
  EXPECT_TRUE(where("/docs/link"));
}

TEST_F(SlicectlTest, SaysWhatIsWrongWithAPath) {
  make_volume();
  auto says = [&](const std::string& path, Errc code, const std::string& reason) {
    auto found = where(path);
    ASSERT_FALSE(found) << path;
    EXPECT_EQ(found.error().code, code) << found.error().message;
    EXPECT_THAT(found.error().message, HasSubstr(reason));
  };
  says("docs", Errc::kInvalid, "'docs' is not an absolute path");
  says("/nothing/there", Errc::kNotFound, "/nothing: no such file or directory");
  says("/docs/big/x", Errc::kInvalid, "/docs/big: not a directory");
  says("/docs/link/x", Errc::kInvalid, "/docs/link: a symbolic link, which is not followed");
  says("/docs/../docs", Errc::kInvalid, "'.' and '..' are not resolved");
  says("/" + std::string(256, 'x'), Errc::kInvalid, "a name of more than 255 bytes");
  silence("dir1");
  says("/docs", Errc::kTimedOut, "dir1");
}

TEST_F(SlicectlTest, AsksAgainWhileTheServerSaysJukebox) {
  make_volume();
  directory_.jukebox = 3;
  EXPECT_TRUE(where("/docs"));
  directory_.jukebox = 1000;
  auto found = where("/docs");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kUnavailable);
}

TEST_F(SlicectlTest, ShowsTheRestWhereADataServerIsSilent) {
  make_volume();
  silence("store2");
  auto found = where("/docs/big");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->storage[0].stat);
  EXPECT_FALSE(found->storage[1].stat);
  json said = json::parse(render_where(config_, *found, Format::kJson));
  EXPECT_TRUE(said["storage"][1].contains("error"));
  EXPECT_THAT(render_where(config_, *found, Format::kText), HasSubstr("store2: no answer"));
}

TEST_F(SlicectlTest, ShowsWhoIsAlive) {
  wire::HeartbeatArgs beat;
  beat.server = config_.find("proxy1")->index;
  beat.pid = 4711;
  beat.started_ns = static_cast<std::uint64_t>(loop_.wall().ns) - 90'000'000'000;
  beat.generation = Generation{1};
  beat.total_bytes = 3ull << 30;
  beat.free_bytes = 1536ull << 20;
  beat.state = "serving";
  beat.detail = "xdp generic";
  run(service::internal_call<wire::HeartbeatResult>(network_, endpoint("manager1"), wire::kManagerProgram,
                                                    wire::ManagerProcedure::kHeartbeat, beat))
      .value();
  json said = json::parse(status(Format::kJson));
  EXPECT_EQ(said["health"], "HEALTH_ERR") << "six are silent";
  EXPECT_EQ(said["alive"], 1);
  ASSERT_EQ(said["servers"].size(), config_.servers.size());
  const json& proxy = said["servers"][beat.server];
  EXPECT_EQ(proxy["name"], "proxy1");
  EXPECT_EQ(proxy["role"], "proxy");
  EXPECT_EQ(proxy["alive"], true);
  EXPECT_EQ(proxy["state"], "serving");
  EXPECT_EQ(proxy["detail"], "xdp generic");
  EXPECT_EQ(proxy["pid"], 4711);
  EXPECT_EQ(proxy["uptime_seconds"], 90);
  EXPECT_EQ(said["servers"][0]["alive"], false);
  EXPECT_EQ(said["servers"][0]["heartbeat_age_ms"], nullptr);
  std::string text = status(Format::kText);
  EXPECT_THAT(text, HasSubstr("generation 1, settings 1, 1 of 7 processes alive"));
  EXPECT_THAT(text, HasSubstr("0, late")) << "it never heard of the settings";
  EXPECT_EQ(said["settings"], 1);
  EXPECT_EQ(proxy["settings"], 0);
  EXPECT_THAT(text, HasSubstr("1.5 GiB of 3.0 GiB"));
  EXPECT_THAT(text, HasSubstr("xdp generic"));
  EXPECT_THAT(text, HasSubstr("no, never heard"));
  EXPECT_THAT(text, Not(HasSubstr(" \n")));
  loop_.advance(7s);
  EXPECT_THAT(status(Format::kText), ::testing::ContainsRegex("no, [78][.][0-9] s"));
}

// SPREADING alone; of an older version it knows nothing of that.
class FakeCoordinator : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kCoordinatorProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (call.procedure != 11 || old) co_return rpc::Outcome::kNoProcedure;
    encode(results, state);
    co_return rpc::Outcome::kReply;
  }
  wire::SpreadingResult state;
  bool old = false;
};

class SpreadsTest : public SlicectlTest {
 protected:
  SpreadsTest() { serve("coord1", coordinator_); }
  std::vector<Spread> spreads() { return run(ask_spreads(seams_, *tables_.get())); }
  std::string shown(Format format) { return render_moves(*tables_.get(), {}, spreads(), format); }
  FakeCoordinator coordinator_;
};

TEST_F(SpreadsTest, ShowsNothingWhereNothingWasAskedFor) {
  EXPECT_EQ(shown(Format::kText), "limit: as fast as it goes\nno sites are moved\n");
  EXPECT_EQ(json::parse(shown(Format::kJson))["spreads"], json::array());
  EXPECT_FALSE(going_on(spreads().front()));
}

TEST_F(SpreadsTest, ShowsABarItsPaceAndTheTimeLeft) {
  coordinator_.state = {.phase = wire::SpreadPhase::kMoving,
                        .moved_bytes = 1ull << 30,
                        .left_bytes = 3ull << 30,
                        .failed_stripes = 2,
                        .bytes_a_second = 32 << 20,
                        .began_ns = 5};
  EXPECT_THAT(shown(Format::kText),
              HasSubstr("\nEVENING OUT\n"
                        "coord1       moving  [#####...............]  25 %, 1.0 GiB, 32.0 MiB/s, 96 s left, "
                        "2 stripes could not be\n"));
  const json said = json::parse(shown(Format::kJson))["spreads"];
  EXPECT_EQ(said, json::parse(R"([{"coordinator": "coord1", "phase": "moving", "moved_bytes": 1073741824,
    "left_bytes": 3221225472, "failed_stripes": 2, "bytes_per_second": 33554432, "trouble": "", "began_ns": 5,
    "ended_ns": null, "seconds_left": 96}])"));
  EXPECT_TRUE(going_on(spreads().front()));
}

TEST_F(SpreadsTest, ShowsWhyItWaitsAndWhatWasDone) {
  coordinator_.state = {.phase = wire::SpreadPhase::kWaiting,
                        .moved_bytes = 3 << 20,
                        .began_ns = 5,
                        .trouble = "store2 is away"};
  EXPECT_THAT(shown(Format::kText),
              HasSubstr("coord1       waiting  3.0 MiB moved so far  store2 is away\n"));
  EXPECT_TRUE(going_on(spreads().front()));
  coordinator_.state = {.phase = wire::SpreadPhase::kDone,
                        .moved_bytes = 3 << 20,
                        .began_ns = 1'000'000'000,
                        .ended_ns = 43'000'000'000};
  EXPECT_THAT(shown(Format::kText), HasSubstr("coord1       done  3.0 MiB moved in 42 s\n"));
  EXPECT_FALSE(going_on(spreads().front()));
}

TEST_F(SpreadsTest, OneThatCannotTellIsNotWaitedForButOneThatIsSilentIs) {
  coordinator_.old = true;
  EXPECT_THAT(shown(Format::kText), HasSubstr("coord1       unknown    the peer does not serve"));
  EXPECT_EQ(json::parse(shown(Format::kJson))["spreads"][0]["phase"], "unknown");
  EXPECT_FALSE(going_on(spreads().front()));
  silence("coord1");
  EXPECT_THAT(shown(Format::kText), HasSubstr("coord1       unknown"));
  EXPECT_TRUE(going_on(spreads().front()));
}

TEST_F(SlicectlTest, ShowsWhatWasSaidOfServersAndNoneThatWasRemoved) {
  auto change = [&](const wire::ChangeServerArgs& args) { return *run(ask_change(seams_, args)); };
  wire::ChangeServerArgs add{.entry = {.role = wire::Role::kStorage,
                                       .endpoint = {0x0a4d6302, 2049},
                                       .name = "store3",
                                       .weight = 5,
                                       .host = "h3",
                                       .rack = "r2"}};
  EXPECT_EQ(render_change(change(add), Format::kText),
            "store3 is storage 7, at 10.77.99.2:2049, weight 5, host h3, rack r2; generation 2\n");
  change({.change = wire::ServerChange::kDrain, .entry = {.endpoint = {}, .name = "store3"}});
  auto told = [&] { return status(Format::kText); };
  EXPECT_THAT(told(), HasSubstr("drained, weight 5, host h3, rack r2"));
  json shown = json::parse(status(Format::kJson));
  EXPECT_EQ(shown["servers"][7]["rack"], "r2");
  EXPECT_EQ(shown["servers"][7]["drained"], true);
  EXPECT_EQ(shown["servers"][2]["weight"], nullptr);
  auto tables = [&] { return json::parse(render_tables(**run(ask_tables(seams_)), false, Format::kJson)); };
  EXPECT_EQ(tables()["servers"][7]["host"], "h3");
  EXPECT_EQ(tables()["removed"], json::array());

  wire::ChangeServerArgs remove{.change = wire::ServerChange::kRemove,
                                .entry = {.endpoint = {}, .name = "store3"}};
  EXPECT_EQ(render_change(change(remove), Format::kText),
            "store3, which was server 7, is no member any more; generation 4\n");
  EXPECT_THAT(told(), Not(HasSubstr("store3")));
  EXPECT_THAT(told(), HasSubstr("0 of 7 processes"));
  EXPECT_EQ(tables()["servers"].size(), 7u);
  EXPECT_EQ(tables()["removed"][0]["name"], "store3");
  const auto now = *run(ask_tables(seams_));
  EXPECT_THAT(render_servers(config_, *now, Format::kText), Not(HasSubstr("store3")));
  for (const ComparedProcess& each : compare(now->wire(), *run(ask_members(seams_))))
    EXPECT_NE(each.name, "store3");
}

TEST_F(SlicectlTest, SaysWhatAReloadChangedOrWhyItDidNot) {
  wire::ReloadResult result{.refused = "ensemble.toml:6: no", .generation = SettingsGeneration{4}};
  service::AdminProgram admin("manager1", metrics_,
                              {.refresh = {},
                               .misdirected = {},
                               .new_tables = {},
                               .settings = [] { return Settings{.copies = 3}; },
                               .new_settings = {},
                               .reload = [&]() -> Task<wire::ReloadResult> { co_return result; }});
  EXPECT_THAT(run(ask_reload(seams_)).error().message, HasSubstr("the manager does not answer"));
  serve("manager1", admin);
  EXPECT_THAT(run(ask_reload(seams_)).error().message, HasSubstr("ensemble.toml:6: no"));
  EXPECT_EQ(run(ask_settings(seams_))->copies, 3u);
  result.refused.clear();
  result.changed = {"[[export]]", "log_level"};
  result.warnings = {"server 'x' is no member"};
  result.late = {"store2"};
  auto reloaded = run(ask_reload(seams_));
  ASSERT_TRUE(reloaded);
  EXPECT_EQ(render_reload(*reloaded, Format::kText),
            "warning: server 'x' is no member\nwarning: store2 does not have them yet (slicectl status)\n"
            "settings 4 are in force; changed: [[export]], log_level\n");
  const json said = json::parse(render_reload(*reloaded, Format::kJson));
  EXPECT_EQ(said["settings"], 4);
  EXPECT_EQ(said["late"][0], "store2");
  EXPECT_THAT(render_reload({.generation = SettingsGeneration{4}}, Format::kText),
              HasSubstr("nothing was changed: settings 4"));
}

TEST_F(SlicectlTest, SaysThatTheManagerIsAway) {
  silence("manager1");
  EXPECT_THAT(run(ask_members(seams_)).error().message, HasSubstr("the manager does not answer"));
  EXPECT_THAT(run(ask_tables(seams_)).error().message, HasSubstr("the manager does not answer"));
}

TEST_F(SlicectlTest, AsksServersThemselvesWhereTheManagerIsSilent) {
  wire::AboutResult about{.name = "store1", .version = "0.1.0", .manager_silent_ms = 12'000};
  about.told.state = "serving";
  about.told.generation = Generation{4};
  about.told.started_ns = 1;
  about.told.free_bytes = about.told.total_bytes = 1 << 30;
  service::AdminProgram admin("store1", metrics_, {.about = [&] {
                                about.wall_ns = static_cast<std::uint64_t>(loop_.wall().ns);
                                return about;
                              }});
  serve("store1", admin);
  silence("manager1");
  const json said = json::parse(status(Format::kJson));
  EXPECT_EQ(said["manager_answers"], false);
  EXPECT_EQ(said["alive"], 1);
  EXPECT_EQ(said["generation"], 4);
  EXPECT_EQ(said["servers"][config_.find("store1")->index]["state"], "serving");
  const std::string text = status(Format::kText);
  EXPECT_THAT(text, HasSubstr("HEALTH_ERR\n  error    MANAGER_SILENT manager1: the manager does not answer"));
  EXPECT_THAT(text, HasSubstr("(12 s)"));
  EXPECT_THAT(text, HasSubstr("SERVER_DOWN store2: storage is silent: its storage sites"));
  EXPECT_THAT(text, HasSubstr("1 of 7 processes alive, as servers say themselves"));
}

TEST_F(SlicectlTest, ShowsTablesAndServers) {
  auto tables = run(ask_tables(seams_));
  ASSERT_TRUE(tables);
  json said = json::parse(render_tables(**tables, false, Format::kJson));
  EXPECT_EQ(said["generation"], 1);
  ASSERT_EQ(said["classes"]["storage"].size(), 1024u);
  EXPECT_EQ(said["classes"]["storage"][1], "store2");
  std::string text = render_tables(**tables, false, Format::kText);
  EXPECT_THAT(text, HasSubstr("storage      512 of 1024  store2"));
  std::string every = render_tables(**tables, true, Format::kText);
  EXPECT_EQ(std::count(every.begin(), every.end(), '\n'), 64 + 64 + 1024 + 64 + 3);
  json servers = json::parse(render_servers(config_, **tables, Format::kJson));
  EXPECT_EQ(servers["servers"][2]["name"], "store1");
  EXPECT_EQ(servers["servers"][2]["sites"], 512);
  EXPECT_EQ(servers["servers"][2]["endpoint"], "10.77.4.2:2049");
  EXPECT_THAT(render_servers(config_, **tables, Format::kText), HasSubstr("/data/store1"));
}

TEST_F(SlicectlTest, ShowsBackingSets) {
  auto shown = [this](Format format) {
    auto sets = run(ask_backing_sets(seams_));
    EXPECT_TRUE(sets);
    auto standbys = run(ask_standbys(seams_));
    EXPECT_TRUE(standbys);
    return render_backing(*tables_.get(), *sets, *standbys, format);
  };
  EXPECT_THAT(shown(Format::kText), HasSubstr("no server has a backing set"));
  EXPECT_EQ(json::parse(shown(Format::kJson))["sets"], json::array());
  const wire::BackingSetsResult sets{
      {{.server = config_.find("dir1")->index,
        .epoch = BackingEpoch{3},
        .instance = 9,
        .copies = 3,
        .members = {config_.find("store1")->index, config_.find("store2")->index}}}};
  EXPECT_EQ(render_backing(*tables_.get(), sets, {}, Format::kText),
            "SERVER  EPOCH  COPIES  WANTED  ON              STANDS BY\n"
            "dir1    3      2       3       store1, store2  -\n");
  const wire::StandbysResult standbys{
      {{.server = config_.find("dir1")->index, .endpoint = {0x0a4d2102, 2049}, .age_ms = 40},
       {.server = config_.find("dir1")->index, .endpoint = {0x0a4d2202, 2049}, .age_ms = 50},
       {.server = config_.find("small1")->index, .endpoint = {0x0a4d2302, 2049}, .age_ms = 60}}};
  EXPECT_THAT(render_backing(*tables_.get(), sets, standbys, Format::kText),
              HasSubstr("store1, store2  10.77.33.2, 10.77.34.2\n"));
  json said = json::parse(render_backing(*tables_.get(), sets, standbys, Format::kJson))["sets"][0];
  EXPECT_EQ(said["standbys"].size(), 2u);
  EXPECT_EQ(said["standbys"][1], (json{{"endpoint", "10.77.34.2:2049"}, {"age_ms", 50}}));
  EXPECT_EQ(said["server"], "dir1");
  EXPECT_EQ(said["epoch"], 3);
  EXPECT_EQ(said["copies"], 3);
  EXPECT_EQ(said["members"], (json{"store1", "store2"}));
}

class FailoverCommandTest : public SlicectlTest {
 protected:
  struct Ended {
    int code = -1;
    std::string printed, error;
  };
  static constexpr rpc::Endpoint kThere{0x0a4d2102, 2049};
  template <class R, class Args>
  R tell(wire::ManagerProcedure procedure, const Args& args) {
    return run(service::internal_call<R>(ctl_, endpoint("manager1"), wire::kManagerProgram, procedure, args))
        .value();
  }
  void beat(const std::string& name, std::uint64_t pid) {
    tell<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, serving(name, pid));
  }
  wire::HeartbeatArgs serving(const std::string& name, std::uint64_t pid) const {
    return {.server = config_.find(name)->index, .pid = pid, .state = "serving"};
  }
  Task<void> late_beat(std::uint64_t pid) {
    const wire::HeartbeatArgs args = serving("dir1", pid);
    EXPECT_TRUE(co_await service::internal_call<wire::HeartbeatResult>(
        ctl_, endpoint("manager1"), wire::kManagerProgram, wire::ManagerProcedure::kHeartbeat, args));
  }
  bool stand_by() {
    const wire::StandbyArgs args{config_.find("dir1")->index, kThere, 7};
    return tell<wire::StandbyResult>(wire::ManagerProcedure::kStandby, args).take;
  }
  void have_set() {
    beat("store1", 1);
    beat("dir1", 100);
    const wire::BackingClaimArgs claim{config_.find("dir1")->index, 1, 0, 1};
    ASSERT_EQ(tell<wire::BackingClaimResult>(wire::ManagerProcedure::kBackingClaim, claim).refused, "");
  }
  Ended failover(std::vector<std::string> words, Format format = Format::kText) {
    cli::Program app("");
    FailoverCommand command(app);
    words.insert(words.begin(), "failover");
    if (const auto code = app.parse(std::move(words))) return {.code = *code};
    Ended ended;
    auto say = [&ended](const Error& error) { return ended.error = error.message, 1; };
    auto print = [&ended](const std::string& text) {
      ended.printed += text;
      return 0;
    };
    ended.code = run(command.run(seams_, {.say = say, .print = print, .report = {}, .format = format}));
    return ended;
  }
};

TEST_F(FailoverCommandTest, WaitsForTheOtherProcessToServe) {
  have_set();
  EXPECT_FALSE(stand_by());
  loop_.after(1s, [&] { spawn(late_beat(100)); });  // the one before, which says that it serves
  loop_.after(3s, [&] { spawn(late_beat(200)); });
  const MonoTime began = loop_.now();
  const Ended ended = failover({"dir1", "--to", "10.77.33.2"});
  EXPECT_EQ(ended.error, "");
  EXPECT_EQ(ended.printed, "dir1 serves at 10.77.33.2:2049; generation 2\n");
  EXPECT_EQ(ended.code, 0);
  EXPECT_GE(loop_.now() - began, 3s);
  EXPECT_LT(loop_.now() - began, 4s);
  EXPECT_TRUE(stand_by());
}

TEST_F(FailoverCommandTest, SaysWhatIsNotSo) {
  EXPECT_THAT(failover({"dir1"}).error, HasSubstr("dir1 has no backing set"));
  have_set();
  Ended ended = failover({"dir1"});
  EXPECT_THAT(ended.error, HasSubstr("no run of dir1 stands by"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.printed, "");
  EXPECT_FALSE(stand_by());
  ended = failover({"dir1", "--wait", "0.5"}, Format::kJson);
  EXPECT_EQ(ended.code, 3);
  const json said{{"server", "dir1"}, {"endpoint", "10.77.33.2:2049"}, {"generation", 2}, {"serves", false}};
  EXPECT_EQ(json::parse(ended.printed), said);
  EXPECT_THAT(failover({"dir1", "--to", "10.77.33.2", "--wait", "0"}).error,
              HasSubstr("is served at 10.77.33.2:2049"));
  EXPECT_EQ(failover({"dir1", "--to", "dir2"}).code, cli::kBadUsage);
}

TEST_F(SlicectlTest, ComparesTablesAndRecordsOfAll) {
  const wire::Tables tables = (*run(ask_tables(seams_)))->wire();
  wire::MembersResult members = *run(ask_members(seams_));
  for (wire::Member& member : members.members) {
    member.alive = true;
    member.last.generation = tables.generation;
    member.last.tables_digest = wire::digest(tables);
    if (static_cast<std::size_t>(member.entry.role) < wire::kSiteClasses) {
      member.last.record_digest = wire::digest(wire::sites_of(tables, member.entry.name));
    }
  }
  auto of = [&](const std::string& name) -> wire::Member& {
    return members.members.at(config_.find(name)->index);
  };
  EXPECT_EQ(overall(compare(tables, members)), Agreement::kSame);
  of("proxy1").alive = false;
  of("store2").alive = false;
  auto compared = compare(tables, members);
  EXPECT_EQ(overall(compared), Agreement::kUnknown);
  std::string text = render_comparison(tables.generation, compared, Format::kText);
  EXPECT_THAT(text, HasSubstr("store2    storage      512    silent  1           silent"));
  of("store1").last.record_digest ^= 1;
  of("dir1").last.record_digest = 0;
  of("small1").last.tables_digest ^= 1;
  compared = compare(tables, members);
  EXPECT_EQ(overall(compared), Agreement::kDiffers);
  json said = json::parse(render_comparison(tables.generation, compared, Format::kJson));
  EXPECT_EQ(said["same"], false);
  std::map<std::string, std::pair<std::string, std::string>> by_name;
  for (const auto& each : said["processes"]) by_name[each["name"]] = {each["tables"], each["record"]};
  EXPECT_EQ(by_name["store1"], std::make_pair(std::string("same"), std::string("DIFFERS")));
  EXPECT_EQ(by_name["dir1"], std::make_pair(std::string("same"), std::string("NONE")));
  EXPECT_EQ(by_name["small1"], std::make_pair(std::string("DIFFERS"), std::string("same")));
  EXPECT_EQ(by_name["proxy1"], std::make_pair(std::string("silent"), std::string("-")));
}

TEST_F(SlicectlTest, ReadsMetricsOfOneOrAll) {
  Metrics of_store1;
  of_store1.counter("reads_total", "reads of a test").add(7);
  of_store1.counter("busy_seconds_total", "time of a test", {}, Unit::kMicroseconds).add(1'500'000);
  Gauge& gauge = of_store1.gauge("gauge", "gauge of a test");
  service::AdminProgram admin("store1", of_store1, {.refresh = [&] { gauge.set(3); }});
  serve("store1", admin);
  auto one = run(ask_metrics(seams_, "store1"));
  ASSERT_TRUE(one);
  EXPECT_EQ(render_metrics(*one, "", Format::kText), of_store1.text());
  EXPECT_EQ(
      render_metrics(*one, "read", Format::kText),
      "# HELP slice_reads_total reads of a test\n# TYPE slice_reads_total counter\nslice_reads_total 7\n");
  auto all_of_them = run(ask_metrics(seams_, ""));
  ASSERT_EQ(all_of_them->size(), 7u);
  json said = json::parse(render_metrics(*all_of_them, "", Format::kJson));
  EXPECT_EQ(said["processes"][2]["metrics"]["slice_reads_total"], 7);
  EXPECT_EQ(said["processes"][2]["metrics"]["slice_busy_seconds_total"], 1.5);
  EXPECT_TRUE(said["processes"][6].contains("error"));
  EXPECT_EQ(run(ask_metrics(seams_, "nobody")).error().code, Errc::kNotFound);
}

TEST_F(SlicectlTest, UnsetAsksForWhatANewDirectoryThereWouldHave) {
  make_volume();
  directory_.add(FileId{20}, "below", handle(23, nfs3::FileType::kDirectory), 4096);
  wire::FilePolicy above{.stripe_shift = 20, .copies = 2};
  authority_.policies[FileId{20}] = above;
  PolicyChange change{.fields = wire::kPolicyCopies, .policy = {}, .inherit = true};
  ASSERT_TRUE(run(ask_policy(seams_, tables_.get(), "/docs/below/", change)));
  EXPECT_THAT(authority_.asked,
              ::testing::ElementsAre(FakeAuthority::Asked{FileId{20}, 0, {}},
                                     FakeAuthority::Asked{FileId{23}, wire::kPolicyCopies, above}));
  authority_.asked.clear();
  ASSERT_TRUE(run(ask_policy(seams_, tables_.get(), "/", change)));
  EXPECT_THAT(authority_.asked,
              ::testing::ElementsAre(FakeAuthority::Asked{FileId{1}, wire::kPolicyCopies, {}}))
      << "above the root is the volume";
}

TEST_F(SlicectlTest, SaysThatAPolicyWasRefused) {
  make_volume();
  authority_.answer = nfs3::Status::kPerm;
  auto answer =
      run(ask_policy(seams_, tables_.get(), "/docs", {.fields = wire::kPolicyCopies, .policy = {}}));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->refused);
}

}  // namespace
}  // namespace slice::slicectl
