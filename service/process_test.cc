// Whole processes, forked from this test, on addresses of the loopback network.
#include "service/process.h"

#include <gmock/gmock.h>

#include "service/testing/process_fixture.h"

namespace slice::service {

using testing::Child;
using testing::comes_true;
using testing::Environment;
using testing::ProcessTest;

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(ProcessTest, RefusesABadConfigurationWithFileLineAndReason) {
  write_config(config_text_ + "[[server]]\nname = \"x\"\nrole = \"juggler\"\n");
  auto child = start_storage();
  EXPECT_EQ(child->wait(), 2);
  EXPECT_THAT(child->output(), HasSubstr("ensemble.toml:"));
  EXPECT_THAT(child->output(), HasSubstr("'juggler' is none of"));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/storage")) << "nothing was touched";
}

TEST_F(ProcessTest, RefusesNamesAndRolesThatAreNotItsOwn) {
  auto manager = start_manager();
  auto unknown = start({"nobody"}, {ServerRole::kStorage});
  EXPECT_EQ(unknown->wait(), 2);
  EXPECT_THAT(unknown->output(), HasSubstr("no [[server]] has the name 'nobody'"));
  auto other = start({"directory1"}, {ServerRole::kStorage});
  EXPECT_EQ(other->wait(), 2);
  EXPECT_THAT(other->output(), HasSubstr("has the role 'directory'; this program is for 'storage'"));
  Child usage(root_ + "/usage", {"--name", "x"}, {ServerRole::kStorage});
  EXPECT_EQ(usage.wait(), 2);
  EXPECT_THAT(usage.output(), HasSubstr("--config"));
  Child version(root_ + "/version", {"--version"}, {ServerRole::kStorage});
  EXPECT_EQ(version.wait(), 0);
  EXPECT_THAT(version.output(), HasSubstr("slice "));
}

TEST_F(ProcessTest, SighupSaysWhatOfTheFileIsTheManagersAndWhatCountsAtAStart) {
  auto manager = start_manager();
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("serving as storage"));
  const std::string good = config_text_;
  std::string edited = "log_level = \"warning\"\n" + good;
  const std::string own = "name = \"storage1\"\n";
  edited.insert(edited.find(own) + own.size(), "cache = \"2MiB\"\nreserve = \"1MiB\"\n");
  write_config(edited);
  storage->signal(SIGHUP);
  EXPECT_TRUE(
      storage->says("which the manager reads (slicectl reload): log_level, reserve of server 'storage1'"));
  EXPECT_TRUE(storage->says("counts at a start only: cache of server 'storage1'"));
  write_config("nonsense");
  storage->signal(SIGHUP);
  EXPECT_TRUE(storage->says("ensemble.toml:1: "));
  EXPECT_TRUE(storage->says("nothing of it is used"));
  write_config(good);
  auto settings = ask<wire::SettingsResult>(3, wire::kAdminProgram,
                                            static_cast<std::uint32_t>(wire::AdminProcedure::kGetSettings));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->settings.generation.value, 0u) << "this manager publishes none";
  EXPECT_EQ(settings->settings.log_level, LogLevel::kInfo);
  auto refused = ask<wire::ReloadResult>(3, wire::kAdminProgram,
                                         static_cast<std::uint32_t>(wire::AdminProcedure::kReload));
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->refused, HasSubstr("not the manager"));
}

// A server that was added since: the file does not have it.
TEST_F(ProcessTest, TakesWhatTheFileDoesNotSayFromTheManager) {
  write_config("data_folder = \"" + root_ + "\"\n" + config_text_);
  const std::string name = "added1";
  Child added(root_ + "/log-added", {"--config", root_ + "/ensemble.toml", "--name", name},
              {ServerRole::kStorage});
  ASSERT_TRUE(added.says("which knows whether these servers are members")) << added.output();
  auto manager = start_manager();
  ASSERT_TRUE(added.says("serving as storage at 127.77.103.2")) << added.output();
  EXPECT_TRUE(std::filesystem::exists(root_ + "/added1/FORMAT"));
}

// The order of servers in one host's file means nothing, once there are members.
TEST_F(ProcessTest, HasItsNumberAmongTheMembersFromTheManager) {
  auto manager = start_manager();
  ASSERT_TRUE(manager->says("serving as manager"));
  std::string text = config_text_;
  const std::size_t second = text.find("[[server]]\nname = \"storage1\""),
                    third = text.find("[[server]]", second + 1);
  const std::string storage = text.substr(second, third - second);
  text.erase(second, third - second);
  write_config(text + storage);
  auto moved = start_storage();
  ASSERT_TRUE(moved->says("serving as storage")) << moved->output();
  // And from the tables that it has kept.
  moved->signal(SIGKILL);
  moved->wait();
  manager->signal(SIGKILL);
  manager->wait();
  auto again = start_storage();
  ASSERT_TRUE(again->says("waiting for the manager")) << again->output();
  EXPECT_EQ(again->output().find("unusable"), std::string::npos) << again->output();
}

TEST_F(ProcessTest, AServerThatIsRemovedStopsForGood) {
  auto manager = start_manager();
  auto running = start_storage();
  ASSERT_TRUE(running->says("serving as storage")) << running->output();
  tell("removed");
  EXPECT_EQ(running->wait(), 2);
  EXPECT_THAT(running->output(), HasSubstr("server 'storage1' was removed from the ensemble"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/storage/stopped")) << "as at a clean stop";
  auto again = start_storage();
  EXPECT_EQ(again->wait(), 2);
  EXPECT_THAT(again->output(), HasSubstr("server 'storage1' was removed from the ensemble"));
  EXPECT_EQ(again->output().find("serving as"), std::string::npos);
  // Without the manager nobody knows whether it was added again.
  manager->signal(SIGKILL);
  manager->wait();
  again = start_storage();
  EXPECT_TRUE(again->says("waiting for the manager")) << again->output();
  manager = start_manager();
  EXPECT_EQ(again->wait(), 2);
}

TEST_F(ProcessTest, AServerThatWasRemovedWhileItWasDownDoesNotServe) {
  auto manager = start_manager();
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("serving as storage"));
  storage->signal(SIGKILL);
  storage->wait();
  tell("removed");
  storage = start_storage();
  EXPECT_EQ(storage->wait(), 2);
  EXPECT_THAT(storage->output(), HasSubstr("was removed from the ensemble"));
  EXPECT_EQ(storage->output().find("serving as"), std::string::npos) << storage->output();
  // Nor where its data directory is empty.
  std::filesystem::remove_all(root_ + "/storage");
  storage = start_storage();
  EXPECT_EQ(storage->wait(), 2);
  EXPECT_THAT(storage->output(), HasSubstr("was removed from the ensemble"));
}

TEST_F(ProcessTest, AServerThatIsAddedAgainBeginsWithAnEmptyDirectory) {
  auto manager = start_manager();
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("serving as storage"));
  tell("removed");
  EXPECT_EQ(storage->wait(), 2);
  tell("again");
  storage = start_storage();
  EXPECT_EQ(storage->wait(), 2);
  EXPECT_THAT(storage->output(), HasSubstr("begins with an empty one"));
  EXPECT_EQ(storage->output().find("serving as"), std::string::npos) << storage->output();
  std::filesystem::rename(root_ + "/storage", root_ + "/of-before");
  storage = start_storage();
  EXPECT_TRUE(storage->says("serving as storage")) << storage->output();
  EXPECT_TRUE(storage->says("this server has 0 sites")) << storage->output();
}

TEST_F(ProcessTest, TheOthersOfItsProcessGoOn) {
  auto both = start({"manager1", "storage1"}, {ServerRole::kManager, ServerRole::kStorage});
  ASSERT_TRUE(both->says("serving as storage")) << both->output();
  ASSERT_GT(metric(3, "data_total_bytes"), 0u);
  tell("removed");
  ASSERT_TRUE(both->says("server 'storage1' was removed from the ensemble")) << both->output();
  EXPECT_TRUE(ask<wire::MembersResult>(2, wire::kManagerProgram, 4));
  EXPECT_FALSE(ask<wire::MetricsResult>(3, wire::kAdminProgram, 1)) << "nobody listens there";
  both->signal(SIGTERM);
  EXPECT_EQ(both->wait(), 0);
}

TEST_F(ProcessTest, WaitsForTheManagerServesAndStopsCleanly) {
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("waiting for the manager")) << storage->output();
  EXPECT_EQ(storage->output().find("serving"), std::string::npos);
  auto manager = start_manager();
  ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
  auto metrics = ask<wire::MetricsResult>(3, wire::kAdminProgram, 1);
  ASSERT_TRUE(metrics) << metrics.error().message;
  EXPECT_EQ(metrics->process, "storage1");
  EXPECT_THAT(metrics->text, HasSubstr("slice_server_info{name=\"storage1\"} 1\n"));
  EXPECT_GE(metric(3, "fake_readings"), 2u) << "the role is asked at each reading";
  auto told = [](const wire::Member& member) {
    return member.entry.server == 1 && member.last.state == "serving" && member.last.detail == "a fake" &&
           member.last.generation == Generation{3} && member.last.total_bytes > 0;
  };
  EXPECT_TRUE(comes_true(
      [&] {
        auto members = ask<wire::MembersResult>(2, wire::kManagerProgram, 4);
        return members && std::any_of(members->members.begin(), members->members.end(), told);
      },
      100ms));
  storage->signal(SIGTERM);
  EXPECT_EQ(storage->wait(), 0) << storage->output();
  EXPECT_TRUE(std::filesystem::exists(root_ + "/storage/stopped")) << "Role::stop ran";
  manager->signal(SIGINT);
  EXPECT_EQ(manager->wait(), 0);
}

TEST_F(ProcessTest, ServesSeveralServersThatCallEachOtherWithoutSockets) {
  auto both = start({"storage1", "manager1"}, {ServerRole::kManager, ServerRole::kStorage});
  ASSERT_TRUE(both->says("serving as manager")) << both->output();
  ASSERT_TRUE(both->says("serving as storage")) << both->output();
  EXPECT_EQ(ask<wire::MetricsResult>(3, wire::kAdminProgram, 1)->process, "storage1");
  // A call that was under way before the manager served waits for it on a socket, and may come behind the
  // first heartbeat of the other server. Those since then need none, and no connection.
  auto come_within = [this](std::uint64_t wanted) {
    return comes_true([&] { return metric(2, "fake_heartbeats_within_process") >= wanted; }, 100ms);
  };
  auto connections_beside_this_tests_own = [this] {
    std::uint64_t all = metric(2, "rpc_connections_total");
    return all - asked_;
  };
  ASSERT_TRUE(come_within(1));
  std::uint64_t by_socket = metric(2, "fake_heartbeats_by_socket");
  std::uint64_t connections = connections_beside_this_tests_own();
  EXPECT_TRUE(come_within(3));
  EXPECT_THAT(metric(2, "fake_heartbeats_by_socket"), ::testing::AnyOf(by_socket, by_socket + 1));
  EXPECT_THAT(connections_beside_this_tests_own(), ::testing::AnyOf(connections, connections + 1));
  both->signal(SIGTERM);
  EXPECT_EQ(both->wait(), 0) << both->output();
  EXPECT_TRUE(std::filesystem::exists(root_ + "/storage/stopped")) << "Role::stop ran";
}

TEST_F(ProcessTest, EndsAsAWholeWhereOneOfItsServersFails) {
  std::filesystem::create_directories(root_ + "/storage");
  auto first = start_manager();
  ASSERT_TRUE(first->says("serving as manager"));
  auto both = start({"storage1", "manager1"}, {ServerRole::kManager, ServerRole::kStorage});
  EXPECT_EQ(both->wait(), 1);
  EXPECT_THAT(both->output(), HasSubstr("in use by another process"));
}

TEST_F(ProcessTest, StopsEvenWhereTheManagerNeverComes) {
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("waiting for the manager"));
  storage->signal(SIGTERM);
  EXPECT_EQ(storage->wait(), 0);
}

TEST_F(ProcessTest, StopsAfterFiveSecondsAtTheLatest) {
  auto manager = start_manager();
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
  std::ofstream(root_ + "/storage/hang") << "x";
  storage->signal(SIGTERM);
  EXPECT_EQ(storage->wait(), 0);
  EXPECT_THAT(storage->output(), HasSubstr("before everything was written back"));
}

TEST_F(ProcessTest, LetsNoSecondProcessAtItsData) {
  auto manager = start_manager();
  ASSERT_TRUE(manager->says("serving as manager")) << manager->output();
  auto second = start_manager();
  EXPECT_EQ(second->wait(), 1);
  EXPECT_THAT(second->output(), HasSubstr("in use by another process"));
  // After kill -9 the lock is free at once.
  manager->signal(SIGKILL);
  EXPECT_EQ(manager->wait(), -SIGKILL);
  auto third = start_manager();
  EXPECT_TRUE(third->says("serving as manager")) << third->output();
}

TEST_F(ProcessTest, DrawsALargerVerifierAtEveryStart) {
  auto manager = start_manager();
  std::uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    auto storage = start_storage();
    ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
    std::string output = storage->output();
    std::uint64_t drawn = std::stoull(output.substr(output.find("made with verifier ") + 19));
    EXPECT_GT(drawn, last);
    last = drawn;
    storage->signal(SIGKILL);
    storage->wait();
  }
}

TEST_F(ProcessTest, EndsWithTheReasonWhereItsDataOrPortAreNotUsable) {
  auto manager = start_manager();
  ASSERT_TRUE(manager->says("serving as manager"));
  std::filesystem::create_directories(root_ + "/storage");
  std::ofstream(root_ + "/storage/precious") << "x";
  auto strange = start_storage();
  EXPECT_EQ(strange->wait(), 2);
  EXPECT_THAT(strange->output(), HasSubstr("has files but no FORMAT"));
  std::filesystem::remove_all(root_ + "/storage");

  auto storage = start_storage();
  ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
  storage->signal(SIGKILL);
  storage->wait();
  std::ofstream(root_ + "/storage/refuse") << "x";
  auto corrupt = start_storage();
  EXPECT_EQ(corrupt->wait(), 1);
  EXPECT_THAT(corrupt->output(), HasSubstr("the log is corrupt in segment 3 at 4096"));
  std::filesystem::remove(root_ + "/storage/refuse");

  // Somebody else has the port.
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(0x7f4d0302);
  int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  auto blocked = start_storage();
  EXPECT_EQ(blocked->wait(), 1);
  EXPECT_THAT(blocked->output(), HasSubstr(fmt::format("127.77.3.2:{}", port_)));
  ::close(fd);
}

TEST_F(ProcessTest, KillsItselfAtTheCrashPointThatItIsToldTo) {
  auto manager = start_manager();
  std::unique_ptr<Child> storage;
  {
    Environment armed("SLICE_CRASH_AT", "fake.stopping");
    storage = start_storage();
  }
  ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
  EXPECT_THAT(storage->output(),
              HasSubstr("warning storage1 fault injection: SLICE_CRASH_AT=fake.stopping:1"));
  storage->signal(SIGTERM);
  EXPECT_EQ(storage->wait(), -SIGKILL) << storage->output();
  EXPECT_THAT(storage->output(), HasSubstr("crash point fake.stopping is reached for time 1: SIGKILL"));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/storage/stopped")) << "it went on";
}

TEST_F(ProcessTest, RefusesACrashPointThatIsNone) {
  Environment armed("SLICE_CRASH_AT", "truncate.durable:soon");
  auto storage = start_storage();
  EXPECT_EQ(storage->wait(), 2);
  EXPECT_THAT(storage->output(), HasSubstr("SLICE_CRASH_AT='truncate.durable:soon'"));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/storage")) << "nothing was touched";
}

}  // namespace
}  // namespace slice::service
