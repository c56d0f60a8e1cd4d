// Whole processes, forked from this test, on addresses of the loopback network.
#include "service/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/log.h"
#include "common/metrics.h"
#include "rpc/bound_socket.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "service/internal_call.h"
#include "service/testing/notify_listener.h"
#include "wire/admin.h"
#include "wire/manager.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A manager that forgets everything with its process, counting verifiers from the wall clock.
class FakeManager : public Role, public rpc::Program {
 public:
  explicit FakeManager(ServiceContext& context)
      : context_(context), drawn_(static_cast<std::uint64_t>(context.loop.wall().ns)) {}
  Task<Status> start() override { co_return Status{}; }
  std::vector<rpc::Program*> programs() override { return {this}; }
  Task<void> stop() override { co_return; }
  std::string state() const override { return "serving"; }
  std::uint32_t number() const override { return wire::kManagerProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    switch (static_cast<wire::ManagerProcedure>(call.procedure)) {
      case wire::ManagerProcedure::kHeartbeat: {
        wire::HeartbeatArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        bool within = call.client == members().at(args.server).endpoint;
        (within ? within_ : by_socket_).add();
        members_[args.server] = args;
        encode(results, wire::HeartbeatResult{.generation = generation(), .largest_drawn = Verifier{drawn_}});
        co_return rpc::Outcome::kReply;
      }
      case wire::ManagerProcedure::kDrawVerifier:
        encode(results, wire::DrawVerifierResult{Verifier{++drawn_}});
        co_return rpc::Outcome::kReply;
      case wire::ManagerProcedure::kGetTables: {
        wire::Tables tables = routing::RoutingTables::initial(context_.config);
        tables.servers = members();
        tables.generation = generation();
        if (is("removed")) std::fill(tables.sites[2].begin(), tables.sites[2].end(), added());
        encode(results, tables);
        co_return rpc::Outcome::kReply;
      }
      case wire::ManagerProcedure::kClaim: {
        wire::ClaimArgs args;
        if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
        const auto verdict = args.has_record ? wire::ClaimVerdict::kTaken : wire::ClaimVerdict::kGrant;
        encode(results, wire::ClaimResult{verdict, generation()});
        co_return rpc::Outcome::kReply;
      }
      case wire::ManagerProcedure::kMembers: {
        wire::MembersResult result;
        for (wire::ServerEntry& entry : members()) {
          const bool heard = members_.contains(entry.server);
          wire::Member& member = result.members.emplace_back();
          if (heard) member.last = members_[entry.server];
          member.entry = std::move(entry);
          member.alive = heard;
        }
        encode(results, result);
        co_return rpc::Outcome::kReply;
      }
      default:
        co_return rpc::Outcome::kNoProcedure;
    }
  }

 private:
  // What a test says by a file of this name in the manager's data directory.
  bool is(const char* what) const { return std::filesystem::exists(context_.self.data + "/" + what); }
  Generation generation() const {
    return Generation{3 + std::uint64_t{is("removed")} + std::uint64_t{is("again")}};
  }
  std::uint32_t added() const { return static_cast<std::uint32_t>(context_.config.servers.size()); }
  // Those of the configuration, and one that came later. `removed`: storage1 is none any more; `again`: there
  // is another one of that name.
  std::vector<wire::ServerEntry> members() const {
    std::vector<wire::ServerEntry> all = routing::RoutingTables::initial(context_.config).servers;
    const rpc::Endpoint first = all.at(1).endpoint;
    rpc::Endpoint at = first;
    at.address += 0x6400;
    all.push_back({.server = added(), .role = wire::Role::kStorage, .endpoint = at, .name = "added1"});
    if (is("removed"))
      all[1] = {.server = 1, .role = wire::Role::kRemoved, .endpoint = {}, .name = "storage1"};
    if (is("again"))
      all.push_back(
          {.server = added() + 1, .role = wire::Role::kStorage, .endpoint = first, .name = "storage1"});
    return all;
  }
  ServiceContext& context_;
  std::uint64_t drawn_;
  std::map<std::uint32_t, wire::HeartbeatArgs> members_;
  // A socket's calls come from a port that the system chose.
  Counter& within_ = context_.metrics.gauge("fake_heartbeats_within_process", "heartbeats of a test");
  Counter& by_socket_ = context_.metrics.gauge("fake_heartbeats_by_socket", "heartbeats of a test");
};

class FakeStorage : public Role {
 public:
  explicit FakeStorage(ServiceContext& context) : context_(context) {
    log_info("made with verifier {}", context.verifier.largest().value);
  }
  Task<Status> start() override {
    auto refused = co_await context_.disk.open("refuse", storage::Disk::Mode::kMustExist);
    if (refused) co_return fail(Errc::kCorrupt, "the log is corrupt in segment 3 at 4096");
    co_return Status{};
  }
  std::vector<rpc::Program*> programs() override { return {}; }
  Task<void> stop() override {
    co_await context_.crash.reach("fake.stopping");
    auto file = co_await context_.disk.open("stopped", storage::Disk::Mode::kCreate);
    if (std::filesystem::exists(context_.self.data + "/hang")) co_await context_.loop.sleep(1h);
  }
  std::string state() const override { return "serving"; }
  std::string detail() const override { return "a fake"; }
  void refresh_gauges() override { context_.metrics.gauge("fake_readings", "readings of a test").add(); }

 private:
  ServiceContext& context_;
};

// For processes forked while it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// Looks again and again, for 10 s.
template <class Condition>
bool comes_true(Condition condition, std::chrono::milliseconds between) {
  auto end = std::chrono::steady_clock::now() + 10s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(between);
  }
  return true;
}

// One forked process and what it writes to standard error.
class Child {
 public:
  Child(std::string log, std::vector<std::string> words, const std::vector<ServerRole>& roles)
      : log_(std::move(log)) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    int fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, STDERR_FILENO);
    ::dup2(fd, STDOUT_FILENO);
    words.insert(words.begin(), "slice-fake");
    std::vector<char*> argv;
    argv.reserve(words.size());
    for (std::string& word : words) argv.push_back(word.data());
    ServerKind manager{.role = ServerRole::kManager,
                       .make = [](auto& context) { return std::make_unique<FakeManager>(context); }};
    ServerKind storage{.role = ServerRole::kStorage, .draws_verifier = true, .make = [](auto& context) {
                         return std::make_unique<FakeStorage>(context);
                       }};
    ProcessOptions options{.about = "a fake", .kinds = {}};
    for (ServerRole role : roles) options.kinds.push_back(role == ServerRole::kManager ? manager : storage);
    std::_Exit(run_process(options, static_cast<int>(argv.size()), argv.data()));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  std::string output() const {
    std::ifstream in(log_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool says(std::string_view text) const {
    return comes_true([&] { return output().find(text) != std::string::npos; }, 10ms);
  }
  void signal(int number) const { ::kill(pid_, number); }
  // The exit code; negative: the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  std::string log_;
  pid_t pid_;
};

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() : root_(::testing::TempDir() + "slice_process_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(root_);
    std::ofstream(root_ + "/key") << std::string(32, 'k');
    ::chmod((root_ + "/key").c_str(), 0600);
    port_ = static_cast<std::uint16_t>(20000 + ::getpid() % 10000);
    std::string text =
        "name = \"test\"\nkey_file = \"key\"\n[proxy]\nvirtual_address = \"127.77.0.1\"\n"
        "[[export]]\nclients = \"127.0.0.0/8\"\n";
    int host = 2;
    for (const char* role : {"manager", "storage", "directory", "small-file", "coordinator", "proxy"}) {
      std::string data = std::string(role) == "proxy" ? "" : fmt::format("data = \"{}/{}\"\n", root_, role);
      text += fmt::format(
          "[[server]]\nname = \"{0}1\"\nrole = \"{0}\"\naddress = \"127.77.{1}.2\"\nport = {2}\n{3}", role,
          host++, port_, data);
    }
    write_config(text);
  }
  ~ProcessTest() override { std::filesystem::remove_all(root_); }

  void write_config(const std::string& text) {
    config_text_ = text;
    std::ofstream(root_ + "/ensemble.toml", std::ios::trunc) << text;
  }
  std::unique_ptr<Child> start(std::vector<std::string> names, const std::vector<ServerRole>& roles) {
    names.insert(names.begin(), {"--config", root_ + "/ensemble.toml", "--name"});
    return std::make_unique<Child>(fmt::format("{}/log{}", root_, children_++), std::move(names), roles);
  }
  std::unique_ptr<Child> start_manager() { return start({"manager1"}, {ServerRole::kManager}); }
  // What the manager is to answer from now on.
  void tell(const char* what) const { std::ofstream(root_ + "/manager/" + what) << "\n"; }
  std::unique_ptr<Child> start_storage() { return start({"storage1"}, {ServerRole::kStorage}); }

  // Over a connection of its own.
  template <class R>
  Result<R> ask(int host, std::uint32_t program, std::uint32_t procedure) {
    ++asked_;
    rpc::EpollLoop loop;
    auto config = load_ensemble(root_ + "/ensemble.toml").value();
    rpc::KeyRing keys(config);
    rpc::SocketChannel channel(loop, {.keys = &keys, .sender = 99, .generation = nullptr});
    std::optional<Result<R>> result;
    rpc::Endpoint to{0x7f4d0002u | static_cast<std::uint32_t>(host) << 8, port_};
    spawn([](auto task, auto& out) -> Task<void> {
      out.emplace(co_await std::move(task));
    }(internal_call<R>(channel, to, program, procedure, NoArguments{}, 2s), result));
    loop.run_until([&] { return result.has_value(); }, 10s);
    return std::move(*result);
  }

  std::uint64_t metric(int host, std::string_view name) {
    auto metrics = ask<wire::MetricsResult>(host, wire::kAdminProgram, 1);
    const std::string text = "\n" + metrics.value().text, line = fmt::format("\n{} ", exposed_name(name));
    const std::size_t at = text.find(line);
    if (at != std::string::npos) return std::stoull(text.substr(at + line.size()));
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
  // The answer to GET at a host's port for metrics; empty where nobody takes the connection.
  std::string get(int host, std::string_view path) const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(0x7f4d0002u | static_cast<std::uint32_t>(host) << 8);
    at.sin_port = htons(metrics_port());
    std::string said;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) {
      const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path);
      EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(request.size()));
      char bytes[65536];
      for (ssize_t n = 0; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;)
        said.append(bytes, static_cast<std::size_t>(n));
    }
    ::close(fd);
    return said;
  }
  std::uint16_t metrics_port() const { return static_cast<std::uint16_t>(port_ + 10000); }
  void serve_metrics() {
    write_config(
        fmt::format("{}[metrics]\nscrapers = [\"127.0.0.0/8\"]\nport = {}\n", config_text_, metrics_port()));
  }

  std::string root_, config_text_;
  std::uint16_t port_;
  int children_ = 0;
  std::uint64_t asked_ = 0;
};

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

TEST_F(ProcessTest, ServesMetricsOverHttpFromItsStartOn) {
  serve_metrics();
  auto storage = start_storage();
  ASSERT_TRUE(storage->says("metrics at http://127.77.3.2:")) << storage->output();
  EXPECT_THAT(get(3, "/-/healthy"), HasSubstr("HTTP/1.1 200 OK\r\n"));
  ASSERT_TRUE(storage->says("waiting for the manager")) << storage->output();
  EXPECT_THAT(get(3, "/-/ready"), HasSubstr("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(get(3, "/-/ready"), HasSubstr("starting\n"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("\nprocess_open_fds "));
  auto manager = start_manager();
  ASSERT_TRUE(storage->says("serving as storage")) << storage->output();
  EXPECT_THAT(get(3, "/-/ready"), HasSubstr("200 OK"));
  EXPECT_THAT(get(3, "/other"), HasSubstr("404 Not Found"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("\n# TYPE slice_fake_readings gauge\nslice_fake_readings "));
}

TEST_F(ProcessTest, ServesMetricsOfEachOfItsServers) {
  serve_metrics();
  auto both = start({"manager1", "storage1"}, {ServerRole::kManager, ServerRole::kStorage});
  ASSERT_TRUE(both->says("serving as storage")) << both->output();
  EXPECT_THAT(get(2, "/metrics"), HasSubstr("slice_server_info{name=\"manager1\"} 1\n"));
  EXPECT_THAT(get(3, "/metrics"), HasSubstr("slice_server_info{name=\"storage1\"} 1\n"));
  EXPECT_THAT(get(2, "/metrics"), HasSubstr("\nprocess_resident_memory_bytes "));
  EXPECT_THAT(get(3, "/metrics"), Not(HasSubstr("\nprocess_"))) << "the first server has them";
  tell("removed");
  ASSERT_TRUE(both->says("server 'storage1' was removed from the ensemble")) << both->output();
  EXPECT_EQ(get(3, "/metrics"), "");
  EXPECT_THAT(get(2, "/-/ready"), HasSubstr("200 OK"));
}

TEST_F(ProcessTest, EndsWhereItsMetricsCannotBeServed) {
  serve_metrics();
  const auto taken = rpc::listening_socket({0x7f4d0302, metrics_port()});
  ASSERT_TRUE(taken);
  auto storage = start_storage();
  EXPECT_EQ(storage->wait(), 1);
  EXPECT_THAT(storage->output(),
              HasSubstr(fmt::format("metrics: cannot bind 127.77.3.2:{}", metrics_port())));
  ::close(*taken);
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

TEST_F(ProcessTest, TellsTheServiceManagerHowItIs) {
  testing::NotifyListener listener(root_ + "/notify");
  ASSERT_TRUE(listener.bound());
  std::vector<std::string> heard;
  auto hears = [&](const std::string& what) {
    return comes_true(
        [&] {
          for (std::string& each : listener.heard()) heard.push_back(std::move(each));
          return std::any_of(heard.begin(), heard.end(),
                             [&](const std::string& each) { return each.find(what) != std::string::npos; });
        },
        10ms);
  };
  std::unique_ptr<Child> storage;
  {
    Environment socket("NOTIFY_SOCKET", (root_ + "/notify").c_str()), watchdog("WATCHDOG_USEC", "400000");
    storage = start_storage();
  }
  EXPECT_TRUE(hears("STATUS=waiting: ")) << "for the manager";
  EXPECT_TRUE(hears("READY=1")) << "it does all that it can by itself";
  EXPECT_THAT(heard, Not(Contains("WATCHDOG=1"))) << "it does not serve yet";
  auto manager = start_manager();
  EXPECT_TRUE(hears("STATUS=serving"));
  EXPECT_TRUE(hears("WATCHDOG_USEC=400000"));
  for (int times = 0; times < 3; ++times) {
    EXPECT_TRUE(hears("WATCHDOG=1"));
    heard.clear();
  }
  storage->signal(SIGTERM);
  EXPECT_TRUE(hears("STOPPING=1"));
  EXPECT_EQ(storage->wait(), 0);
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
