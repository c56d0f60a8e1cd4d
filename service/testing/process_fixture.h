// ProcessTest: whole processes, forked from a test, on addresses of the loopback network: a manager and a
// storage server that are fakes, with all that processes have in common.
#ifndef SLICE_SERVICE_TESTING_PROCESS_FIXTURE_H
#define SLICE_SERVICE_TESTING_PROCESS_FIXTURE_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/metrics.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "service/internal_call.h"
#include "service/process.h"
#include "wire/admin.h"
#include "wire/manager.h"

namespace slice::service::testing {

using namespace std::chrono_literals;

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
    at.address = at.address.v4() + 0x6400;
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

}  // namespace slice::service::testing

#endif  // SLICE_SERVICE_TESTING_PROCESS_FIXTURE_H
