#include "service/process.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "cli/command_line.h"
#include "common/log.h"
#include "rpc/epoll_loop.h"
#include "service/hosted_server.h"
#include "service/keys_again.h"
#include "service/membership.h"
#include "service/notify.h"
#include "service/places.h"

namespace slice::service {

Task<wire::ReloadResult> Role::reload() {
  co_return wire::ReloadResult{.refused = "this server is not the manager"};
}

namespace {

constexpr Duration kStopPatience = std::chrono::seconds(5);
constexpr Duration kTellEvery = std::chrono::seconds(1);

struct Arguments {
  std::string config;
  std::vector<std::string> names;
  std::optional<LogLevel> level;    // none: the settings'
  std::optional<LogFormat> format;  // none: the configuration's
};

// None where nothing is said.
template <class T, std::size_t N>
std::optional<T> chosen(std::string_view word, const std::array<std::string_view, N>& names) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) return std::nullopt;
  return static_cast<T>(found - names.begin());
}

// An exit code where the process is to end already.
std::optional<int> parse_arguments(const ProcessOptions& options, int argc, char** argv, Arguments& out) {
  cli::Program app(options.about);
  app.add_option("--config", out.config, "the ensemble's configuration (docs/configuration.md)").required();
  app.add_option("--name", out.names,
                 "which [[server]] of it this process is; several share the process, and call each other "
                 "without sockets")
      .required();
  std::string level, format;
  app.add_option("--log-level", level,
                 "debug, info, warning or error, whatever log_level of the settings says")
      .one_of_any_case({kLogLevelNames.begin(), kLogLevelNames.end()});
  app.add_option("--log-format", format, "text or json, whatever log_format of the configuration says")
      .one_of_any_case({kLogFormatNames.begin(), kLogFormatNames.end()});
  app.footer(
      "SIGHUP: reads the session keys again, and where the manager is, the settings of the whole ensemble "
      "(docs/operations.md). Exit codes: 0 stopped by SIGTERM or SIGINT; 1 failed; 2 wrong usage or "
      "configuration.");
  if (const auto code = app.parse(argc, argv)) return code;
  out.level = chosen<LogLevel>(level, kLogLevelNames);
  out.format = chosen<LogFormat>(format, kLogFormatNames);
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

// Connections and stored files together go beyond the soft limit that shells give.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) log_warning("RLIMIT_NOFILE cannot be raised");
}

// The servers of one process, on one loop.
class Process {
 public:
  // `own_log_level`: of the command line, which no settings change.
  Process(const EnsembleConfig& config, const std::optional<CrashAt>& crash_at, bool own_log_level,
          Notify& notify)
      : config_(config),
        notify_(notify),
        crash_at_(crash_at),
        own_log_level_(own_log_level),
        keys_(config),
        network_(loop_, config.ensemble_key, rpc::Endpoint{}) {}

  // `shared`: it is not the only one. The arguments outlive the process.
  void add(const ServerKind& kind, const ServerConfig& self, bool shared) {
    names_.push_back(self.name);
    servers_.push_back(std::make_unique<HostedServer>(
        Host{.loop = loop_,
             .local = shared ? &network_ : nullptr,
             .config = config_,
             .keys = keys_,
             .crash_at = crash_at_,
             .first = servers_.empty(),
             .own_log_level = own_log_level_,
             .phase_changed = [this] { tell_service_manager(); },
             .end = [this](int code, const std::string& why) { end(code, why); },
             .stands_by = [this](const std::string& why) { stop(why); },
             .left = [this](const std::string& why) { left(why); }},
        kind, self));
  }

  int run() {
    if (Status tls = keys_.use_tls(config_.network.tls.of(names_.front())); !tls) {
      log_error("{}", tls.error().message);
      return kExitBadUsage;
    }
    for (auto& server : servers_) {
      if (Status claimed = server->claim_data(); !claimed) {
        log_error("{}", claimed.error().message);
        return claimed.error().code == Errc::kInvalid ? kExitBadUsage : kExitFailed;
      }
    }
    watch_signals();
    loop_.spin(std::chrono::microseconds(config_.spin_us));
    for (auto& server : servers_) server->begin();
    if (notify_.has_listener()) keep_telling();
    loop_.run();
    ::close(signal_fd_);
    return exit_code_;
  }

 private:
  void keep_telling() {
    tell_service_manager();
    loop_.after(std::min<Duration>(kTellEvery, notify_.watchdog() / 2), [this] { keep_telling(); });
  }

  // It is ready when all that its servers can do by themselves is done. What a server does before it serves
  // may keep the loop for long, so the watchdog looks from then on.
  void tell_service_manager() {
    if (!notify_.has_listener()) return;
    using Phase = HostedServer::Phase;
    bool ready = true, all_serve = true;
    std::vector<std::string> states;
    for (const auto& server : servers_) {
      const Phase phase = server->phase();
      ready &= phase != Phase::kStarting;
      all_serve &= phase == Phase::kServing || phase == Phase::kGone;
      states.push_back(servers_.size() == 1 ? server->state() : server->name() + ": " + server->state());
    }
    notify_.status(fmt::format("{}", fmt::join(states, "; ")));
    if (ready) notify_.ready();
    if (ready && all_serve) notify_.alive();
  }

  // One of the servers serves no more; the others go on.
  void left(const std::string& why) {
    if (++left_ == servers_.size()) {
      end(kExitBadUsage, why);
    } else {
      log_error("{}", why);
    }
  }

  void watch_signals() {
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
    signal_fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    loop_.watch(signal_fd_, EPOLLIN, [this](std::uint32_t) {
      signalfd_siginfo info{};
      while (::read(signal_fd_, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP) {
          const bool keys_changed = read_keys_again(config_, keys_);
          for (auto& server : servers_) {
            if (keys_changed) server->keys_changed();
            server->read_files_again();
          }
          read_settings_again();
        } else {
          stop(fmt::format("stopping signal={}", info.ssi_signo));
        }
      }
    });
  }

  void read_settings_again() {
    auto manager = std::find_if(servers_.begin(), servers_.end(),
                                [](const auto& server) { return server->is_manager(); });
    if (manager != servers_.end()) {
      (*manager)->reload();
    } else {
      say_what_was_changed();
    }
  }

  // The settings are the manager's to publish; who edited another process's file is told so.
  void say_what_was_changed() const {
    auto read = load_ensemble(config_.path);
    if (!read) {
      log_error("SIGHUP: {}; nothing of it is used", read.error().message);
      return;
    }
    const auto settings = servers_.front()->settings().get();
    if (const auto changed = differences(*settings, settings_of(*read)); !changed.empty()) {
      log_warning(
          "SIGHUP: {} differs from the settings in force, which the manager reads (slicectl reload): {}",
          config_.path, fmt::join(changed, ", "));
    }
    if (const auto fixed = fixed_differences(config_, *read, names_); !fixed.empty()) {
      log_warning("SIGHUP: {} was changed in what counts at a start only: {}", config_.path,
                  fmt::join(fixed, ", "));
    }
  }

  void stop(const std::string& why) {
    if (std::exchange(stopping_, true)) return;
    log_info("{}", why);
    notify_.stopping();
    spawn(stop_servers());
    loop_.after(kStopPatience, [this] { end(kExitClean, "stopped before everything was written back"); });
  }

  Task<void> stop_servers() {
    for (auto server = servers_.rbegin(); server != servers_.rend(); ++server) co_await (*server)->stop();
    end(kExitClean, "");
  }

  void end(int code, const std::string& why) {
    if (ended_) return;
    ended_ = true;
    exit_code_ = code;
    if (!why.empty()) log(code == kExitClean ? LogLevel::kWarning : LogLevel::kError, "{}", why);
    loop_.stop();
  }

  const EnsembleConfig& config_;
  Notify& notify_;
  const std::optional<CrashAt>& crash_at_;
  const bool own_log_level_;
  rpc::EpollLoop loop_;
  rpc::KeyRing keys_;
  rpc::InProcessNetwork network_;
  std::vector<std::unique_ptr<HostedServer>> servers_;
  std::vector<std::string> names_;  // of the servers
  int signal_fd_ = -1;
  std::size_t left_ = 0;  // servers that serve no more
  bool stopping_ = false, ended_ = false;
  int exit_code_ = kExitClean;
};

struct Chosen {
  const ServerKind* kind;
  const ServerConfig* self;
};

// The server with this name, if one of `kinds`; else nothing, with a log line.
std::optional<Chosen> choose(const ProcessOptions& options, const Arguments& arguments,
                             const EnsembleConfig& config, const std::string& name) {
  const ServerConfig* self = config.find(name);
  if (self == nullptr && config.has_removed(name)) {
    log_error("{}", removed_text(name));
    return std::nullopt;
  }
  if (self == nullptr) {
    log_error("{}: no [[server]] has the name '{}', nor has any member of the ensemble", arguments.config,
              name);
    return std::nullopt;
  }
  for (const ServerKind& kind : options.kinds) {
    if (kind.role == self->role) return Chosen{&kind, self};
  }
  log_error("{}: server '{}' has the role '{}'; this program is for '{}'", arguments.config, name,
            role_name(self->role), role_name(options.kinds.front().role));
  return std::nullopt;
}

}  // namespace

int run_process(const ProcessOptions& options, int argc, char** argv) {
  Arguments arguments;
  if (auto code = parse_arguments(options, argc, argv, arguments)) return *code;
  std::size_t more = arguments.names.size() - 1;
  configure_log(arguments.names.front() + (more > 0 ? fmt::format("+{}", more) : ""),
                arguments.level.value_or(LogLevel::kInfo));
  if (arguments.format) set_log_format(*arguments.format);
  std::optional<CrashAt> crash_at;
  if (!read_crash_at(crash_at)) return kExitBadUsage;
  Notify notify = Notify::from_environment();
  notify.status("reading the configuration, and who the members are");
  const auto file = load_ensemble(arguments.config);
  if (!file) {
    log_error("{}", file.error().message);
    return kExitBadUsage;
  }
  if (!arguments.format) set_log_format(file->log_format);
  for (const std::string& warning : file->warnings) log_warning("{}", warning);
  auto config = learn_members(*file, arguments.names);
  if (!config) {
    log_error("{}", config.error().message);
    return kExitBadUsage;
  }
  if (!arguments.level) set_log_level(config->log_level);
  auto removed = [&](const std::string& name) {
    return config->find(name) == nullptr && config->has_removed(name);
  };
  if (std::any_of(arguments.names.begin(), arguments.names.end(), removed)) {
    config = wait_for_members(*file, arguments.names);
    if (!config) {
      log_error("{}", config.error().message);
      return kExitBadUsage;
    }
  }
  const std::set<IpAddress> here = addresses_of_this_host();
  for (ServerConfig& server : config->servers) {
    if (std::find(arguments.names.begin(), arguments.names.end(), server.name) == arguments.names.end())
      continue;
    if (Status placed = choose_place(server, here); !placed) {
      log_error("{}", placed.error().message);
      return kExitBadUsage;
    }
  }
  std::vector<Chosen> servers;
  for (const std::string& name : arguments.names) {
    auto chosen = choose(options, arguments, *config, name);
    if (!chosen) return kExitBadUsage;
    servers.push_back(*chosen);
  }
  // Before any thread starts, so that every one of them leaves these signals to the signalfd.
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  raise_descriptor_limit();
  Process process(*config, crash_at, arguments.level.has_value(), notify);
  for (const Chosen& one : servers) process.add(*one.kind, *one.self, servers.size() > 1);
  int code = process.run();
  // Calls and disk operations may still be under way: nothing is taken apart beneath them. What was answered
  // as durable is durable, and the roles have stopped.
  std::_Exit(code);
}

}  // namespace slice::service
