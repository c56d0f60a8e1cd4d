// slice-backup: takes a backup of an ensemble that serves, and brings a server back from one
// (docs/operations.md). `slicectl backup` runs it.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "backup/format.h"
#include "backup/restore.h"
#include "backup/take.h"
#include "cli/command_line.h"
#include "common/log.h"
#include "fsck/ensemble.h"
#include "fsck/online.h"
#include "service/data_directory.h"
#include "service/managers.h"
#include "service/membership.h"
#include "storage/posix_disk.h"
#include "wire/manager.h"

namespace slice::backup {
namespace {

using fsck::Ensemble;
using Json = nlohmann::ordered_json;

constexpr int kGood = 0, kFailed = 1, kBadUsage = 2, kNotAsItWas = 3;
constexpr std::size_t kNotesShown = 20;

struct Arguments {
  std::string config = "/etc/slice/ensemble.toml";
  std::string folder, server, data;
  double timeout = 30;
  bool all_notes = false, json = false;

  Duration patience() const {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout));
  }
};

// Text for people, a line at a time, or one JSON object at the end.
void line(const Arguments& arguments, const std::string& text) {
  if (!arguments.json) std::printf("%s\n", text.c_str());
}
void print(const Arguments& arguments, const Json& all) {
  if (arguments.json) std::printf("%s\n", all.dump(2).c_str());
}

int say(const Error& error, int code = kFailed) {
  std::fprintf(stderr, "slice-backup: %s\n", error.message.c_str());
  return code;
}

// ---- taking ----

// Gives a folder another name beside it, durably.
Status rename_folder(Ensemble& ensemble, const std::filesystem::path& from, const std::filesystem::path& to) {
  auto parent = storage::PosixDisk::open(ensemble.loop(), std::filesystem::absolute(to).parent_path());
  if (!parent) return fail(std::move(parent).error());
  storage::Disk& disk = **parent;
  SLICE_RETURN_IF_ERROR(ensemble.run(disk.sync_folder(from.filename())));
  SLICE_RETURN_IF_ERROR(ensemble.run(disk.rename(from.filename(), to.filename())));
  return ensemble.run(disk.sync_folder(""));
}

// Into the folder `part`, which is given its name when all is there.
Result<Taken> take_into(const std::string& part, const EnsembleConfig& config, const TlsConfig& tls,
                        const Arguments& arguments) {
  Ensemble ensemble(config, arguments.patience());
  SLICE_RETURN_IF_ERROR(ensemble.use_tls(tls));
  SLICE_RETURN_IF_ERROR(ensemble.run(ensemble.cells().take_tables()));
  auto taken = ensemble.run(take_backup({.loop = ensemble.loop(),
                                         .channel = ensemble.channel(),
                                         .config = config,
                                         .tables = ensemble.cells().tables(),
                                         .folder = part,
                                         .timeout = arguments.patience(),
                                         .say = [&](const std::string& what) { line(arguments, what); }}));
  if (!taken) return fail(std::move(taken).error());
  SLICE_RETURN_IF_ERROR(rename_folder(ensemble, part, arguments.folder));
  return taken;
}

int take(const EnsembleConfig& config, const TlsConfig& tls, const Arguments& arguments) {
  std::error_code error;
  const std::string &folder = arguments.folder, part = folder + ".part";
  if (std::filesystem::exists(folder, error))
    return say({Errc::kExists, fmt::format("{} is there already", folder)}, kBadUsage);
  if (!std::filesystem::create_directory(part, error))
    return say({Errc::kIo, error
                               ? fmt::format("{}: {}", part, error.message())
                               : fmt::format("{} is there: another one is being taken, or was not finished; "
                                             "remove it",
                                             part)});
  auto taken = take_into(part, config, tls, arguments);
  if (!taken) {
    std::filesystem::remove_all(part, error);
    return say(taken.error());
  }
  const double waited = std::chrono::duration<double, std::milli>(taken->held).count();
  line(arguments, fmt::format("{}: {} cells, {} small files; clients waited {:.1f} ms", folder, taken->cells,
                              taken->files, waited));
  print(arguments, {{"folder", folder},
                    {"cells", taken->cells},
                    {"small_files", taken->files},
                    {"clients_waited_ms", waited}});
  return kGood;
}

// ---- looking ----

// False: it is damaged.
bool show_file(const Arguments& arguments, Reader& file, Json& all) {
  std::uint64_t records = 0;
  auto record = file.next();
  for (; record && *record; record = file.next()) ++records;
  const Header& header = file.header();
  const std::string_view role = wire::role_name(header.role);
  line(arguments, fmt::format("{}: {} server, {} sites, {} records{}", header.server, role,
                              header.sites.size(), records, record ? "" : ", DAMAGED"));
  all.push_back({{"server", header.server},
                 {"role", role},
                 {"taken_ns", header.taken.ns},
                 {"sites", header.sites.size()},
                 {"records", records},
                 {"damaged", !record}});
  if (!record) say(record.error());
  return record.has_value();
}

int show(const Arguments& arguments) {
  int code = kGood;
  Json all = Json::array();
  for (wire::Role role : {wire::Role::kDirectory, wire::Role::kSmallFile, wire::Role::kManager}) {
    auto files = open_all(arguments.folder, role);
    if (!files && files.error().code == Errc::kNotFound) continue;
    if (!files) return say(files.error());
    for (const auto& file : *files) {
      if (!show_file(arguments, *file, all)) code = kFailed;
    }
  }
  if (all.empty()) return say({Errc::kNotFound, fmt::format("{} is no backup", arguments.folder)});
  print(arguments, {{"files", std::move(all)}});
  return code;
}

// ---- bringing back ----

Task<bool> pause(Loop& loop, Duration duration) {
  co_await loop.sleep(duration);
  co_return true;
}

constexpr Duration kAskedAgain = std::chrono::milliseconds(500);
constexpr Duration kNoticed = std::chrono::seconds(8);         // that a server is away, by the manager
constexpr Duration kHeartbeatsCome = std::chrono::seconds(3);  // of one that runs, by then

// Waits until the manager has noticed that the server is away. kInvalid: it hears it.
Status check_away(Ensemble& ensemble, const EnsembleConfig& config, const std::string& name,
                  Duration timeout) {
  service::Managers managers(config);
  for (Duration waited{}; waited < kNoticed; waited += kAskedAgain) {
    auto members = ensemble.run(managers.call<wire::MembersResult>(
        ensemble.channel(), wire::ManagerProcedure::kMembers, service::NoArguments{}, timeout));
    if (!members) return fail(members.error(), "the manager");
    const auto found = std::find_if(members->members.begin(), members->members.end(),
                                    [&](const wire::Member& each) { return each.entry.name == name; });
    if (found == members->members.end() || !found->alive) return {};
    if (waited >= kHeartbeatsCome && found->age_ms < wire::kMissedHeartbeatMs) break;
    if (waited == Duration{})
      std::fprintf(stderr, "slice-backup: %s was heard of a moment ago\n", name.c_str());
    ensemble.run(pause(ensemble.loop(), kAskedAgain));
  }
  return fail(Errc::kInvalid, "{} runs: stop it first", name);
}

// kUnavailable: sites move from it or to it.
Status check_still(const fsck::OnlineData& data, std::uint32_t server) {
  for (const wire::SiteMove& move : data.moves()) {
    if (move.from == server || move.to == server)
      return fail(Errc::kUnavailable, "sites of it move (slicectl moves): wait, or abort move {}",
                  move.id.value);
  }
  return {};
}

// kInvalid: it has none, as a server that was added in place of the lost one. What the lost one had is still
// that one's, and would be missing.
Status check_has_sites(const fsck::OnlineData& data, const ServerConfig& self) {
  if (!wire::sites_of(data.tables()->wire(), self.name).empty()) return {};
  return fail(
      Errc::kInvalid,
      "{} has no sites, so nothing of a backup is for it: start it as it is. The server that was lost "
      "goes by its own name on another host, too: slicectl server set NAME --address ADDRESS, and "
      "then restore NAME there",
      self.name);
}

// Of a server that is no manager: its ensemble goes on without it, and what it is to have does not change.
Status check_ready(Ensemble& ensemble, fsck::OnlineData& data, const TlsConfig& tls,
                   const EnsembleConfig& config, const ServerConfig& self, Duration timeout) {
  SLICE_RETURN_IF_ERROR(ensemble.use_tls(tls));
  SLICE_RETURN_IF_ERROR(ensemble.run(ensemble.cells().take_tables()));
  SLICE_RETURN_IF_ERROR(check_away(ensemble, config, self.name, timeout));
  SLICE_RETURN_IF_ERROR(ensemble.run(data.refresh()));
  SLICE_RETURN_IF_ERROR(check_has_sites(data, self));
  return check_still(data, self.index);
}

class Notes {
 public:
  explicit Notes(const Arguments& arguments) : arguments_(arguments) {}
  void add(const Note& note) {
    ++count_;
    if (arguments_.json) all_.push_back({{"file", note.file.value}, {"what", note.what}});
    if (arguments_.all_notes || count_ <= kNotesShown)
      line(arguments_, fmt::format("file {:#x} {}", note.file.value, note.what));
  }
  bool any() const { return count_ > 0; }
  Json end() {
    if (!arguments_.all_notes && count_ > kNotesShown)
      line(arguments_, fmt::format("... and {} more (--all)", count_ - kNotesShown));
    return std::move(all_);
  }

 private:
  const Arguments& arguments_;
  Json all_ = Json::array();
  std::uint64_t count_ = 0;
};

// What came of it; an error: nothing did.
Result<Json> restore_directory(Ensemble& ensemble, fsck::OnlineData& data, const RestoreSeams& seams,
                               const Arguments& arguments) {
  for (const std::string& silent : ensemble.run(data.find_servers()))
    std::fprintf(stderr, "slice-backup: %s does not answer; it holds no sites\n", silent.c_str());
  auto restored = ensemble.run(restore_names(seams, data.servers()));
  if (!restored) return fail(std::move(restored).error());
  line(arguments,
       fmt::format("{}: {} cells; of the files since then {} were written, {} cut, {} removed",
                   seams.self.name, restored->cells, restored->grown, restored->cut, restored->gone));
  return Json{{"server", seams.self.name},
              {"cells", restored->cells},
              {"written_since", restored->grown},
              {"cut_since", restored->cut},
              {"removed_since", restored->gone}};
}

Result<Json> restore_small_files(Ensemble& ensemble, const RestoreSeams& seams, const Arguments& arguments) {
  auto then = open_all(arguments.folder, wire::Role::kDirectory);
  if (!then) return fail(std::move(then).error());
  auto restored = ensemble.run(restore_files(seams, ensemble.cells(), *then));
  if (!restored) return fail(std::move(restored).error());
  line(arguments,
       fmt::format("{}: {} files; bytes of {} are lost, of {} older than they were; {} were removed "
                   "since",
                   seams.self.name, restored->files, restored->lost, restored->older, restored->unused));
  return Json{{"server", seams.self.name},
              {"files", restored->files},
              {"lost", restored->lost},
              {"older", restored->older},
              {"removed_since", restored->unused}};
}

Result<Json> restore_manager(Ensemble& ensemble, const RestoreSeams& seams, const Arguments& arguments) {
  auto restored = ensemble.run(restore_state(seams));
  if (!restored) return fail(std::move(restored).error());
  line(arguments, fmt::format("{}: {} files of its state", seams.self.name, *restored));
  return Json{{"server", seams.self.name}, {"state_files", *restored}};
}

int restore(const EnsembleConfig& config, const TlsConfig& tls, const Arguments& arguments) {
  const ServerConfig* found = config.find(arguments.server);
  if (found == nullptr)
    return say({Errc::kNotFound, fmt::format("no server has the name '{}'", arguments.server)}, kBadUsage);
  ServerConfig self = *found;
  if (!arguments.data.empty()) self.data = arguments.data;
  const bool is_manager = self.role == ServerRole::kManager;
  if (!is_manager && self.role != ServerRole::kDirectory && self.role != ServerRole::kSmallFile) {
    return say({Errc::kInvalid,
                fmt::format("'{}' is a {} server: backups are of directory servers, small-file servers and "
                            "the manager",
                            self.name, role_name(self.role))},
               kBadUsage);
  }
  auto files = open_all(arguments.folder, static_cast<wire::Role>(self.role));
  if (!files) return say(files.error());
  Ensemble ensemble(config, arguments.patience());
  fsck::OnlineData data(ensemble.channel(), config, ensemble.cells().tables(), arguments.patience());
  if (!is_manager) {
    Status ready = check_ready(ensemble, data, tls, config, self, arguments.patience());
    if (!ready) return say(ready.error());
  }
  auto claim = service::DataDirectory::claim(self, config.volume.id);
  if (!claim) return say(claim.error());
  if (claim->served())
    return say({Errc::kExists, fmt::format("{} holds data of {}: move it away first", self.data, self.name)});
  if (Status begun = claim->begin_filling(); !begun) return say(begun.error());
  auto disk = storage::PosixDisk::open(ensemble.loop(), self.data);
  if (!disk) return say(disk.error());
  Notes notes(arguments);
  const RestoreSeams seams{.loop = ensemble.loop(),
                           .disk = **disk,
                           .self = self,
                           .config = config,
                           .tables = data.tables(),
                           .files = *files,
                           .note = [&notes](const Note& note) { notes.add(note); }};
  auto restored = is_manager                            ? restore_manager(ensemble, seams, arguments)
                  : self.role == ServerRole::kDirectory ? restore_directory(ensemble, data, seams, arguments)
                                                        : restore_small_files(ensemble, seams, arguments);
  if (!restored) return say(restored.error());
  if (Status whole = claim->end_filling(); !whole) return say(whole.error());
  (*restored)["notes"] = notes.end();
  print(arguments, *restored);
  return notes.any() ? kNotAsItWas : kGood;
}

int main(int argc, char** argv) {
  Arguments arguments;
  cli::Program app(
      "slice-backup: takes a backup of an ensemble that serves, and brings a server back from one");
  app.require_subcommand();
  app.fallthrough();
  app.add_option("--config", arguments.config, "the ensemble's configuration")
      .take_last()  // slicectl gives its own first
      .capture_default();
  app.add_option("--timeout", arguments.timeout, "seconds to wait for each answer of a server")
      .take_last()
      .in_range(0.1, 600.0)
      .capture_default();
  app.add_flag("--json", arguments.json, "JSON instead of text");
  const auto take_command = app.add_subcommand(
      "take", "what directory servers, small-file servers and the manager have, into files of a new folder");
  take_command.add_option("folder", arguments.folder, "is made, and gets its name when all is there")
      .required();
  const auto show_command = app.add_subcommand("show", "what a backup has; reads all of it");
  show_command.add_option("folder", arguments.folder, "that `take` made").required();
  const auto restore_command = app.add_subcommand(
      "restore",
      "makes the data directory of a server whose disk was lost, on its host, before it is started");
  restore_command.add_option("server", arguments.server, "its name").required();
  restore_command.add_option("folder", arguments.folder, "that `take` made").required();
  restore_command.add_option("--data", arguments.data, "its data directory; default: as configured");
  restore_command.add_flag("--all", arguments.all_notes, "names every file that is not as it was");
  app.footer(
      "Exit codes: 0 done; 1 not done; 2 wrong usage or configuration; 3 restored, and files are not as they "
      "were (each is named).");
  if (const auto code = app.parse(argc, argv)) return *code;
  configure_log("slice-backup", LogLevel::kWarning);
  ::umask(S_IRWXG | S_IRWXO);  // names and bytes of everybody
  while (arguments.folder.size() > 1 && arguments.folder.back() == '/') arguments.folder.pop_back();
  if (show_command.parsed()) return show(arguments);
  auto file = load_ensemble(arguments.config);
  if (!file) return say(file.error(), kBadUsage);
  const TlsConfig tls = file->network.tls.of("slicectl");
  auto config = service::learn_members(std::move(*file), tls);
  if (!config) return say(config.error());
  return take_command.parsed() ? take(*config, tls, arguments) : restore(*config, tls, arguments);
}

}  // namespace
}  // namespace slice::backup

int main(int argc, char** argv) {
  return slice::backup::main(argc, argv);
}
