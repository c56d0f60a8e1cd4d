#include "control/manager/settings_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "control/manager/file_store.h"
#include "service/admin_program.h"
#include "service/settings_keeper.h"
#include "service/testing/service_fixture.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kFile = R"(name = "test"
key_file = "key"
[proxy]
virtual_address = "10.77.0.1"
[[export]]
clients = "10.77.0.0/16"
[[server]]
name = "manager1"
role = "manager"
address = "10.77.2.2"
data = "/data/manager1"
[[server]]
name = "dir1"
role = "directory"
address = "10.77.3.2"
data = "/data/dir1"
[[server]]
name = "small1"
role = "small-file"
address = "10.77.4.2"
data = "/data/small1"
[[server]]
name = "store1"
role = "storage"
address = "10.77.5.2"
data = "/data/store1"
[[server]]
name = "coord1"
role = "coordinator"
address = "10.77.6.2"
data = "/data/coord1"
[[server]]
name = "proxy1"
role = "proxy"
address = "10.77.7.2"
)";

// A folder with the file and its key, gone at the end.
class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "slice_settings_book_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ + "/key") << std::string(32, 'k');
    ::chmod((path_ + "/key").c_str(), 0600);
    write(kFile);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file() const { return path_ + "/ensemble.toml"; }
  void write(std::string_view text) const { std::ofstream(file(), std::ios::trunc) << text; }
  // The file with its first `from` replaced by `to`.
  void write_with(std::string_view from, std::string_view to) const {
    std::string text(kFile);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write(text.replace(at, from.size(), to));
  }

 private:
  const std::string path_;
};

// A member besides the manager.
class FakeProcess {
 public:
  FakeProcess(service::testing::ServiceFixture&, const std::string& name, Metrics& metrics, bool follows)
      : admin_(name, metrics,
               {.refresh = {},
                .misdirected = {},
                .new_tables = {},
                .settings = [this] { return now; },
                .new_settings = [this, follows](SettingsGeneration generation) -> Task<void> {
                  ++told;
                  if (follows) now.generation = generation;
                  co_return;
                },
                .reload = {}}) {}
  rpc::Program& program() { return admin_; }
  Settings now;
  unsigned told = 0;

 private:
  service::AdminProgram admin_;
};

class SettingsBookTest : public service::testing::ServiceFixture {
 protected:
  SettingsBookTest() : ServiceFixture("manager1", load_ensemble(Folder().file()).value()) {
    config_.path = folder_.file();
    members_ = tables_.get()->wire().servers;
    restart();
  }
  // A new run of the manager with the file as it is, over what the disk holds.
  void restart() {
    settings_.set(Settings{});
    config_.exports = load_ensemble(folder_.file())->exports;
    books_.push_back(std::make_unique<SettingsBook>(
        context_, store_, SettingsBook::Hooks{.members = members_, .alive = [this](std::uint32_t server) {
                                                return alive_.contains(server);
                                              }}));
    ASSERT_TRUE(run(book().start()));
  }
  SettingsBook& book() { return *books_.back(); }
  wire::ReloadResult reload() { return run(book().reload()); }
  FakeProcess& process(const std::string& name, bool follows = true) {
    processes_.push_back(std::make_unique<FakeProcess>(*this, name, process_metrics_, follows));
    serve(name, processes_.back()->program());
    alive_.insert(config_.find(name)->index);
    return *processes_.back();
  }
  void hear(const std::string& name, const Settings& settings) {
    book().heard({.server = config_.find(name)->index,
                  .settings = settings.generation,
                  .settings_digest = wire::digest(settings)});
    loop_.advance(100ms);
  }
  std::uint64_t generation() const { return settings_.get()->generation.value; }
  Settings kept() { return run(service::read_kept_settings(disk_)).value(); }

  Folder folder_;
  std::vector<wire::ServerEntry> members_;
  std::set<std::uint32_t> alive_;
  Metrics process_metrics_;
  std::vector<std::unique_ptr<FakeProcess>> processes_;
  FileStore store_{disk_};
  std::vector<std::unique_ptr<SettingsBook>> books_;
};

TEST_F(SettingsBookTest, TheFirstStartPublishesTheFiles) {
  EXPECT_EQ(generation(), 1u);
  EXPECT_EQ(settings_.get()->exports.size(), 1u);
  EXPECT_EQ(kept(), *settings_.get());
}

TEST_F(SettingsBookTest, AReloadIsDurableAndTold) {
  FakeProcess& store = process("store1");
  FakeProcess& proxy = process("proxy1", false);
  folder_.write_with("[[server]]", "access = \"ro\"\n[[export]]\nclients = \"10.9.0.0/16\"\n[[server]]");
  const wire::ReloadResult result = reload();
  EXPECT_EQ(result.refused, "");
  EXPECT_EQ(result.generation, SettingsGeneration{2});
  EXPECT_THAT(result.changed, ElementsAre("[[export]]"));
  EXPECT_THAT(result.late, ElementsAre("proxy1"));
  EXPECT_EQ(store.told, 1u);
  EXPECT_EQ(proxy.told, 1u);
  EXPECT_TRUE(settings_.get()->any_export_for(0x0a4d0101)->read_only);
  EXPECT_NE(settings_.get()->any_export_for(0x0a090101), nullptr);
  EXPECT_EQ(kept(), *settings_.get());
}

TEST_F(SettingsBookTest, QuotasAreDurableAndToldAndAReloadLeavesThem) {
  FakeProcess& store = process("store1");
  process("proxy1", false);
  const QuotaId ann{QuotaKind::kUser, 1001};
  const auto set = [ann](std::uint64_t most) {
    return [ann, most](Settings& settings) {
      settings.quotas[ann].files.hard = most;
      return Status{};
    };
  };
  auto late = run(book().change(set(5)));
  ASSERT_TRUE(late);
  EXPECT_THAT(*late, ElementsAre("proxy1"));
  EXPECT_EQ(store.told, 1u);
  EXPECT_EQ(kept().quotas.at(ann).files.hard, 5u);
  EXPECT_EQ(generation(), 2u);
  EXPECT_TRUE(run(book().change(set(5))));
  EXPECT_EQ(generation(), 2u) << "nothing new";
  EXPECT_FALSE(run(book().change([](Settings& settings) -> Status {
    settings.quotas.clear();
    return fail(Errc::kInvalid, "no");
  })));
  EXPECT_EQ(generation(), 2u);
  folder_.write_with("[[server]]", "access = \"ro\"\n[[server]]");
  EXPECT_THAT(reload().changed, ElementsAre("[[export]]"));
  EXPECT_EQ(settings_.get()->quotas.at(ann).files.hard, 5u);
  restart();
  EXPECT_EQ(settings_.get()->quotas.at(ann).files.hard, 5u);
}

TEST_F(SettingsBookTest, ExportsOfWhatIsNoTreeAreRefusedAndAReloadLeavesTrees) {
  const Counter& none = metrics_.counter("manager_exports_of_no_tree");
  folder_.write_with("[[server]]", "[[export]]\npath = \"/home\"\nclients = \"*\"\n[[server]]");
  EXPECT_THAT(reload().refused, HasSubstr("[[export]] path: /home: no tree"));
  EXPECT_EQ(settings_.get()->exports.size(), 1u);
  ASSERT_TRUE(run(book().change([](Settings& settings) {
    settings.trees[TreeId{7}] = {.path = "/home", .above = {}};
    return Status{};
  })));
  EXPECT_EQ(reload().refused, "");
  EXPECT_EQ(settings_.get()->exports.at(1).path, "/home");
  EXPECT_EQ(settings_.get()->trees.at(TreeId{7}).path, "/home");
  EXPECT_EQ(none.value(), 0u);
  ASSERT_TRUE(run(book().change([](Settings& settings) {
    settings.trees.clear();
    return Status{};
  })));
  EXPECT_EQ(none.value(), 1u);
  restart();
  EXPECT_EQ(none.value(), 1u) << "it starts all the same";
  folder_.write_with("[[server]]", "[[export]]\npath = \"/home/\"\nclients = \"*\"\n[[server]]");
  EXPECT_THAT(reload().refused, HasSubstr("'/home/' is no path"));
}

TEST_F(SettingsBookTest, WhatIsTheSameIsNoNews) {
  FakeProcess& store = process("store1");
  store.now.generation = SettingsGeneration{1};
  const wire::ReloadResult result = reload();
  EXPECT_EQ(result.refused, "");
  EXPECT_EQ(result.generation, SettingsGeneration{1});
  EXPECT_THAT(result.changed, IsEmpty());
  EXPECT_THAT(result.late, IsEmpty());
}

TEST_F(SettingsBookTest, AWrongFileChangesNothing) {
  folder_.write_with("clients = \"10.77.0.0/16\"", "clients = \"10.77.0.0/33\"");
  EXPECT_THAT(reload().refused, HasSubstr("ensemble.toml:6: clients of [[export]]"));
  std::filesystem::remove(folder_.file());
  EXPECT_THAT(reload().refused, HasSubstr("cannot be read"));
  EXPECT_EQ(generation(), 1u);
  EXPECT_EQ(metrics_.counter("manager_reloads_refused_total").value(), 2u);
}

TEST_F(SettingsBookTest, WhatCannotChangeIsNamedAndNothingChanges) {
  folder_.write_with("[[export]]\nclients = \"10.77.0.0/16\"",
                     "[volume]\nthreshold = \"128KiB\"\n[sites]\nstorage = 512\n[[export]]\nclients = "
                     "\"10.9.0.0/16\"");
  const wire::ReloadResult result = reload();
  EXPECT_THAT(result.refused, HasSubstr("[volume] threshold, [sites] storage"));
  EXPECT_THAT(result.changed, IsEmpty());
  EXPECT_NE(settings_.get()->any_export_for(0x0a4d0101), nullptr);
  folder_.write_with("role = \"storage\"", "role = \"coordinator\"");
  EXPECT_THAT(reload().refused, HasSubstr("no server has the role 'storage'"));
  members_[config_.find("store1")->index].role = wire::Role::kProxy;
  folder_.write(kFile);
  EXPECT_THAT(reload().refused, HasSubstr("role of server 'store1'"));
}

TEST_F(SettingsBookTest, ServersThatAreElsewhereOrNoMembersAreWarnedOf) {
  folder_.write_with("address = \"10.77.5.2\"", "address = \"10.77.5.3\"");
  EXPECT_THAT(reload().warnings, ElementsAre(HasSubstr("'store1' is at 10.77.5.2:2049")));
  folder_.write(
      std::string(kFile) +
      "[[server]]\nname = \"store9\"\nrole = \"storage\"\naddress = \"10.77.9.2\"\ndata = \"/d\"\n");
  EXPECT_THAT(reload().warnings, ElementsAre(HasSubstr("'store9' is no member")));
}

TEST_F(SettingsBookTest, WhatCannotBeKeptIsNotInForce) {
  disk_.set_fault([](const auto& access) -> std::optional<Error> {
    if (access.operation == storage::MemoryDisk::Operation::kSync) return Error{Errc::kIo, "bad disk"};
    return std::nullopt;
  });
  folder_.write_with("[[server]]", "access = \"ro\"\n[[server]]");
  EXPECT_THAT(reload().refused, HasSubstr("cannot be made durable"));
  EXPECT_EQ(generation(), 1u);
  disk_.set_fault(nullptr);
  EXPECT_EQ(reload().generation, SettingsGeneration{2});
}

TEST_F(SettingsBookTest, AFileThatWasEditedCountsWhenItIsReadAgainNotAtARestart) {
  folder_.write_with("[[server]]", "access = \"ro\"\n[[server]]");
  restart();
  EXPECT_EQ(generation(), 1u);
  EXPECT_FALSE(settings_.get()->exports[0].read_only);
  EXPECT_EQ(reload().generation, SettingsGeneration{2});
  restart();
  EXPECT_EQ(generation(), 2u);
  EXPECT_TRUE(settings_.get()->exports[0].read_only);
}

TEST_F(SettingsBookTest, DiesAtEachPointAndTheNextRunHasOldOrNewOnes) {
  folder_.write_with("[[server]]", "access = \"ro\"\n[[server]]");
  for (const auto& [point, expected] : {std::pair{"settings.keeping", 1u}, std::pair{"settings.kept", 2u}}) {
    crash_points_.set([where = std::string(point)](std::string_view reached) { return reached == where; });
    start(book().reload(), [](const wire::ReloadResult&) { ADD_FAILURE() << "it is dead"; });
    loop_.advance(10s);
    crash_points_.set(nullptr);
    restart();
    EXPECT_EQ(generation(), expected) << point;
  }
}

TEST_F(SettingsBookTest, NewerOnesOfAProcessAreTakenOver) {
  FakeProcess& store = process("store1");
  store.now = *settings_.get();
  store.now.generation = SettingsGeneration{6};
  store.now.exports[0].read_only = true;
  hear("store1", store.now);
  EXPECT_EQ(*settings_.get(), store.now);
  EXPECT_EQ(kept(), store.now);
}

TEST_F(SettingsBookTest, AReloadCountsForMoreThanNewerOnesOfAProcess) {
  FakeProcess& store = process("store1");
  folder_.write_with("[[server]]", "access = \"ro\"\n[[server]]");
  ASSERT_EQ(reload().generation, SettingsGeneration{2});
  store.now.generation = SettingsGeneration{6};
  hear("store1", store.now);
  EXPECT_EQ(generation(), 7u);
  EXPECT_TRUE(settings_.get()->exports[0].read_only);
  EXPECT_EQ(store.now.generation, SettingsGeneration{7}) << "it is told";
}

TEST_F(SettingsBookTest, OtherOnesOfTheSameGenerationAreReplaced) {
  FakeProcess& store = process("store1");
  store.now = *settings_.get();
  store.now.exports.clear();
  hear("store1", store.now);
  EXPECT_EQ(generation(), 2u);
  EXPECT_EQ(settings_.get()->exports.size(), 1u);
  hear("store1", Settings{});
  EXPECT_EQ(generation(), 2u) << "older ones are brought up to date by the heartbeat's answer";
}

}  // namespace
}  // namespace slice::manager
