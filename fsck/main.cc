// slice-fsck: proves that a volume's name space is whole, and that its bytes are where they should be
// (docs/operations.md). `slicectl fsck` runs it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "cli/command_line.h"
#include "common/log.h"
#include "dirserver/fsck/checker.h"
#include "dirserver/fsck/local_source.h"
#include "fsck/data_check.h"
#include "fsck/ensemble.h"
#include "fsck/offline.h"
#include "fsck/online.h"
#include "fsck/only_copies.h"
#include "fsck/paths.h"
#include "fsck/progress.h"
#include "service/managers.h"
#include "service/membership.h"
#include "wire/manager.h"

namespace slice::fsck {
namespace {

using dirserver::Placement;
using dirserver::fsck::CellSource;
using dirserver::fsck::Finding;
using dirserver::fsck::LocalSource;
using dirserver::fsck::Options;
using dirserver::fsck::RemoteSource;
using dirserver::fsck::Report;

constexpr int kClean = 0, kFindings = 1, kUnread = 2;

struct Arguments {
  std::string config = "/etc/slice/ensemble.toml";
  bool offline = false, json = false, data = false;
  std::string only_on;
  std::vector<std::string> paths_of;  // fileIDs
  std::string memory = "1GiB";
  double timeout = 30;
  std::uint64_t limit = Options{}.limit;
  std::vector<std::string> given_folders;
  std::map<std::string, std::string> folders;  // of these
};

int say(const Error& error) {
  std::fprintf(stderr, "slice-fsck: %s\n", error.message.c_str());
  return kUnread;
}

int show(const Report& report, const Arguments& arguments) {
  std::string_view mode = arguments.offline ? "offline" : "online";
  std::string text = arguments.json ? dirserver::fsck::render_json(report, mode)
                                    : dirserver::fsck::render_text(report, mode);
  std::fputs(text.c_str(), stdout);
  if (!report.clean()) return kFindings;
  return report.complete() ? kClean : kUnread;
}

Options options_of(const Arguments& arguments, std::uint64_t memory) {
  Options options = dirserver::fsck::options_for(memory);
  options.limit = arguments.limit;
  return options;
}

// The end of task(cells, placement), which reads names; its progress is shown. The name space's policy counts
// for a placement, and not who has which site.
template <class MakeTask>
auto read_names(CellSource& source, const EnsembleConfig& config, rpc::EpollLoop& loop, MakeTask task) {
  routing::TableHolder tables(
      routing::RoutingTables::make(config, routing::RoutingTables::initial(config)).value());
  const Placement placement(config, tables);
  Progress shown(source);
  return rpc::run_to_end(loop, task(shown, placement));
}

Result<Report> check_names(CellSource& source, const EnsembleConfig& config, const Options& options,
                           rpc::EpollLoop& loop) {
  return read_names(source, config, loop, [&](CellSource& cells, const Placement& placement) {
    return dirserver::fsck::check(cells, placement, loop, options);
  });
}

int offline(std::uint64_t memory, EnsembleConfig file, const Arguments& arguments) {
  std::vector<std::string> names;
  for (const ServerConfig& server : file.servers) names.push_back(server.name);
  auto known = service::learn_members(std::move(file), names);  // by the tables that servers have kept
  if (!known) return say(known.error());
  const EnsembleConfig& config = *known;
  rpc::EpollLoop loop;
  const Options options = options_of(arguments, memory);
  auto source = LocalSource::open(config, arguments.folders);
  if (!source) return say(source.error());
  auto report = check_names(**source, config, options, loop);
  if (!report) return say(report.error());
  report->totals.disk_bytes = (*source)->disk_bytes();
  for (const Finding& conflict : (*source)->conflicts()) report->add(conflict);
  if (!arguments.data) return show(*report, arguments);
  OfflineData data(loop, config, arguments.folders);
  if (Status opened = rpc::run_to_end(loop, data.open()); !opened) return say(opened.error());
  for (const std::string& name : data.absent())
    std::fprintf(stderr, "slice-fsck: there is no data directory of %s here, which has block maps\n",
                 name.c_str());
  const DataSeams seams{.cells = **source,
                        .servers = data.servers(),
                        .tables = data.tables(),
                        .config = config,
                        .loop = loop,
                        .moves = &data.moves(),
                        .map_piece = [&data](routing::FileHandle handle,
                                             std::uint64_t stripe) { return data.map_piece(handle, stripe); },
                        .under_way = [&data](FileId file) { return data.under_way(file); }};
  if (Status checked = rpc::run_to_end(loop, check_data(seams, options, *report)); !checked)
    return say(checked.error());
  return show(*report, arguments);
}

Result<std::vector<FilePaths>> paths_of(CellSource& source, const EnsembleConfig& config,
                                        std::vector<FileId> files, rpc::EpollLoop& loop) {
  return read_names(source, config, loop, [&](CellSource& cells, const Placement& placement) {
    return find_paths(cells, placement, std::move(files));
  });
}

Result<OnlyCopies> only_copies(RemoteSource& source, OnlineData data, rpc::EpollLoop& loop,
                               const EnsembleConfig& config, const Arguments& arguments) {
  // Moves and tables as they are together.
  SLICE_RETURN_IF_ERROR(rpc::run_to_end(loop, data.refresh()));
  const wire::ServerEntry* server = wire::find_member(source.tables()->wire(), arguments.only_on);
  if (server == nullptr || server->role != wire::Role::kStorage)
    return fail(Errc::kNotFound, "no storage server has the name '{}'", arguments.only_on);
  const auto map_piece = [&data](routing::FileHandle handle, std::uint64_t stripe) {
    return data.map_piece(handle, stripe);
  };
  auto found =
      rpc::run_to_end(loop, find_only_copies({source, *data.tables(), config.volume, data.moves(), map_piece},
                                             server->server, arguments.limit));
  if (!found) return found;
  std::vector<FileId> files;
  for (const OnlyCopies::File& each : found->files) files.push_back(each.file);
  auto paths = paths_of(source, config, std::move(files), loop);
  if (!paths) return fail(std::move(paths).error());
  for (std::size_t i = 0; i < paths->size(); ++i) found->files[i].paths = std::move((*paths)[i].paths);
  return found;
}

// slicectl path.
int show_paths(RemoteSource& source, const EnsembleConfig& config, rpc::EpollLoop& loop,
               const Arguments& arguments) {
  std::vector<FileId> files;
  for (const std::string& each : arguments.paths_of) {
    auto file = parse_fileid(each);
    if (!file) return say(file.error());
    files.push_back(*file);
  }
  auto found = paths_of(source, config, std::move(files), loop);
  if (!found) return say(found.error());
  std::fputs(render(*found, arguments.json).c_str(), stdout);
  const bool all =
      std::all_of(found->begin(), found->end(), [](const FilePaths& each) { return !each.paths.empty(); });
  return all ? kClean : kFindings;
}

// Who reads names of a server that is silent waits for it: then the operator is told at once for whom.
void tell_whom_it_waits_for(rpc::EpollLoop& loop, rpc::Channel& channel, const EnsembleConfig& config,
                            const Arguments& arguments) {
  service::Managers managers(config);
  auto members = rpc::run_to_end(
      loop, managers.call<wire::MembersResult>(channel, wire::ManagerProcedure::kMembers,
                                               service::NoArguments{}, std::chrono::seconds(1)));
  if (!members) return;  // of which taking its tables tells
  for (const wire::Member& each : members->members) {
    const bool asked = each.entry.role == wire::Role::kDirectory ||
                       (arguments.data && static_cast<std::size_t>(each.entry.role) < wire::kSiteClasses);
    const bool heard = each.alive && each.age_ms < wire::kMissedHeartbeatMs;
    if (heard || !asked || each.entry.name == arguments.only_on) continue;
    std::fprintf(
        stderr,
        "slice-fsck: the manager does not hear %s: waiting up to %g s for it (--timeout), or look at "
        "slicectl status\n",
        each.entry.name.c_str(), arguments.timeout);
  }
}

int online(std::uint64_t memory, EnsembleConfig file, const Arguments& arguments) {
  const TlsConfig tls = file.network.tls.of("slicectl");
  auto known = service::learn_members(std::move(file), tls);
  if (!known) return say(known.error());
  const EnsembleConfig& config = *known;
  const auto timeout = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.timeout));
  Ensemble ensemble(config, timeout);
  if (Status used = ensemble.use_tls(tls); !used) return say(used.error());
  rpc::EpollLoop& loop = ensemble.loop();
  rpc::Channel& channel = ensemble.channel();
  tell_whom_it_waits_for(loop, channel, config, arguments);
  const Options options = options_of(arguments, memory);
  RemoteSource& source = ensemble.cells();
  if (auto taken = rpc::run_to_end(loop, source.take_tables()); !taken) {
    if (arguments.data || !arguments.only_on.empty())
      return say(taken.error());  // what is where by the configuration proves nothing
    std::fprintf(stderr, "slice-fsck: %s: using the configuration's tables\n", taken.error().message.c_str());
  }
  if (!arguments.paths_of.empty()) return show_paths(source, config, loop, arguments);
  if (!arguments.only_on.empty()) {
    auto found =
        only_copies(source, OnlineData(channel, config, source.tables(), timeout), loop, config, arguments);
    if (!found) return say(found.error());
    std::fputs(render(*found, arguments.only_on, arguments.json).c_str(), stdout);
    return found->found == 0 ? kClean : kFindings;
  }
  auto report = check_names(source, config, options, loop);
  if (!report) {
    return say(
        {report.error().code, report.error().message + " (--offline is for servers that are stopped)"});
  }
  if (!arguments.data) return show(*report, arguments);
  // By the tables that the names were found by at last.
  OnlineData data(channel, config, source.tables(), timeout);
  for (const std::string& name : rpc::run_to_end(loop, data.find_servers())) {
    std::fprintf(stderr, "slice-fsck: %s does not answer; it holds no sites\n", name.c_str());
  }
  const DataSeams seams{
      .cells = source,
      .servers = data.servers(),
      .tables = data.tables(),
      .config = config,
      .loop = loop,
      .moves = &data.moves(),
      .refresh = [&data] { return data.refresh(); },
      .map_piece = [&data](routing::FileHandle handle,
                           std::uint64_t stripe) { return data.map_piece(handle, stripe); }};
  if (Status checked = rpc::run_to_end(loop, check_data(seams, options, *report)); !checked)
    return say(checked.error());
  return show(*report, arguments);
}

// An exit code where the process is to end already.
std::optional<int> parse_arguments(int argc, char** argv, Arguments& arguments) {
  cli::Program app(
      "slice-fsck: reads every directory site and proves that the name space is whole, with --data also that "
      "the bytes are; changes nothing");
  app.add_option("--config", arguments.config, "the ensemble's configuration")
      .take_last()  // slicectl gives its own first
      .capture_default();
  app.add_flag(
      "--offline", arguments.offline,
      "read the stores of directory servers that are stopped, whose data directories are on this host, "
      "instead of asking servers that run");
  app.add_flag("--json", arguments.json, "JSON instead of text");
  app.add_option("--memory", arguments.memory, "about what it may take; less makes more passes")
      .capture_default();
  app.add_option("--limit", arguments.limit, "findings to list; all are counted").capture_default();
  app.add_option("--timeout", arguments.timeout, "seconds to wait for each answer of a server")
      .take_last()
      .in_range(0.1, 600.0)
      .capture_default();
  app.add_flag("--data", arguments.data,
               "also whether the bytes of files are on data servers, those of no file are not, and each is "
               "where the tables have its site (with --offline: the servers' own records)");
  app.add_option("--only-on", arguments.only_on,
                 "a storage server, which may be away: only which files have bytes there and nowhere else");
  app.add_option("--path", arguments.paths_of,
                 "fileIDs: only under which paths these files are (slicectl path)");
  app.add_option(
         "--folder", arguments.given_folders,
         "NAME=FOLDER: where the data directory of a server is, or a copy of it; may be given several "
         "times")
      .take_all();
  app.footer("Exit codes: 0 clean; 1 findings; 2 not everything could be read, or wrong usage.");
  if (const auto code = app.parse(argc, argv)) return code;
  for (const std::string& each : arguments.given_folders) {
    std::size_t equals = each.find('=');
    if (equals == std::string::npos) {
      return say({Errc::kInvalid, fmt::format("--folder {}: NAME=FOLDER is expected", each)});
    }
    arguments.folders[each.substr(0, equals)] = each.substr(equals + 1);
  }
  if (!arguments.only_on.empty() && (arguments.offline || arguments.data)) {
    return say({Errc::kInvalid, "--only-on goes with neither --offline nor --data"});
  }
  if (!arguments.paths_of.empty() && (arguments.offline || arguments.data || !arguments.only_on.empty())) {
    return say({Errc::kInvalid, "--path goes with none of --offline, --data and --only-on"});
  }
  if (!arguments.offline && !arguments.folders.empty()) {
    return say({Errc::kInvalid, "--folder is for stores that are read: give --offline, too"});
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
  return arguments.offline ? offline(*memory, std::move(*config), arguments)
                           : online(*memory, std::move(*config), arguments);
}

}  // namespace
}  // namespace slice::fsck

int main(int argc, char** argv) {
  return slice::fsck::main(argc, argv);
}
