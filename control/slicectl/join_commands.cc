#include "control/slicectl/join_commands.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "common/keys.h"
#include "control/slicectl/new_file.h"
#include "rpc/bound_socket.h"
#include "rpc/client.h"
#include "rpc/epoll_loop.h"
#include "service/membership.h"

namespace slice::slicectl {
namespace {

Result<rpc::Endpoint> parse_manager(const std::string& text) {
  const auto named = rpc::parse_host_and_port(text);
  if (!named) return fail(Errc::kInvalid, "--manager: '{}' ends in no port", text);
  auto address = parse_reachable(named->host, resolve_by_system);
  if (!address) return fail(address.error(), "--manager");
  return rpc::Endpoint{*address, named->port.value_or(port_of(ServerRole::kManager))};
}

// A configuration with what it takes to ask the manager for the whole one.
Result<EnsembleConfig> bootstrap(const std::string& path, const std::string& manager) {
  const std::string key_file = folder_of(path) + "ensemble.key";
  std::error_code error;
  if (!std::filesystem::exists(key_file, error)) {
    return fail(
        Errc::kInvalid,
        "there is no {}: bring it from a host of the ensemble, by a way that nobody can read, as by `scp -p "
        "root@HOST:{} {}`",
        key_file, key_file, folder_of(key_file));
  }
  auto secret = read_secret(key_file);
  if (!secret) return fail(std::move(secret).error());
  auto endpoint = parse_manager(manager);
  if (!endpoint) return fail(std::move(endpoint).error());
  EnsembleConfig config;
  config.path = path;
  config.ensemble_key = derive_ensemble_key(*secret);
  config.servers.push_back({.name = "manager",
                            .role = ServerRole::kManager,
                            .address = endpoint->address,
                            .port = endpoint->port});
  return config;
}

Result<IpAddress> own_address_towards(const ServerConfig& manager) {
  const IpAddress own = rpc::own_address_towards({manager.address, manager.port});
  if (!own.none()) return own;
  return fail(Errc::kUnavailable, "no way to {}: {}", address_text(manager.address), std::strerror(errno));
}

Result<std::string> own_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    return fail(Errc::kIo, "this host has no name: {}", std::strerror(errno));
  return std::string(name.data());
}

// Of these files, which all have to be there, those that the servers' user cannot read unless they are its
// own.
Result<std::vector<std::string>> secrets_among(const std::vector<std::string>& files) {
  std::vector<std::string> secrets;
  for (const std::string& file : files) {
    struct stat facts{};
    if (::stat(file.c_str(), &facts) != 0) {
      return fail(Errc::kInvalid, "the configuration names {}, which the servers here need: {}", file,
                  std::strerror(errno));
    }
    if ((facts.st_mode & S_IROTH) == 0) secrets.push_back(file);
  }
  return secrets;
}

Status run_script(const std::string& commands) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-euc", commands.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Errc::kIo, "these commands did not end well; mend it, and begin again");
  return {};
}

// What this host is told and tells, by one channel.
class Joining {
 public:
  Joining(EnsembleConfig known, bool has_file, Duration timeout)
      : known_(std::move(known)),
        has_file_(has_file),
        keys_(known_),
        channel_(loop_, {.keys = &keys_, .sender = service::kNobody, .generation = nullptr}),
        seams_{.loop = loop_, .channel = channel_, .config = known_, .timeout = timeout} {}

  // The ensemble's configuration, where this host may be one of its hosts.
  Result<EnsembleConfig> learn() {
    SLICE_RETURN_IF_ERROR(keys_.use_tls(known_.network.tls.of("slicectl")));
    const WallTime asked = loop_.wall();
    auto answer = rpc::run_to_end(loop_, ask_configuration(seams_));
    if (!answer && !has_file_) {
      return fail(
          answer.error().code,
          "{}. Where the ensemble has [network] session_keys or certificates, this host needs their files "
          "and {} first",
          answer.error().message, known_.path);
    }
    if (!answer) return fail(std::move(answer).error());
    SLICE_RETURN_IF_ERROR(check_newcomer(*answer, asked, loop_.wall()));
    auto config = parse_ensemble(answer->text, known_.path);
    if (!config) return fail(config.error(), "the manager's configuration, as it would be here");
    if (has_file_ && (config->name != known_.name || config->volume.id != known_.volume.id)) {
      return fail(Errc::kExists, "{} is that of the ensemble '{}', and not of '{}'", known_.path, known_.name,
                  config->name);
    }
    text_ = std::move(answer->text);
    return config;
  }
  Result<std::vector<wire::ServerEntry>> members() {
    auto answer = rpc::run_to_end(loop_, ask_members(seams_));
    if (!answer) return fail(std::move(answer).error());
    std::vector<wire::ServerEntry> entries;
    for (wire::Member& member : answer->members) entries.push_back(std::move(member.entry));
    return entries;
  }
  // The file here, with what it has to say of this host's servers.
  Status write_configuration(const Host& host) const {
    const Host listed = servers_to_list(host, known_);
    if (has_file_)
      return listed.servers.empty() ? Status{} : append_to_file(known_.path, servers_text(listed));
    std::string text = text_;
    if (!listed.servers.empty()) text += servers_text(listed);
    if (auto good = parse_ensemble(text, known_.path); !good) return fail(std::move(good).error());
    return write_new_file(known_.path, text, 0644);
  }
  Result<wire::ChangeServerResult> add(const Host& host, const HostServer& server) {
    using Field = wire::ChangeServerArgs::Field;
    wire::ChangeServerArgs args{.change = wire::ServerChange::kAdd,
                                .entry = {.role = static_cast<wire::Role>(server.role),
                                          .endpoint = {host.address, server.port},
                                          .name = server.name,
                                          .host = host.name,
                                          .rack = host.rack},
                                .fields = Field::kEndpoint | Field::kHost};
    if (!host.rack.empty()) args.fields |= Field::kRack;
    return rpc::run_to_end(loop_, ask_change(seams_, std::move(args)));
  }

 private:
  const EnsembleConfig known_;
  const bool has_file_;
  rpc::EpollLoop loop_;
  rpc::KeyRing keys_;
  rpc::SocketChannel channel_;
  const Seams seams_;
  std::string text_;
};

}  // namespace

JoinCommands::JoinCommands(const cli::Command& app)
    : join_(app.add_subcommand(
          "join", "makes this host one of a running ensemble's, whose key is in /etc/slice already")) {
  join_.add_option("--manager", manager_,
                   "the manager's host, or HOST:PORT; not needed where the configuration is here");
  join_.add_option("--host", options_.host, "this host's name; default: as it is called");
  join_.add_option("--address", address_, "its address; default: the one that leads to the manager");
  join_.add_option("--rack", options_.rack, "the rack, or what else fails as a whole");
  join_
      .add_option("--role", options_.roles,
                  "its servers, with commas between: directory, small-file, storage, coordinator")
      .delimiter(',')
      .capture_default();
  join_
      .add_option("--storage", options_.storage,
                  "folders for data: a storage node for each; default: one below /var/lib/slice")
      .delimiter(',');
  join_.add_flag("--no-start", no_start_, "only says which commands start the servers");
}

Status JoinCommands::run(const std::string& path, Duration timeout, const Print& print) const {
  std::error_code error;
  const bool has_file = std::filesystem::exists(path, error);
  if (!has_file && manager_.empty()) return fail(Errc::kInvalid, "--manager: where to ask is expected");
  if (!no_start_ && ::geteuid() != 0)
    return fail(Errc::kInvalid, "join starts servers: run it as root, or with --no-start");
  auto known = has_file ? load_ensemble(path) : bootstrap(path, manager_);
  if (!known) return fail(std::move(known).error());

  Joining joining(*known, has_file, timeout);
  auto config = joining.learn();
  if (!config) return fail(std::move(config).error());
  auto members = joining.members();
  if (!members) return fail(std::move(members).error());

  NewcomerOptions options = options_;
  auto address = address_.empty() ? own_address_towards(*config->first(ServerRole::kManager))
                                  : parse_reachable(address_, resolve_by_system);
  if (!address) return fail(address.error(), "--address");
  if (!is_here(*address))
    return fail(Errc::kInvalid, "--address: this host does not have {}", address_text(*address));
  options.address = *address;
  if (options.host.empty()) {
    auto name = own_name();
    if (!name) return fail(std::move(name).error());
    options.host = std::move(*name);
  }
  const EnsembleConfig& here = has_file ? *known : *config;
  auto host = plan_newcomer(options, here, *members);
  if (!host) return fail(std::move(host).error());
  auto secrets = secrets_among(files_of_servers(*host, here));
  if (!secrets) return fail(std::move(secrets).error());

  SLICE_RETURN_IF_ERROR(joining.write_configuration(*host));
  for (const HostServer& server : host->servers) {
    auto added = joining.add(*host, server);
    if (!added) return fail(added.error(), server.name);
    print(fmt::format("{} is a member, at {}:{}\n", server.name, address_text(host->address), server.port));
  }
  const std::string commands = start_commands(*host, *secrets);
  print(commands);
  if (!no_start_) SLICE_RETURN_IF_ERROR(run_script(commands));
  print(fmt::format(
      "Its share of sites and of files it gets by `slicectl rebalance`. For the end of {} on the manager's "
      "host:\n{}",
      path, servers_text(*host)));
  return {};
}

}  // namespace slice::slicectl
