// The registry in etcd: against an etcd of its own, against the same questions as the one in memory, and
// against members that give answers as no etcd does.
#include "control/manager/etcd_registry.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "common/testing/temporary_folder.h"
#include "control/manager/etcd_messages.h"
#include "control/manager/http_client.h"
#include "control/manager/shared_store.h"
#include "control/manager/testing/memory_registry.h"
#include "rpc/epoll_loop.h"
#include "rpc/testing/certificates.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}
// A socket at a free port.
int bound_socket(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  port = ntohs(address.sin_port);
  return fd;
}
std::uint16_t free_port() {
  std::uint16_t port = 0;
  ::close(bound_socket(port));
  return port;
}

enum class Clients { kAny, kWithCertificates };

// An etcd of one member, which ends with this. With files of TLS it has those.
class Etcd {
 public:
  explicit Etcd(const TlsConfig& tls = {}, Clients clients = Clients::kAny) {
    const std::string& folder = folder_.path();
    const std::string peer = fmt::format("http://127.0.0.1:{}", free_port());
    url_ = fmt::format("{}://127.0.0.1:{}", tls.used() ? "https" : "http", free_port());
    std::vector<std::string> words{"etcd",
                                   "--name",
                                   "one",
                                   "--data-dir",
                                   folder + "/data",
                                   "--log-outputs",
                                   folder + "/log",
                                   "--logger",
                                   "zap",
                                   "--heartbeat-interval",
                                   "50",
                                   "--election-timeout",
                                   "500",
                                   "--listen-client-urls",
                                   url_,
                                   "--advertise-client-urls",
                                   url_,
                                   "--listen-peer-urls",
                                   peer,
                                   "--initial-advertise-peer-urls",
                                   peer,
                                   "--initial-cluster",
                                   "one=" + peer};
    if (tls.used()) {
      for (const std::string& each :
           {std::string("--cert-file"), tls.certificate, std::string("--key-file"), tls.key})
        words.push_back(each);
    }
    if (clients == Clients::kWithCertificates)
      words.insert(words.end(), {"--client-cert-auth", "--trusted-ca-file", tls.authority});
    std::vector<char*> arguments;
    for (std::string& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    const int spawned = ::posix_spawnp(&pid_, "etcd", nullptr, nullptr, arguments.data(), environ);
    EXPECT_EQ(spawned, 0) << "Debian's etcd-server is needed (deploy/packages.txt)";
  }
  ~Etcd() {
    signal(SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);
  }
  const std::string& url() const { return url_; }

 private:
  TemporaryFolder folder_;
  std::string url_;
  pid_t pid_ = -1;
};

// An HTTP server that answers each request with what a test wants.
class FakeMember {
 public:
  using Answer = std::function<std::string(const std::string& path)>;  // all of it; "": none, ever
  explicit FakeMember(Answer answer) : answer_(std::move(answer)), listener_(bound_socket(port_)) {
    EXPECT_EQ(::listen(listener_, 16), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeMember() {
    stopped_ = true;
    thread_.join();
    for (int fd : open_) ::close(fd);
    ::close(listener_);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  static std::string json(const std::string& body, const char* status = "200 OK") {
    return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                       body.size(), body);
  }

 private:
  void serve() {
    while (!stopped_) {
      pollfd waits{.fd = listener_, .events = POLLIN, .revents = 0};
      if (::poll(&waits, 1, 20) <= 0) continue;
      const int fd = ::accept(listener_, nullptr, nullptr);
      // Whoever asked may not read on: the loop of a test that is over does not run.
      const timeval patience{.tv_sec = 1, .tv_usec = 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
      std::string request;
      char bytes[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::read(fd, bytes, sizeof bytes);
        if (got <= 0) break;
        request.append(bytes, static_cast<std::size_t>(got));
      }
      const std::size_t at = request.find(' ');
      const std::string answer =
          at == std::string::npos ? "x" : answer_(request.substr(at + 1, request.find(' ', at + 1) - at - 1));
      if (answer.empty()) {
        open_.push_back(fd);
        continue;
      }
      for (std::size_t sent = 0; sent < answer.size();) {
        const ssize_t more = ::send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) break;
        sent += static_cast<std::size_t>(more);
      }
      ::shutdown(fd, SHUT_WR);
      while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
      }
      ::close(fd);
    }
  }
  const Answer answer_;
  std::uint16_t port_ = 0;
  int listener_;
  std::vector<int> open_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

class EtcdTest : public ::testing::Test {
 protected:
  // What looks at members ends by itself.
  void TearDown() override { (void)run(pause(EtcdRegistry::kProbe + 2 * EtcdRegistry::kTimeout)); }
  std::unique_ptr<EtcdRegistry> registry_of(std::vector<std::string> urls,
                                            EtcdRegistry::Credentials credentials = {}) {
    config_.etcd = std::move(urls);
    config_.etcd_prefix = "/slice/test";
    return std::make_unique<EtcdRegistry>(loop_, metrics_, config_, std::move(credentials));
  }
  template <class T>
  T run(Task<T> task) {
    return rpc::run_to_end(loop_, std::move(task));
  }
  // Until it answers.
  bool is_up(Registry& registry) {
    for (int tries = 0; tries < 100; ++tries) {
      if (run(registry.leader())) return true;
      (void)run(pause(100ms));
    }
    return false;
  }
  Task<bool> pause(Duration time) {
    co_await loop_.sleep(time);
    co_return true;
  }
  std::uint64_t count(std::string_view name) { return metrics_.counter(name).value(); }

  rpc::EpollLoop loop_;
  Metrics metrics_;
  ManagersConfig config_;
};

// What every registry does.
void ask_everything(const std::function<void(Duration)>& pause, Registry& registry, rpc::EpollLoop& loop) {
  auto run = [&loop](auto task) { return rpc::run_to_end(loop, std::move(task)); };
  EXPECT_EQ(run(registry.leader())->since, 0u);
  EXPECT_EQ(run(registry.read("state"))->revision, 0u);
  auto lease = run(registry.grant(20s));
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_GE(lease->time, 20s);
  EXPECT_TRUE(run(registry.keep(lease->id)));
  EXPECT_EQ(run(registry.keep(lease->id + 99)).error().code, Errc::kNotFound);
  EXPECT_EQ(run(registry.stand("other 1", lease->id + 99)).error().code, Errc::kNotFound);
  auto mine = run(registry.stand("me 1", lease->id));
  ASSERT_TRUE(mine);
  EXPECT_EQ(mine->holder, "me 1");
  EXPECT_GT(mine->since, 0u);
  EXPECT_EQ(mine->lease, lease->id);
  auto again = run(registry.stand("other 1", lease->id));
  EXPECT_EQ(again->holder, "me 1");
  EXPECT_EQ(again->since, mine->since);
  EXPECT_EQ(again->lease, lease->id);
  EXPECT_EQ(run(registry.leader())->since, mine->since);

  const std::string bytes("\0\xff binary", 9);
  auto first = run(registry.write("state", as_bytes(bytes), 0, mine->since));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->written);
  auto stored = run(registry.read("state"));
  EXPECT_EQ(as_text(stored->contents.view()), bytes);
  EXPECT_EQ(stored->revision, first->now.revision);
  auto wrong = run(registry.write("state", as_bytes("x"), 0, mine->since));
  ASSERT_TRUE(wrong);
  EXPECT_FALSE(wrong->written);
  EXPECT_EQ(as_text(wrong->now.contents.view()), bytes);
  EXPECT_EQ(wrong->now.revision, first->now.revision);
  EXPECT_EQ(wrong->leader.since, mine->since);
  auto deposed = run(registry.write("state", as_bytes("x"), first->now.revision, mine->since + 99));
  EXPECT_FALSE(deposed->written);
  auto second = run(registry.write("state", as_bytes("second"), first->now.revision, mine->since));
  EXPECT_TRUE(second->written);
  EXPECT_GT(second->now.revision, first->now.revision);
  // Which takes its time on a busy machine: made again, it is found there.
  const std::string large(Registry::kMaxContents, '\xff');
  auto third = run(registry.write("state", as_bytes(large), second->now.revision, mine->since));
  for (int tries = 0; !third && tries < 20; ++tries) {
    (void)run(registry.keep(lease->id));
    third = run(registry.write("state", as_bytes(large), second->now.revision, mine->since));
  }
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_TRUE(third->written || as_text(third->now.contents.view()) == large);
  EXPECT_EQ(as_text(run(registry.read("state"))->contents.view()), large);
  EXPECT_EQ(run(registry.read("settings"))->revision, 0u);

  EXPECT_TRUE(run(registry.revoke(lease->id)));
  EXPECT_EQ(run(registry.leader())->since, 0u);
  EXPECT_EQ(run(registry.keep(lease->id)).error().code, Errc::kNotFound);
  EXPECT_FALSE(run(registry.write("state", as_bytes("x"), third->now.revision, mine->since))->written);
  auto short_one = run(registry.grant(1s));
  ASSERT_TRUE(run(registry.stand("me 2", short_one->id)));
  pause(short_one->time + 1500ms);
  EXPECT_EQ(run(registry.leader())->since, 0u) << "it was not kept";
  EXPECT_FALSE(registry.places().empty());
}

TEST_F(EtcdTest, AnswersAsARegistryDoes) {
  const Etcd etcd;
  auto registry = registry_of({etcd.url()});
  ASSERT_TRUE(is_up(*registry));
  ask_everything([this](Duration time) { (void)run(pause(time)); }, *registry, loop_);
  EXPECT_EQ(count("manager_etcd_bad_answers_total"), 0u);
  EXPECT_TRUE(loop_.run_until([&] { return registry->places().front().trouble.empty(); }, 20s))
      << registry->places().front().trouble;
}
TEST_F(EtcdTest, TheOneInMemoryDoesTheSame) {
  testing::MemoryRegistry::Shared shared(loop_);
  testing::MemoryRegistry registry(shared);
  ask_everything([this](Duration time) { (void)run(pause(time)); }, registry, loop_);
}

TEST_F(EtcdTest, GoesOnToAMemberThatAnswers) {
  const Etcd etcd;
  const FakeMember silent([](const std::string&) { return ""; });
  const std::string nobody = fmt::format("http://127.0.0.1:{}", free_port());
  {
    auto alone = registry_of({etcd.url()});
    ASSERT_TRUE(is_up(*alone));
  }
  auto registry = registry_of({nobody, silent.url(), etcd.url()});
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(run(registry->leader()));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 2 * EtcdRegistry::kTimeout);
  const std::uint64_t failures = count("manager_etcd_failures_total");
  EXPECT_GE(failures, 2u);
  ASSERT_TRUE(run(registry->leader()));
  EXPECT_EQ(count("manager_etcd_failures_total"), failures) << "who answered is asked first";
  auto troubles = [&] {  // by looks at all of them
    std::vector<bool> ill;
    for (const wire::StorePlace& each : registry->places()) ill.push_back(!each.trouble.empty());
    return ill;
  };
  EXPECT_TRUE(loop_.run_until([&] { return troubles() == std::vector<bool>{true, true, false}; }, 20s));
}

TEST_F(EtcdTest, ASharedStoreLeadsByIt) {
  const Etcd etcd;
  {
    auto alone = registry_of({etcd.url()});
    ASSERT_TRUE(is_up(*alone));
  }
  struct One {
    Metrics metrics;
    std::unique_ptr<SharedStore> store;
  } a, b;
  std::uint64_t random = 0;
  for (auto& [one, name] : {std::pair<One&, const char*>{a, "manager1"}, {b, "manager2"}}) {
    one.store = std::make_unique<SharedStore>(SharedStore::Seams{.loop = loop_,
                                                                 .metrics = one.metrics,
                                                                 .self = name,
                                                                 .lease = 1s,
                                                                 .random = [&random] { return ++random; }},
                                              registry_of({etcd.url()}));
    one.store->stand({.begun = [] {}, .ended = [] {}});
    ASSERT_TRUE(loop_.run_until([&] { return a.store->leads(); }, 5s));
  }
  EXPECT_EQ(run(a.store->read("state")).error().code, Errc::kNotFound);
  EXPECT_TRUE(run(a.store->replace("state", Buffer(as_bytes("first")))));
  ASSERT_TRUE(loop_.run_until([&] { return b.store->leader() == "manager1"; }, 2s));
  // Nobody leads while etcd is stopped, and somebody when it goes on.
  etcd.signal(SIGSTOP);
  ASSERT_TRUE(loop_.run_until([&] { return !a.store->leads(); }, 2s));
  EXPECT_FALSE(run(a.store->replace("state", Buffer(as_bytes("lost")))));
  etcd.signal(SIGCONT);
  ASSERT_TRUE(loop_.run_until([&] { return a.store->leads() || b.store->leads(); }, 10s));
  SharedStore& leader = a.store->leads() ? *a.store : *b.store;
  auto state = run(leader.read("state"));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(as_text(state->view()), "first");
  a.store.reset();
  b.store.reset();
  (void)run(pause(3s));  // what is under way counts
}

// Whatever a member answers is an error, counted, and changes nothing; and the loop goes on.
TEST_F(EtcdTest, BadAnswersAreErrors) {
  const std::vector<std::string> bad{
      "nonsense",
      "HTTP/1.1 200 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\"",
      FakeMember::json(""),
      FakeMember::json("{"),
      FakeMember::json("[]"),
      FakeMember::json("{}"),
      FakeMember::json(R"({"header":{"revision":"7"},"kvs":[{"key":"!","value":"!"}]})"),
      FakeMember::json(
          R"({"header":{"revision":"7"},"kvs":7,"succeeded":7,"responses":7,"ID":7.5,"result":[]})"),
      FakeMember::json(std::string(3 << 20, ' ')),
      FakeMember::json(std::string(1 << 20, '[')),
      FakeMember::json("<html>", "500 Internal Server Error"),
      FakeMember::json("", "302 Found"),
  };
  for (const std::string& answer : bad) {
    const FakeMember member([&](const std::string&) { return answer; });
    auto registry = registry_of({member.url()});
    const std::uint64_t failures = count("manager_etcd_failures_total");
    EXPECT_FALSE(run(registry->leader())) << answer.substr(0, 80);
    EXPECT_FALSE(run(registry->stand("me 1", 7)));
    EXPECT_FALSE(run(registry->read("state")));
    EXPECT_FALSE(run(registry->grant(2s)));
    auto kept = run(registry->keep(7));
    EXPECT_FALSE(kept);
    auto written = run(registry->write("state", as_bytes("x"), 0, 1));
    ASSERT_FALSE(written);
    EXPECT_TRUE(written.error().code == Errc::kTimedOut || written.error().code == Errc::kUnavailable)
        << "it is not known whether it was written";
    EXPECT_GE(count("manager_etcd_failures_total"), failures + 6);
    EXPECT_TRUE(loop_.run_until([&] { return !registry->places().front().trouble.empty(); }, 5s));
  }
  EXPECT_GE(count("manager_etcd_bad_answers_total"), 6 * 6u);
}

TEST_F(EtcdTest, ARefusalAfterAnAnswerThatWasLostIsNoRefusal) {
  const FakeMember lost([](const std::string& path) {
    return path == "/v3/kv/txn" ? std::string("x") : FakeMember::json("{}");
  });
  const FakeMember refuses(
      [](const std::string&) { return FakeMember::json(R"({"code":3,"message":"no"})", "400 Bad Request"); });
  {
    auto registry = registry_of({refuses.url()});
    EXPECT_EQ(run(registry->write("state", as_bytes("x"), 0, 1)).error().code, Errc::kInvalid);
  }
  auto registry = registry_of({lost.url(), refuses.url()});
  EXPECT_EQ(run(registry->write("state", as_bytes("x"), 0, 1)).error().code, Errc::kTimedOut);
}

TEST_F(EtcdTest, UsesATokenAndGetsAnotherWhenItIsOver) {
  std::mutex mutex;
  std::vector<std::string> paths;
  int tokens = 0, refused = 0;
  const FakeMember member([&](const std::string& path) {
    const std::lock_guard lock(mutex);
    paths.push_back(path);
    if (path == "/v3/auth/authenticate")
      return FakeMember::json(fmt::format(R"({{"token":"t{}"}})", ++tokens));
    if (path == "/v3/kv/range" && tokens == 1 && refused++ == 0)
      return FakeMember::json(R"({"code":16,"message":"etcdserver: invalid auth token"})",
                              "401 Unauthorized");
    return FakeMember::json(R"({"header":{"revision":"7"}})");
  });
  auto registry = registry_of({member.url()}, {.user = "slice", .password = "secret"});
  auto leader = run(registry->leader());
  ASSERT_TRUE(leader) << leader.error().message;
  EXPECT_EQ(tokens, 2);
}

TEST_F(EtcdTest, APasswordThatIsNotTakenIsSaid) {
  const FakeMember member([&](const std::string&) {
    return FakeMember::json(
        R"({"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"})",
        "400 Bad Request");
  });
  auto registry = registry_of({member.url()}, {.user = "slice", .password = "wrong"});
  auto leader = run(registry->leader());
  ASSERT_FALSE(leader);
  EXPECT_EQ(leader.error().code, Errc::kDenied);
  EXPECT_THAT(leader.error().message, HasSubstr("etcd does not take user 'slice'"));
  EXPECT_THAT(leader.error().message, ::testing::Not(HasSubstr("wrong")));
}

class SecuredEtcdTest : public EtcdTest {
 protected:
  SecuredEtcdTest() {
    ours_.emplace(folder_.path(), "ours");
    others_.emplace(folder_.path(), "others");
    config_.etcd_tls_authority = ours_->path(".crt");
  }
  ~SecuredEtcdTest() override { etcd_.reset(); }
  void use(const TlsConfig& files) {
    config_.etcd_tls_authority = files.authority;
    config_.etcd_tls_certificate = files.certificate;
    config_.etcd_tls_key = files.key;
  }
  // As its operator would; until it is done, since the machine may be busy.
  void ask(const std::string& path, const std::string& body) {
    HttpClient http(loop_, {.authority = config_.etcd_tls_authority,
                            .certificate = config_.etcd_tls_certificate,
                            .key = config_.etcd_tls_key});
    const HttpClient::Request request{
        .url = etcd_->url() + path, .headers = {}, .body = body, .timeout = 10s, .limit = 10'000};
    auto response = run(http.post(request));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 200) << path << ": " << response->body;
  }
  // Users root and slice, who may have what begins with the prefix alone.
  void enable_users() {
    ask("/v3/auth/user/add", R"({"name":"root","password":"secret"})");
    ask("/v3/auth/role/add", R"({"name":"root"})");
    ask("/v3/auth/user/grant", R"({"user":"root","role":"root"})");
    ask("/v3/auth/user/add", R"({"name":"slice","password":"se:cret"})");
    ask("/v3/auth/role/add", R"({"name":"slice"})");
    ask("/v3/auth/role/grant",
        fmt::format(R"({{"name":"slice","perm":{{"permType":"READWRITE","key":"{}","range_end":"{}"}}}})",
                    etcd::to_base64(as_bytes("/slice/test/")), etcd::to_base64(as_bytes("/slice/test0"))));
    ask("/v3/auth/user/grant", R"({"user":"slice","role":"slice"})");
    ask("/v3/auth/enable", "{}");
  }

  TemporaryFolder folder_;
  std::optional<rpc::testing::Authority> ours_, others_;
  std::optional<Etcd> etcd_;
};

TEST_F(SecuredEtcdTest, AnswersWhoHasAPassword) {
  etcd_.emplace(ours_->issue("member"));
  {
    auto registry = registry_of({etcd_->url()});
    ASSERT_TRUE(is_up(*registry)) << registry->places().front().trouble;
  }
  enable_users();
  {
    auto nobody = registry_of({etcd_->url()});
    auto refused = run(nobody->leader());
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().code == Errc::kInvalid || refused.error().code == Errc::kDenied)
        << refused.error().message;
  }
  {
    config_.etcd_prefix = "/elsewhere";
    EtcdRegistry elsewhere(loop_, metrics_, config_, {.user = "slice", .password = "se:cret"});
    Error said{Errc::kTimedOut, ""};
    for (int tries = 0; tries < 20 && said.code != Errc::kDenied; ++tries) {
      auto leader = run(elsewhere.leader());
      ASSERT_FALSE(leader);
      said = leader.error();
    }
    EXPECT_EQ(said.code, Errc::kDenied) << said.message;
  }
  auto registry = registry_of({etcd_->url()}, {.user = "slice", .password = "se:cret"});
  ASSERT_TRUE(is_up(*registry));
  ask_everything([this](Duration time) { (void)run(pause(time)); }, *registry, loop_);
  EXPECT_TRUE(loop_.run_until([&] { return registry->places().front().trouble.empty(); }, 20s))
      << registry->places().front().trouble;
}

TEST_F(SecuredEtcdTest, IsNotAskedWhereACertificateIsNotOfTheAuthority) {
  etcd_.emplace(ours_->issue("member"), Clients::kWithCertificates);
  use(ours_->issue("manager"));
  {
    auto registry = registry_of({etcd_->url()});
    ASSERT_TRUE(is_up(*registry)) << registry->places().front().trouble;
  }
  config_.etcd_tls_authority = others_->path(".crt");
  {
    auto registry = registry_of({etcd_->url()});
    EXPECT_EQ(run(registry->leader()).error().code, Errc::kUnavailable);
  }
  use(others_->issue("stranger"));
  config_.etcd_tls_authority = ours_->path(".crt");
  auto registry = registry_of({etcd_->url()});
  EXPECT_FALSE(run(registry->leader())) << "nor does it answer a stranger";
}

TEST(EtcdCredentials, AreOneLineThatNobodyElseMayRead) {
  const std::string path = ::testing::TempDir() + "etcd.user." + std::to_string(::getpid());
  auto read = [&](const std::string& text, mode_t mode) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    auto credentials = read_credentials(path);
    std::filesystem::remove(path);
    return credentials;
  };
  auto good = read("slice:se:cret\n", 0600);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->user, "slice");
  EXPECT_EQ(good->password, "se:cret");
  EXPECT_THAT(read("slice:secret\n", 0640).error().message, HasSubstr("chmod 600"));
  for (const char* bad : {"", "slice", ":secret", "slice:", "slice:secret\nmore\n"})
    EXPECT_THAT(read(bad, 0600).error().message, HasSubstr("USER:PASSWORD")) << bad;
  EXPECT_EQ(read_credentials(path).error().code, Errc::kInvalid);
}

}  // namespace
}  // namespace slice::manager
