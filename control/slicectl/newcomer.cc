#include "control/slicectl/newcomer.h"

#include <algorithm>
#include <cstdlib>

#include "common/version.h"
#include "control/slicectl/health.h"
#include "rpc/endpoint.h"

namespace slice::slicectl {
namespace {

Result<ServerRole> role_to_add(const std::string& name) {
  for (ServerRole role :
       {ServerRole::kDirectory, ServerRole::kSmallFile, ServerRole::kStorage, ServerRole::kCoordinator}) {
    if (role_name(role) == name) return role;
  }
  return fail(Errc::kInvalid, "--role: '{}' is none of directory, small-file, storage and coordinator", name);
}

class Newcomer {
 public:
  Newcomer(const NewcomerOptions& options, const EnsembleConfig& config,
           const std::vector<wire::ServerEntry>& members)
      : config_(config), members_(members) {
    host_.name = options.host;
    host_.address = options.address;
    host_.rack = options.rack;
  }

  Status check_name() const {
    for (const wire::ServerEntry& entry : members_) {
      if (entry.role == wire::Role::kRemoved || entry.host != host_.name ||
          entry.endpoint.address == host_.address)
        continue;
      return fail(Errc::kInvalid,
                  "--host: '{}' is the host of {} at {}: this one has another name, or that address",
                  host_.name, entry.name, address_text(entry.endpoint.address));
    }
    return {};
  }

  void add(ServerRole role, const std::string& folder, bool listed) {
    HostServer server{.name = {}, .role = role, .port = 0, .data = {}};
    if (const wire::ServerEntry* there = member_here(role)) {
      server.name = there->name;
      server.port = there->endpoint.port;
    } else {
      server.name = free_name(role);
      server.port = free_port(role, listed);
    }
    server.data = fmt::format("{}/{}", folder, server.name);
    host_.servers.push_back(std::move(server));
  }
  Host host() { return std::move(host_); }

 private:
  bool is_planned(const std::string& name) const {
    return std::any_of(host_.servers.begin(), host_.servers.end(),
                       [&](const HostServer& each) { return each.name == name; });
  }
  // By port, each once.
  const wire::ServerEntry* member_here(ServerRole role) const {
    const wire::ServerEntry* found = nullptr;
    for (const wire::ServerEntry& entry : members_) {
      if (static_cast<ServerRole>(entry.role) != role || entry.endpoint.address != host_.address ||
          is_planned(entry.name))
        continue;
      if (found == nullptr || entry.endpoint.port < found->endpoint.port) found = &entry;
    }
    return found;
  }
  // That nobody has, or had.
  std::string free_name(ServerRole role) const {
    for (unsigned number = 1;; ++number) {
      std::string name = fmt::format("{}{}", stem_of(role), number);
      const bool known = std::any_of(members_.begin(), members_.end(),
                                     [&](const wire::ServerEntry& each) { return each.name == name; }) ||
                         std::any_of(config_.servers.begin(), config_.servers.end(),
                                     [&](const ServerConfig& each) { return each.name == name; });
      if (!known && !is_planned(name)) return name;
    }
  }
  // `listed`: the file has to have the server, beside what it has.
  std::uint16_t free_port(ServerRole role, bool listed) const {
    for (std::size_t nth = 0;; ++nth) {
      const std::uint16_t port = port_of(role, nth);
      const bool taken = std::any_of(host_.servers.begin(), host_.servers.end(),
                                     [&](const HostServer& each) { return each.port == port; }) ||
                         std::any_of(members_.begin(), members_.end(),
                                     [&](const wire::ServerEntry& each) {
                                       return each.endpoint == rpc::Endpoint{host_.address, port};
                                     }) ||
                         (listed && std::any_of(config_.servers.begin(), config_.servers.end(),
                                                [&](const ServerConfig& each) {
                                                  return each.address == host_.address && each.port == port;
                                                }));
      if (!taken) return port;
    }
  }

  const EnsembleConfig& config_;
  const std::vector<wire::ServerEntry>& members_;
  Host host_;
};

}  // namespace

Result<Host> plan_newcomer(const NewcomerOptions& options, const EnsembleConfig& config,
                           const std::vector<wire::ServerEntry>& members) {
  if (!is_server_name(options.host)) {
    return fail(Errc::kInvalid, "--host: '{}' is not 1 to 63 letters, digits, '-', '_' or '.'", options.host);
  }
  if (!options.rack.empty() && !is_server_name(options.rack)) {
    return fail(Errc::kInvalid, "--rack: '{}' is not 1 to 63 letters, digits, '-', '_' or '.'", options.rack);
  }
  if (config.proxy.is_virtual(options.address))
    return fail(Errc::kInvalid, "--address: {} is the volume's virtual address",
                address_text(options.address));
  if (auto good = check_folders(options.storage); !good) return fail(good.error(), "--storage");
  Newcomer newcomer(options, config, members);
  SLICE_RETURN_IF_ERROR(newcomer.check_name());
  for (const std::string& name : options.roles) {
    auto role = role_to_add(name);
    if (!role) return fail(std::move(role).error());
    if (*role != ServerRole::kStorage || options.storage.empty()) {
      newcomer.add(*role, config.data_folder, false);
      continue;
    }
    for (const std::string& folder : options.storage) newcomer.add(*role, folder, true);
  }
  return newcomer.host();
}

Status check_newcomer(const wire::ConfigurationResult& manager, WallTime asked, WallTime answered) {
  if (!manager.refused.empty())
    return fail(Errc::kInvalid, "the manager does not give its configuration: {}", manager.refused);
  if (manager.version != kVersion) {
    return fail(Errc::kInvalid,
                "the manager is of {}, and this host has {}: all processes of an ensemble have to be of one "
                "version",
                manager.version, kVersion);
  }
  const auto theirs = static_cast<std::int64_t>(manager.now_ns);
  const std::int64_t ahead = theirs < asked.ns      ? asked.ns - theirs
                             : theirs > answered.ns ? answered.ns - theirs
                                                    : 0;
  if (clock_is_off(ahead, 0)) {
    return fail(
        Errc::kInvalid,
        "this host's clock is {} s {} the manager's: files would have times that are wrong. Set it, as by "
        "`timedatectl set-ntp true`",
        std::abs(ahead) / 1'000'000'000, ahead > 0 ? "ahead of" : "behind");
  }
  return {};
}

std::vector<std::string> files_of_servers(const Host& host, const EnsembleConfig& config) {
  std::vector<std::string> files;
  auto add = [&files](const std::string& file) {
    if (!file.empty() && std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  };
  add(config.key_file);
  for (const std::string& file : config.network.session_key_files) add(file);
  for (const HostServer& server : host.servers) {
    const TlsConfig tls = config.network.tls.of(server.name);
    for (const std::string* file : {&tls.certificate, &tls.key, &tls.authority, &tls.revoked}) add(*file);
  }
  return files;
}

Host servers_to_list(const Host& host, const EnsembleConfig& config) {
  Host listed = host;
  std::erase_if(listed.servers, [&](const HostServer& server) {
    return server.data == fmt::format("{}/{}", config.data_folder, server.name) ||
           std::any_of(config.servers.begin(), config.servers.end(),
                       [&](const ServerConfig& each) { return each.name == server.name; });
  });
  return listed;
}

}  // namespace slice::slicectl
