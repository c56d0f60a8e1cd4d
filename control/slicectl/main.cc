// slicectl: the operator's command (docs/operations.md).
#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/command_line.h"
#include "control/slicectl/backing_command.h"
#include "control/slicectl/doctor_command.h"
#include "control/slicectl/failover_command.h"
#include "control/slicectl/init_commands.h"
#include "control/slicectl/join_commands.h"
#include "control/slicectl/leave_commands.h"
#include "control/slicectl/move_commands.h"
#include "control/slicectl/proxy_commands.h"
#include "control/slicectl/quota_command.h"
#include "control/slicectl/render.h"
#include "control/slicectl/status_command.h"
#include "control/slicectl/top_commands.h"
#include "control/slicectl/trace_commands.h"
#include "control/slicectl/tree_command.h"
#include "control/slicectl/volume_command.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "service/membership.h"

namespace slice::slicectl {
namespace {

constexpr int kGood = 0, kFailed = 1, kBadUsage = 2, kPartial = 3, kRefused = 4;

struct Arguments {
  std::string config = "/etc/slice/ensemble.toml";
  bool json = false;
  double timeout = 5;
  bool timeout_given = false;
  std::string path, name, match;
  std::uint64_t stripe = 0;
  std::string to;
  bool every_site = false, check = false;
};

int say(const Error& error) {
  std::fprintf(stderr, "slicectl: %s\n", error.message.c_str());
  return kFailed;
}
int print(const std::string& text, int code = kGood) {
  std::fputs(text.c_str(), stdout);
  return code;
}

Duration seconds_of(double timeout) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout));
}

bool answered(const Part& part) {
  return part.stat.has_value();
}

class Command {
 public:
  Command(const Arguments& arguments, const EnsembleConfig& config)
      : arguments_(arguments),
        config_(config),
        keys_(config),
        channel_(loop_, {.keys = &keys_, .sender = service::kNobody, .generation = nullptr}),
        seams_{
            .loop = loop_, .channel = channel_, .config = config, .timeout = seconds_of(arguments.timeout)},
        format_(arguments.json ? Format::kJson : Format::kText) {}

  // Before any other.
  Status begin() { return keys_.use_tls(config_.network.tls.of("slicectl")); }
  int servers() {
    auto tables = run(ask_tables(seams_));
    if (!tables) return say(tables.error());
    return print(render_servers(config_, **tables, format_));
  }
  int tables() {
    auto tables = run(ask_tables(seams_));
    if (!tables) return say(tables.error());
    if (arguments_.check) return compare_tables((*tables)->wire());
    return print(render_tables(**tables, arguments_.every_site, format_));
  }
  int metrics() {
    auto processes = run(ask_metrics(seams_, arguments_.name));
    if (!processes) return say(processes.error());
    std::size_t silent = 0;
    for (const ProcessMetrics& process : *processes) {
      if (process.metrics) continue;
      ++silent;
      std::fprintf(stderr, "slicectl: %s: %s\n", process.name.c_str(),
                   process.metrics.error().message.c_str());
    }
    int code = silent == 0 ? kGood : silent == processes->size() ? kFailed : kPartial;
    return print(render_metrics(*processes, arguments_.match, format_), code);
  }
  int change_server(const wire::ChangeServerArgs& args) {
    auto changed = run(ask_change(seams_, args));
    if (!changed) return say(changed.error());
    return print(render_change(*changed, format_));
  }
  int reload() {
    auto reloaded = run(ask_reload(seams_));
    if (!reloaded) return say(reloaded.error());
    return print(render_reload(*reloaded, format_), reloaded->late.empty() ? kGood : kPartial);
  }
  int where() {
    auto tables = run(ask_tables(seams_));
    if (!tables) return say(tables.error());
    auto where = run(ask_where(seams_, *tables, arguments_.path));
    if (!where) return say(where.error());
    bool whole = std::all_of(where->storage.begin(), where->storage.end(), answered) &&
                 (!where->small_file || answered(*where->small_file)) && !where->map_error;
    return print(render_where(config_, *where, format_), whole ? kGood : kPartial);
  }
  int move() {
    auto tables = run(ask_tables(seams_));
    if (!tables) return say(tables.error());
    auto moved = run(ask_move(seams_, *tables, arguments_.path, arguments_.stripe, arguments_.to));
    if (!moved) return say(moved.error());
    return print(render_moved(arguments_.path, arguments_.stripe, arguments_.to, format_));
  }

  // The one of these that is asked for; nothing: none is.
  template <class... Commands>
  std::optional<int> carry_out_asked(Commands&... commands) {
    std::optional<int> code;
    ((code = !code && commands.parsed() ? carry_out(commands) : code), ...);
    return code;
  }

  template <class Commands>
  int carry_out(Commands& commands) {
    return run(commands.run(
        seams_,
        {.say = [](const Error& error) { return say(error); },
         .print = [](const std::string& text) { return print(text); },
         .report = [](const std::string& text) { std::fprintf(stderr, "slicectl: %s\n", text.c_str()); },
         .format = format_,
         .terminal = format_ == Format::kText && ::isatty(STDOUT_FILENO) == 1}));
  }

  int policy(const PolicyChange& change) {
    auto tables = run(ask_tables(seams_));
    if (!tables) return say(tables.error());
    auto answer = run(ask_policy(seams_, *tables, arguments_.path, change));
    if (!answer) return say(answer.error());
    if (answer->refused) {
      std::fprintf(stderr,
                   "slicectl: %s: new files would have fewer copies than until now; nothing is changed. Say "
                   "--force where that is wanted\n",
                   arguments_.path.c_str());
      return kRefused;
    }
    EnsembleConfig in_force = config_;
    if (auto settings = run(ask_settings(seams_))) {
      in_force.volume.copies = settings->copies;
      in_force.volume.placement = settings->placement;
    }
    return print(render_policy(in_force, arguments_.path, answer->policy, format_));
  }

 private:
  int compare_tables(const wire::Tables& tables) {
    auto members = run(ask_members(seams_));
    if (!members) return say(members.error());
    const std::vector<ComparedProcess> processes = compare(tables, *members);
    const Agreement all = overall(processes);
    return print(render_comparison(tables.generation, processes, format_), all == Agreement::kSame ? kGood
                                                                           : all == Agreement::kUnknown
                                                                               ? kPartial
                                                                               : kFailed);
  }
  template <class T>
  T run(Task<T> task) {
    return rpc::run_to_end(loop_, std::move(task));
  }

  const Arguments& arguments_;
  const EnsembleConfig& config_;
  rpc::EpollLoop loop_;
  rpc::KeyRing keys_;
  rpc::SocketChannel channel_;
  Seams seams_;
  Format format_;
};

// `policy show`, `set` and `unset`: what they are told, and the change that it means.
class PolicyCommands {
 public:
  PolicyCommands(const cli::Command& app, std::string& path)
      : group_(app.add_subcommand("policy", "how new files in a directory are laid out (docs/mirrors.md)")),
        show_(add("show", "shows it", path)),
        set_(add("set", "sets what is named, and leaves the rest as it is", path)),
        unset_(add("unset", "what is named, or all of it, becomes what a directory newly made there has",
                   path)) {
    group_.require_subcommand();
    set_.add_option("--stripe-unit", stripe_unit_, "bytes on one storage node, e.g. 1MiB");
    set_.add_option("--copies", policy_.copies, "on how many storage nodes each byte is")
        .in_range(1U, kMaxCopies);
    set_.add_option("--placement", placement_, "on which storage nodes (docs/block-maps.md)")
        .one_of({kPlacementNames.begin(), kPlacementNames.end()});
    for (const char* field : kFields) unset_.add_flag(field);
    for (const cli::Command& command : {set_, unset_}) {
      command.add_flag("--force", fewer_copies_, "also where new files have fewer copies then");
    }
  }
  bool parsed() const { return group_.parsed(); }

  // kInvalid: nothing is named, or a unit that there is not.
  Result<PolicyChange> change() const {
    PolicyChange change{
        .fields = 0, .policy = policy_, .inherit = unset_.parsed(), .fewer_copies = fewer_copies_};
    if (show_.parsed()) return change;
    const cli::Command& command = change.inherit ? unset_ : set_;
    for (std::uint32_t i = 0; i < kFields.size(); ++i) {
      if (command.count(kFields[i]) > 0) change.fields |= 1U << i;
    }
    if (change.inherit) {
      if (change.fields == 0) change.fields = wire::kPolicyAll;
      return change;
    }
    if (change.fields == 0) return fail(Errc::kInvalid, "policy set: nothing to set is named");
    if ((change.fields & wire::kPolicyStripeUnit) != 0) {
      auto shift = parse_stripe_unit(stripe_unit_);
      if (!shift) return fail(std::move(shift.error()));
      change.policy.stripe_shift = *shift;
    }
    if ((change.fields & wire::kPolicyPlacement) != 0) change.policy.placement = placement_of(placement_);
    return change;
  }

 private:
  // In the order of the bits of wire::PolicyField.
  static constexpr std::array<const char*, 3> kFields{"--stripe-unit", "--copies", "--placement"};

  cli::Command add(const char* name, const char* about, std::string& path) {
    cli::Command command = group_.add_subcommand(name, about);
    command.add_option("path", path, "absolute path of the directory").required();
    return command;
  }

  wire::FilePolicy policy_;
  std::string stripe_unit_, placement_;
  bool fewer_copies_ = false;
  cli::Command group_, show_, set_, unset_;
};

// `server add` and `server set`: what they are told.
class ServerCommands {
 public:
  explicit ServerCommands(const cli::Command& app)
      : group_(app.add_subcommand("server", "changes the servers of the ensemble, while all serve")),
        add_(add("add",
                 "one more; its process is started with --name NAME, and takes the rest from the manager")),
        set_(
            add("set", "what is named of one; a process that is to be at another address is started there")) {
    group_.require_subcommand();
    add_.add_option("--role", role_, "directory, small-file, storage, coordinator or proxy").required();
    for (const bool is_new : {true, false}) {
      const cli::Command& command = is_new ? add_ : set_;
      const auto address = command.add_option("--address", address_, "where it listens");
      const auto port = command.add_option("--port", port_, "at which port").capture_default();
      if (is_new) address.required();
      port.needs(address);
      command.add_option(
          "--weight", weight_,
          "its share of sites beside others' weights or disks, a number or a size as 4TiB; disk: "
          "by its disk");
      command.add_option("--host", host_, "the host that it is on: copies of a byte go to distinct ones");
      command.add_option("--rack", rack_, "the rack, or what else fails as a whole");
    }
  }
  bool parsed() const { return add_.parsed() || set_.parsed(); }
  const cli::Command& group() { return group_; }

  // kInvalid: a role, an address or a weight that is none, or nothing to set.
  Result<wire::ChangeServerArgs> change() const {
    using Field = wire::ChangeServerArgs::Field;
    wire::ChangeServerArgs args{.entry = {.name = name_, .host = host_, .rack = rack_}, .fields = 0};
    const cli::Command& command = add_.parsed() ? add_ : set_;
    args.change = add_.parsed() ? wire::ServerChange::kAdd : wire::ServerChange::kSet;
    for (const auto& [option, field] : {std::pair{"--address", Field::kEndpoint},
                                        {"--weight", Field::kWeight},
                                        {"--host", Field::kHost},
                                        {"--rack", Field::kRack}}) {
      if (command.count(option) > 0) args.fields |= field;
    }
    if (args.fields == 0) return fail(Errc::kInvalid, "server set: nothing to set is named");
    if ((args.fields & Field::kEndpoint) != 0) {
      in_addr address{};
      if (::inet_pton(AF_INET, address_.c_str(), &address) != 1)
        return fail(Errc::kInvalid, "'{}' is no IPv4 address", address_);
      args.entry.endpoint = {ntohl(address.s_addr), port_};
    }
    if ((args.fields & Field::kWeight) != 0 && weight_ != "disk") {
      auto weight = parse_size(weight_);
      if (!weight) return fail(std::move(weight).error());
      if (*weight == 0) return fail(Errc::kInvalid, "a weight of 0: see slicectl server drain");
      args.entry.weight = *weight;
    }
    if (add_.parsed()) SLICE_RETURN_IF_ERROR(take_role(args.entry));
    return args;
  }

 private:
  cli::Command add(const char* name, const char* about) {
    cli::Command command = group_.add_subcommand(name, about);
    command.add_option("name", name_, "which").required();
    return command;
  }
  Status take_role(wire::ServerEntry& entry) const {
    for (std::uint32_t role = 0; role <= static_cast<std::uint32_t>(wire::Role::kProxy); ++role) {
      entry.role = static_cast<wire::Role>(role);
      if (wire::role_name(entry.role) == role_) return {};
    }
    return fail(Errc::kInvalid, "'{}' is no role", role_);
  }

  std::string name_, role_, address_, weight_, host_, rack_;
  std::uint16_t port_ = 2049;
  cli::Command group_, add_, set_;
};

int check(const Arguments& arguments) {
  auto config = load_ensemble(arguments.path.empty() ? arguments.config : arguments.path);
  if (!config) {
    say(config.error());
    return kBadUsage;
  }
  return print(render_check(*config, arguments.json ? Format::kJson : Format::kText));
}

int init_ensemble(const InitCommands& init, const Arguments& arguments) {
  auto told = init.run(arguments.json ? Format::kJson : Format::kText);
  if (told) return print(*told);
  const bool usage = told.error().code == Errc::kInvalid;
  say(told.error());
  return usage ? kBadUsage : kFailed;
}

int join_ensemble(const JoinCommands& join, const Arguments& arguments) {
  auto joined = join.run(arguments.config, seconds_of(arguments.timeout), [](const std::string& text) {
    print(text);
    std::fflush(stdout);
  });
  if (joined) return kGood;
  const bool usage = joined.error().code == Errc::kInvalid;
  say(joined.error());
  return usage ? kBadUsage : kFailed;
}

constexpr const char *kFsck = "slice-fsck", *kBackup = "slice-backup";

std::filesystem::path own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

// Becomes the program that the first word names; its exit codes are its own.
int become(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  std::fprintf(stderr, "slicectl: %s: %s\n", pointers.front(), std::strerror(errno));
  return kBadUsage;
}

// Programs that lie beside this one: control/ knows no server's cells.
int become_beside(const std::string& program, const Arguments& arguments,
                  const std::vector<std::string>& given) {
  std::vector<std::string> words{own_path().replace_filename(program).string(), "--config", arguments.config};
  if (arguments.json) words.emplace_back("--json");
  if (arguments.timeout_given) words.insert(words.end(), {"--timeout", fmt::format("{}", arguments.timeout)});
  words.insert(words.end(), given.begin(), given.end());
  return become(std::move(words));
}

// The commands that are such programs.
class ProgramsBeside {
 public:
  explicit ProgramsBeside(const cli::Command& app)
      : path_(app.add_subcommand("path",
                                 "under which paths files are, by the fileIDs that trace, top, fsck and logs "
                                 "tell: runs slice-fsck")),
        fsck_(app.add_subcommand(
            "fsck", "proves that the name space is whole: runs slice-fsck with what follows; fsck --help")),
        backup_(app.add_subcommand(
            "backup",
            "takes backups, and brings servers back: runs slice-backup with what follows; backup --help")) {
    path_.add_option("fileid", fileids_, "0x1000000000007, or an inode number as ls -i shows it").required();
    fsck_.pass_on();
    backup_.pass_on();
  }
  bool parsed() const { return path_.parsed() || fsck_.parsed() || backup_.parsed(); }
  int run(const Arguments& arguments) const {
    if (backup_.parsed()) return become_beside(kBackup, arguments, backup_.remaining());
    if (fsck_.parsed()) return become_beside(kFsck, arguments, fsck_.remaining());
    std::vector<std::string> words{"--path"};
    words.insert(words.end(), fileids_.begin(), fileids_.end());
    return become_beside(kFsck, arguments, words);
  }

 private:
  cli::Command path_, fsck_, backup_;
  std::vector<std::string> fileids_;  // that `path` is given
};

int support(const Arguments& arguments) {
  const std::filesystem::path program = own_path();
  return become({(program.parent_path().parent_path() / "lib/slice/slice-support").string(), program.string(),
                 std::filesystem::absolute(arguments.config).string(),
                 std::filesystem::absolute(arguments.path).string()});
}

// The same beside this process: its findings go where errors do. LeaveCommands::FilesOnlyOn.
int files_only_on(const Arguments& arguments, const std::string& name) {
  constexpr int kFindings = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    Arguments as_text = arguments;
    as_text.json = false;
    ::_exit(become_beside(kFsck, as_text, {"--only-on", name}));
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    std::fprintf(stderr, "slicectl: slice-fsck does not run: %s\n", std::strerror(errno));
    return kFailed;
  }
  if (WEXITSTATUS(status) == kFindings) {
    std::fprintf(stderr,
                 "slicectl: %s is not given up while it has what no other server has: remove these files "
                 "first, or bring the server back\n",
                 name.c_str());
    return kRefused;
  }
  return WEXITSTATUS(status) == 0 ? kGood : kFailed;
}

constexpr const char* kExitCodes =
    "Exit codes: 0 answered; 1 no answer, no such path or server, or not the same (tables --check); 2 "
    "wrong usage or configuration;\n"
    "3 something is wrong (status, doctor), some servers did not answer (metrics, where, tables --check: "
    "the rest "
    "is shown), or do not have "
    "the settings yet (reload, quota, tree), or the server does not serve yet (failover); 4 refused without "
    "--force "
    "(policy), or since files would lose bytes "
    "(server remove --lost).\n"
    "fsck: 0 clean; 1 findings; 2 not everything could be read, or wrong usage. path: 1 one has none. "
    "backup: see there.";

int main(int argc, char** argv) {
  Arguments arguments;
  cli::Program app("slicectl: asks a Slice ensemble how it is");
  app.fallthrough();
  app.require_subcommand();
  app.add_option("--config", arguments.config, "the ensemble's configuration").capture_default();
  app.add_flag("--json", arguments.json, "JSON instead of text");
  const auto timeout = app.add_option("--timeout", arguments.timeout, "seconds to wait for each answer")
                           .in_range(0.1, 600.0)
                           .capture_default();
  StatusCommand status(app);
  DoctorCommand doctor(app);
  const auto servers =
      app.add_subcommand("servers", "the servers of the ensemble and how many sites each holds");
  const auto tables = app.add_subcommand("tables", "the routing tables: which server holds which sites");
  tables.add_flag("--sites", arguments.every_site, "one line a site");
  tables.add_flag("--check", arguments.check,
                  "whether every process goes by them, and every server's record says the same");
  BackingCommand backing(app);
  FailoverCommand failover(app);
  const auto where = app.add_subcommand("where", "where a file's name, attributes and bytes are");
  where.add_option("path", arguments.path, "absolute path within the volume").required();
  PolicyCommands policy(app, arguments.path);
  ServerCommands server(app);
  MoveCommands move_sites(app);
  LeaveCommands leave(server.group(),
                      [&](const std::string& name) { return files_only_on(arguments, name); });
  TraceCommands trace(app);
  TopCommands top(app);
  ProxyCommands proxy(app);
  QuotaCommand quota(app);
  TreeCommand tree(app);
  VolumeCommand volume(app);
  const auto move = app.add_subcommand("move", "moves a stripe of a block-mapped file (docs/block-maps.md)");
  move.add_option("path", arguments.path, "absolute path within the volume").required();
  move.add_option("--stripe", arguments.stripe, "which: offset / stripe unit").required();
  move.add_option("--to", arguments.to, "name of a storage server").required();
  const auto metrics =
      app.add_subcommand("metrics", "the metrics of one process, or of all (docs/metrics.md)");
  metrics.add_option("name", arguments.name, "which server");
  metrics.add_option("--match", arguments.match, "only metrics whose name contains this");
  const auto reload = app.add_subcommand(
      "reload", "has the manager read its ensemble.toml again, and give everybody its exports and limits");
  const ProgramsBeside beside(app);
  InitCommands init(app);
  JoinCommands join(app);
  const auto support_command = app.add_subcommand(
      "support", "writes an archive of how this host and the ensemble are, without keys, for who helps");
  support_command.add_option("file", arguments.path, "the archive, .tar.gz").required();
  const auto check_command =
      app.add_subcommand("check", "checks a configuration without touching the network");
  check_command.add_option("file", arguments.path, "the configuration; default: that of --config");
  // Last: commands would take it over.
  app.footer(kExitCodes);
  if (const auto code = app.parse(argc, argv)) return *code;
  arguments.timeout_given = timeout.count() > 0;
  if (check_command.parsed()) return check(arguments);
  if (support_command.parsed()) return support(arguments);
  if (init.parsed()) return init_ensemble(init, arguments);
  if (join.parsed()) return join_ensemble(join, arguments);
  if (beside.parsed()) return beside.run(arguments);
  auto policy_change = policy.change();
  if (policy.parsed() && !policy_change) {
    say(policy_change.error());
    return kBadUsage;
  }
  auto server_change = server.change();
  if (server.parsed() && !server_change) {
    say(server_change.error());
    return kBadUsage;
  }
  if (Status asked = quota.parsed()    ? quota.check()
                     : tree.parsed()   ? tree.check()
                     : volume.parsed() ? volume.check()
                                       : Status{};
      !asked) {
    say(asked.error());
    return kBadUsage;
  }
  auto config = load_ensemble(arguments.config);
  if (!config && doctor.parsed()) {
    return print(DoctorCommand::refused(config.error(), arguments.json ? Format::kJson : Format::kText),
                 DoctorCommand::kFound);
  }
  if (!config) {
    say(config.error());
    return kBadUsage;
  }
  const TlsConfig tls = config->network.tls.of("slicectl");
  config = service::learn_members(std::move(*config), tls);
  if (!config) {
    say(config.error());
    return kBadUsage;
  }
  Command command(arguments, *config);
  if (Status begun = command.begin(); !begun) {
    say(begun.error());
    return kBadUsage;
  }
  if (server.parsed()) return command.change_server(*server_change);
  if (const auto code = command.carry_out_asked(move_sites, leave, backing, failover, status, doctor, trace,
                                                top, proxy, quota, tree, volume))
    return *code;
  if (servers.parsed()) return command.servers();
  if (tables.parsed()) return command.tables();
  if (reload.parsed()) return command.reload();
  if (where.parsed()) return command.where();
  if (policy.parsed()) return command.policy(*policy_change);
  if (move.parsed()) return command.move();
  if (metrics.parsed()) return command.metrics();
  return kBadUsage;
}

}  // namespace
}  // namespace slice::slicectl

int main(int argc, char** argv) {
  return slice::slicectl::main(argc, argv);
}
