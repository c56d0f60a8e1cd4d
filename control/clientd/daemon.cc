#include "control/clientd/daemon.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>

#include "common/log.h"
#include "common/rights.h"
#include "control/clientd/mounts.h"
#include "service/metrics_page.h"

namespace slice::clientd {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstRoutes = 30s, kLook = 15s, kUnused = 120s;
constexpr unsigned kFirstRestartMs = 50, kLastRestartMs = 2000;
constexpr auto kGoodRun = 10s;  // after which the next restart is a first one
constexpr int kTold = 3;        // a descriptor behind the standard ones

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

class Daemon {
 public:
  Daemon(const DaemonOptions& options, Place place, std::uint16_t port)
      : options_(options),
        place_(std::move(place)),
        port_(port),
        proxy_(
            loop_, metrics_,
            {.server = options.server, .port = port, .threads = options.threads, .kept = place_.routes()}) {
    // Before any thread starts.
    const sigset_t set = ending_signals();
    sigprocmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    loop_.watch(signals_, EPOLLIN, [this](std::uint32_t) { end("a signal"); });
  }
  ~Daemon() {
    loop_.unwatch(signals_);
    ::close(signals_);
  }

  int run(const std::function<void()>& ready) {
    spawn(begin(*this, ready));
    loop_.run();
    return code_;
  }

 private:
  static Task<void> begin(Daemon& self, std::function<void()> ready) {
    if (Status shown = self.show_metrics(); !shown) co_return self.fail(shown.error());
    if (Status begun = co_await self.proxy_.start(kFirstRoutes); !begun) co_return self.fail(begun.error());
    self.serves_ = true;
    log_info("serves this host at 127.0.0.1:{}", self.port_);
    ready();
    MonoTime used = self.loop_.now();
    for (;;) {
      co_await self.loop_.sleep(kLook);
      if (in_use(self.port_)) used = self.loop_.now();
      if (self.loop_.now() - used < kUnused) continue;
      if ((self.ending_ = self.place_.ending())) co_return self.end("nobody uses it");
    }
  }
  Status show_metrics() {
    if (!options_.metrics) return {};
    auto page = service::MetricsPage::open(loop_, metrics_, *options_.metrics,
                                           [this] { return std::string(serves_ ? "" : "the first routes"); });
    if (!page) return slice::fail(std::move(page.error()));
    page_ = std::move(*page);
    return {};
  }
  void fail(const Error& error) {
    log_error("{}", error.message);
    code_ = 1;
    loop_.stop();
  }
  void end(std::string_view why) {
    log_info("ends: {}", why);
    proxy_.stop();
    loop_.stop();
  }

  const DaemonOptions options_;
  rpc::EpollLoop loop_;
  Metrics metrics_;
  const Place place_;
  const std::uint16_t port_;
  ClientProxy proxy_;
  std::unique_ptr<service::MetricsPage> page_;
  bool serves_ = false;
  FileLock ending_;
  int signals_ = -1, code_ = 0;
};

int fail_with(const Error& error) {
  log_error("{}", error.message);
  return 1;
}

void write_into(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int none = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (none >= 0) ::dup2(none, 0);
  if (fd < 0) return;
  ::dup2(fd, 1);
  ::dup2(fd, 2);
}

std::string last_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line, last;
  while (std::getline(in, line)) last = line;
  return last;
}

// In the process that lives on: one child after the other. `told`: where the first one says that it serves.
[[noreturn]] void keep_serving(const DaemonOptions& options, const std::filesystem::path& log, int told) {
  ::prctl(PR_SET_NAME, "slice-clientk");
  configure_log("slice-clientd", LogLevel::kInfo);
  write_into(log);
  sigset_t set = ending_signals();
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_SETMASK, &set, nullptr);
  for (unsigned pause = kFirstRestartMs;; pause = std::min(pause * 2, kLastRestartMs)) {
    const auto began = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      const sigset_t none{};
      sigprocmask(SIG_SETMASK, &none, nullptr);
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      ::prctl(PR_SET_NAME, "slice-clientd");
      ::_exit(serve(options, [&] {
        if (told >= 0) (void)!::write(told, "r", 1);
        if (told >= 0) ::close(told);
        told = -1;
      }));
    }
    if (child < 0) ::_exit(1);
    const bool first = told >= 0;
    if (first) ::close(std::exchange(told, -1));
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) != child) {
      if (const int got = ::sigwaitinfo(&set, nullptr); got > 0 && got != SIGCHLD) ::kill(child, SIGTERM);
    }
    const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended || (first && WIFEXITED(status))) ::_exit(WEXITSTATUS(status));
    log_warning("the proxy has died ({}), and is started again",
                WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
    if (std::chrono::steady_clock::now() - began > kGoodRun) pause = kFirstRestartMs;
    ::usleep(pause * 1000);
  }
}

}  // namespace

int serve(const DaemonOptions& options, const std::function<void()>& ready) {
  auto place = Place::open(options.folder, options.server);
  if (!place) return fail_with(place.error());
  auto serving = place->serve();
  if (!serving) return fail_with(serving.error());
  auto port = place->port();
  if (!port) return fail_with(port.error());
  // What is opened from now on needs one right: connections from reserved ports.
  if (!keep_capabilities({CAP_NET_BIND_SERVICE}))
    log_warning("cannot give up capabilities: {}", std::strerror(errno));
  return Daemon(options, std::move(*place), *port).run(ready);
}

Status serve_detached(const DaemonOptions& options) {
  auto place = Place::open(options.folder, options.server);
  int ends[2];
  if (!place) return fail(std::move(place).error());
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Errc::kIo, "no pipe: {}", std::strerror(errno));
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    ::setsid();
    (void)!::chdir("/");
    // Nothing of who mounts stays open here, above all not the lock by which the proxy knows of that one.
    const int told = ::dup2(ends[1], kTold);
    ::close_range(kTold + 1, ~0u, 0);
    keep_serving(options, place->log(), told);
  }
  ::close(ends[1]);
  char word = 0;
  ssize_t told = 0;
  do {
    told = keeper > 0 ? ::read(ends[0], &word, 1) : 0;
  } while (told < 0 && errno == EINTR);
  ::close(ends[0]);
  if (told == 1) return {};
  return fail(Errc::kUnavailable, "the proxy on this host does not start: {} ({})", last_line(place->log()),
              place->log().string());
}

}  // namespace slice::clientd
