// slice-fsck: proves that a volume's name space is whole (docs/operations.md). `slicectl fsck` runs it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>

#include "common/log.h"
#include "common/version.h"
#include "dirserver/fsck/checker.h"
#include "dirserver/fsck/local_source.h"
#include "dirserver/fsck/remote_source.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"

namespace slice::dirserver::fsck {
namespace {

constexpr int kClean = 0, kFindings = 1, kUnread = 2;
// What it calls itself to the ensemble: no server of the configuration.
constexpr std::uint32_t kSender = 0xffffffff;

struct Arguments {
  std::string config = "/etc/slice/ensemble.toml";
  bool offline = false, json = false;
  std::string memory = "1GiB";
  double timeout = 30;
  std::uint64_t limit = Options{}.limit;
  std::vector<std::string> data;
  std::map<std::string, std::string> folders;  // from `data`
};

int say(const Error& error) {
  std::fprintf(stderr, "slice-fsck: %s\n", error.message.c_str());
  return kUnread;
}

template <class T>
Task<void> keep(Task<T> task, std::optional<T>& value, rpc::EpollLoop& loop) {
  value.emplace(co_await std::move(task));
  loop.stop();
}
template <class T>
T run(rpc::EpollLoop& loop, Task<T> task) {
  std::optional<T> value;
  spawn(keep(std::move(task), value, loop));
  while (!value) loop.run();
  return std::move(*value);
}

int show(const Report& report, const Arguments& arguments) {
  std::string_view mode = arguments.offline ? "offline" : "online";
  std::string text = arguments.json ? render_json(report, mode) : render_text(report, mode);
  std::fputs(text.c_str(), stdout);
  if (!report.clean()) return kFindings;
  return report.complete() ? kClean : kUnread;
}

int check_with(CellSource& source, std::uint64_t memory, const EnsembleConfig& config,
               const Arguments& arguments, rpc::EpollLoop& loop, const LocalSource* local) {
  routing::TableHolder tables(
      routing::RoutingTables::make(config, routing::RoutingTables::initial(config)).value());
  Placement placement(config, tables);
  Options options = options_for(memory);
  options.limit = arguments.limit;
  auto report = run(loop, check(source, placement, loop, options));
  if (!report && local == nullptr) {
    return say(
        {report.error().code, report.error().message + " (--offline is for servers that are stopped)"});
  }
  if (!report) return say(report.error());
  if (local != nullptr) {
    report->totals.disk_bytes = local->disk_bytes();
    for (const Finding& conflict : local->conflicts()) report->add(conflict);
  }
  return show(*report, arguments);
}

int offline(std::uint64_t memory, const EnsembleConfig& config, const Arguments& arguments) {
  rpc::EpollLoop loop;
  auto source = LocalSource::open(config, arguments.folders);
  if (!source) return say(source.error());
  return check_with(**source, memory, config, arguments, loop, source->get());
}

int online(std::uint64_t memory, const EnsembleConfig& config, const Arguments& arguments) {
  rpc::EpollLoop loop;
  rpc::KeyRing keys(config);
  if (Status tls = keys.use_tls(config.network.tls.of("slicectl")); !tls) return say(tls.error());
  rpc::SocketChannel channel(loop, {.keys = &keys, .sender = kSender, .generation = nullptr});
  RemoteSource source(
      {.loop = loop,
       .channel = channel,
       .config = config,
       .timeout = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.timeout))});
  if (auto taken = run(loop, source.take_tables()); !taken) {
    std::fprintf(stderr, "slice-fsck: %s: using the configuration's tables\n", taken.error().message.c_str());
  }
  return check_with(source, memory, config, arguments, loop, nullptr);
}

// An exit code where the process is to end already.
std::optional<int> parse_arguments(int argc, char** argv, Arguments& arguments) {
  CLI::App app(
      "slice-fsck: reads every directory site and proves that the name space is whole; changes nothing");
  app.set_version_flag("--version", kVersion);
  app.add_option("--config", arguments.config, "the ensemble's configuration")
      ->take_last()  // slicectl gives its own first
      ->capture_default_str();
  app.add_flag(
      "--offline", arguments.offline,
      "read the stores of directory servers that are stopped, whose data directories are on this host, "
      "instead of asking servers that run");
  app.add_flag("--json", arguments.json, "JSON instead of text");
  app.add_option("--memory", arguments.memory, "about what it may take; less makes more passes")
      ->capture_default_str();
  app.add_option("--limit", arguments.limit, "findings to list; all are counted")->capture_default_str();
  app.add_option("--timeout", arguments.timeout, "seconds to wait for each answer of a server")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  app.add_option("--data", arguments.data,
                 "NAME=FOLDER: where the data directory of a directory server is, or "
                 "a copy of it; may be given several times")
      ->take_all();
  app.footer("Exit codes: 0 clean; 1 findings; 2 not everything could be read, or wrong usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kClean : kUnread;
  }
  for (const std::string& each : arguments.data) {
    std::size_t equals = each.find('=');
    if (equals == std::string::npos) {
      return say({Errc::kInvalid, fmt::format("--data {}: NAME=FOLDER is expected", each)});
    }
    arguments.folders[each.substr(0, equals)] = each.substr(equals + 1);
  }
  if (!arguments.offline && !arguments.folders.empty()) {
    return say({Errc::kInvalid, "--data is for stores that are read: give --offline, too"});
  }
  return std::nullopt;
}

int main(int argc, char** argv) {
  Arguments arguments;
  if (auto code = parse_arguments(argc, argv, arguments)) return *code;
  configure_log("slice-fsck", LogLevel::kWarning);
  auto config = load_ensemble(arguments.config);
  if (!config) return say(config.error());
  auto memory = parse_size(arguments.memory);
  if (!memory) return say(memory.error());
  return arguments.offline ? offline(*memory, *config, arguments) : online(*memory, *config, arguments);
}

}  // namespace
}  // namespace slice::dirserver::fsck

int main(int argc, char** argv) {
  return slice::dirserver::fsck::main(argc, argv);
}
