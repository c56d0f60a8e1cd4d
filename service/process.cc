#include "service/process.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>

#include "common/log.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "rpc/server.h"
#include "service/admin_program.h"
#include "service/crash_at.h"
#include "service/data_directory.h"
#include "service/manager_session.h"
#include "storage/emulated_disk.h"
#include "storage/memory_disk.h"
#include "storage/posix_disk.h"

namespace slice::service {
namespace {

constexpr int kClean = 0, kFailed = 1, kBadUsage = 2;
constexpr Duration kStopPatience = std::chrono::seconds(5);
constexpr const char* kVersion = "0.1.0";

struct Arguments {
  std::string config;
  std::string name;
  LogLevel level = LogLevel::kInfo;
};

// An exit code where the process is to end already.
std::optional<int> parse_arguments(const ProcessOptions& options, int argc, char** argv, Arguments& out) {
  CLI::App app(options.about);
  app.set_version_flag("--version", std::string("slice ") + kVersion);
  app.add_option("--config", out.config, "the ensemble's configuration (docs/configuration.md)")->required();
  app.add_option("--name", out.name, "which [[server]] of it this process is")->required();
  const std::map<std::string, LogLevel> levels{{"debug", LogLevel::kDebug},
                                               {"info", LogLevel::kInfo},
                                               {"warning", LogLevel::kWarning},
                                               {"error", LogLevel::kError}};
  app.add_option("--log-level", out.level, "debug, info, warning or error")
      ->transform(CLI::CheckedTransformer(levels, CLI::ignore_case));
  app.footer("Exit codes: 0 stopped by SIGTERM or SIGINT; 1 failed; 2 wrong usage or configuration.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kClean : kBadUsage;
  }
  return std::nullopt;
}

// What the environment asks for; false, with a log line, where that is not understood.
bool read_crash_at(std::optional<CrashAt>& out) {
  const char* text = std::getenv(kCrashAtVariable);  // NOLINT(concurrency-mt-unsafe): before threads
  if (text == nullptr || *text == 0) return true;
  auto parsed = parse_crash_at(text);
  if (!parsed) {
    log_error("{}", parsed.error().message);
    return false;
  }
  out = std::move(*parsed);
  return true;
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // The system's pool is there long before any server starts; 8 bytes never come short then.
  [[maybe_unused]] ssize_t got = ::getrandom(&bits, sizeof bits, 0);
  return bits;
}

// Connections and stored files together go beyond the soft limit that shells give.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) log_warning("RLIMIT_NOFILE cannot be raised");
}

// Everything one process consists of. Members are in the order of their making: each knows those above it.
class Process {
 public:
  Process(const ProcessOptions& options, EnsembleConfig config, const std::string& name,
          const std::optional<CrashAt>& crash_at)
      : options_(options),
        config_(std::move(config)),
        self_(*config_.find(name)),
        handles_(config_),
        tables_(routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value()) {
    if (crash_at) arm(crash_, *crash_at);
  }

  int run(const MakeRole& make_role) {
    if (Status claimed = claim_data(); !claimed) {
      log_error("{}", claimed.error().message);
      return claimed.error().code == Errc::kInvalid ? kBadUsage : kFailed;
    }
    channel_.emplace(loop_, rpc::SocketChannel::Options{
                                .key = config_.ensemble_key, .sender = self_.index, .generation = [this] {
                                  return tables_.get()->generation();
                                }});
    session_.emplace(ManagerSession::Seams{.loop = loop_,
                                           .channel = *channel_,
                                           .metrics = metrics_,
                                           .disk = *disk_,
                                           .config = config_,
                                           .self = self_,
                                           .tables = tables_});
    watch_signals();
    spawn(start(make_role));
    loop_.run();
    ::close(signal_fd_);
    return exit_code_;
  }

 private:
  Status claim_data() {
    if (self_.data.empty()) {
      disk_ = std::make_unique<storage::MemoryDisk>(loop_);
      return {};
    }
    auto data = DataDirectory::claim(self_, config_.volume.id, options_.data_format);
    if (!data) return fail(std::move(data).error());
    data_.emplace(std::move(*data));
    if (data_->is_new()) log_info("new data directory {}", self_.data);
    if (data_->free_bytes() < self_.reserve_bytes) {
      log_warning("data directory {} has {} bytes free, less than its reserve of {}: changes will be refused",
                  self_.data, data_->free_bytes(), self_.reserve_bytes);
    }
    auto disk = storage::PosixDisk::open(loop_, self_.data);
    if (!disk) return fail(std::move(disk).error());
    disk_ = std::move(*disk);
    emulate_disk();
    return {};
  }

  void emulate_disk() {
    if (!self_.emulated_disk) return;
    const EmulatedDiskConfig& emulated = *self_.emulated_disk;
    log_warning("emulated_disk: operations wait as for {} arms of {} us and {} bytes/s: for measuring only",
                emulated.arms, emulated.access_us, emulated.bytes_per_second);
    disk_ = std::make_unique<storage::EmulatedDisk>(
        loop_, std::move(disk_),
        storage::DiskModel::Options{.arms = emulated.arms,
                                    .access = std::chrono::microseconds(emulated.access_us),
                                    .bytes_per_second = emulated.bytes_per_second,
                                    .memory_bytes = emulated.memory_bytes},
        metrics_);
  }

  void watch_signals() {
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal_fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    loop_.watch(signal_fd_, EPOLLIN, [this](std::uint32_t) {
      signalfd_siginfo info{};
      while (::read(signal_fd_, &info, sizeof info) == sizeof info) stop(info.ssi_signo);
    });
  }

  Task<void> start(const MakeRole& make_role) {
    if (options_.draws_verifier) verifier_.see(co_await session_->draw_verifier());
    co_await session_->load_tables();
    session_->start_heartbeats(verifier_, [this](wire::HeartbeatArgs& args) { describe(args); });
    context_.emplace(ServiceContext{.loop = loop_,
                                    .channel = *channel_,
                                    .metrics = metrics_,
                                    .disk = *disk_,
                                    .config = config_,
                                    .self = self_,
                                    .handles = handles_,
                                    .tables = tables_,
                                    .verifier = verifier_,
                                    .random = random_bits,
                                    .crash = crash_,
                                    .refresh_tables = [this] { return session_->refresh(); }});
    role_ = make_role(*context_);
    Status started = co_await role_->start();
    if (!started) {
      end(started.error().code == Errc::kInvalid ? kBadUsage : kFailed, started.error().message);
      co_return;
    }
    if (stopping_) co_return;
    admin_.emplace(
        self_.name, metrics_, [this] { refresh_gauges(); },
        [this](const wire::MisdirectedArgs& report) { role_->misdirected(report); });
    dispatcher_.emplace(config_.ensemble_key, metrics_, &loop_);
    dispatcher_->add(*admin_);
    for (rpc::Program* program : role_->programs()) dispatcher_->add(*program);
    server_.emplace(loop_, *dispatcher_, metrics_);
    auto bound = server_->listen({self_.address, self_.port});
    if (!bound) {
      end(kFailed, bound.error().message);
      co_return;
    }
    serving_ = true;
    log_info("serving as {} at {} verifier={} generation={}", role_name(self_.role), rpc::to_string(*bound),
             verifier_.largest().value, tables_.get()->generation().value);
  }

  void stop(std::uint32_t signal) {
    if (std::exchange(stopping_, true)) return;
    log_info("stopping signal={}", signal);
    if (!serving_) {
      end(kClean, "");
      return;
    }
    spawn(stop_role());
    loop_.after(kStopPatience, [this] { end(kClean, "stopped before everything was written back"); });
  }

  Task<void> stop_role() {
    co_await role_->stop();
    end(kClean, "");
  }

  void end(int code, const std::string& why) {
    if (ended_) return;
    ended_ = true;
    exit_code_ = code;
    if (!why.empty()) log(code == kClean ? LogLevel::kWarning : LogLevel::kError, "{}", why);
    loop_.stop();
  }

  void describe(wire::HeartbeatArgs& args) {
    if (auto space = disk_->space(); space && !self_.data.empty()) {
      args.free_bytes = space->free_bytes;
      args.total_bytes = space->total_bytes;
    }
    args.state = stopping_ ? "stopping" : serving_ ? role_->state() : "starting";
    if (serving_) args.detail = role_->detail();
  }

  void refresh_gauges() {
    auto uptime = std::chrono::duration_cast<std::chrono::seconds>(loop_.now() - started_);
    metrics_.counter("process_uptime_seconds").set(static_cast<std::uint64_t>(uptime.count()));
    if (self_.data.empty()) return;
    if (auto space = disk_->space()) {
      metrics_.counter("data_free_bytes").set(space->free_bytes);
      metrics_.counter("data_total_bytes").set(space->total_bytes);
    }
  }

  const ProcessOptions& options_;
  const EnsembleConfig config_;
  const ServerConfig& self_;
  const routing::HandleCodec handles_;
  routing::TableHolder tables_;
  VerifierClock verifier_{Verifier{0}};
  Metrics metrics_;
  rpc::EpollLoop loop_;
  MonoTime started_ = loop_.now();
  std::optional<DataDirectory> data_;
  std::unique_ptr<storage::Disk> disk_;
  std::optional<rpc::SocketChannel> channel_;
  std::optional<ManagerSession> session_;
  CrashPoints crash_;  // without fault injection none kills
  std::optional<ServiceContext> context_;
  std::unique_ptr<Role> role_;
  std::optional<AdminProgram> admin_;
  std::optional<rpc::Dispatcher> dispatcher_;
  std::optional<rpc::Server> server_;

  int signal_fd_ = -1;
  bool serving_ = false, stopping_ = false, ended_ = false;
  int exit_code_ = kClean;
};

}  // namespace

int run_process(const ProcessOptions& options, int argc, char** argv, const MakeRole& make_role) {
  Arguments arguments;
  if (auto code = parse_arguments(options, argc, argv, arguments)) return *code;
  configure_log(arguments.name, arguments.level);
  std::optional<CrashAt> crash_at;
  if (!read_crash_at(crash_at)) return kBadUsage;
  auto config = load_ensemble(arguments.config);
  if (!config) {
    log_error("{}", config.error().message);
    return kBadUsage;
  }
  for (const std::string& warning : config->warnings) log_warning("{}", warning);
  const ServerConfig* self = config->find(arguments.name);
  if (self == nullptr) {
    log_error("{}: no [[server]] has the name '{}'", arguments.config, arguments.name);
    return kBadUsage;
  }
  if (self->role != options.role) {
    log_error("{}: server '{}' has the role '{}'; this program is for '{}'", arguments.config, arguments.name,
              role_name(self->role), role_name(options.role));
    return kBadUsage;
  }
  // Before any thread starts, so that every one of them leaves these signals to the signalfd.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  raise_descriptor_limit();
  keep_freed_memory();
  Process process(options, std::move(*config), arguments.name, crash_at);
  int code = process.run(make_role);
  // Calls and disk operations may still be under way: nothing is taken apart beneath them. What was answered
  // as durable is durable, and the role has stopped.
  std::_Exit(code);
}

}  // namespace slice::service
