#include "control/slicectl/init_commands.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "control/slicectl/new_file.h"
#include "control/slicectl/render_parts.h"
#include "rpc/endpoint.h"

namespace slice::slicectl {
namespace {

constexpr std::size_t kKeyBytes = 32;

Result<std::string> new_key() {
  std::array<std::uint8_t, kKeyBytes> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(Errc::kIo, "no random bytes: {}", std::strerror(errno));
  return to_hex(bytes) + "\n";
}

// One that is empty is taken.
Status make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return fail(Errc::kIo, "{}: {}", folder, std::strerror(errno));
  std::error_code error;
  const bool empty = std::filesystem::is_empty(folder, error);
  if (error) return fail(Errc::kIo, "{}: {}", folder, error.message());
  if (!std::filesystem::is_directory(folder)) return fail(Errc::kExists, "{} is a file", folder);
  if (!empty) return fail(Errc::kExists, "{} is not empty: nothing in it is overwritten", folder);
  return {};
}

std::string names_on(const Host& host) {
  std::string names;
  for (const HostServer& server : host.servers) names += (names.empty() ? "" : " ") + server.name;
  return names;
}

std::uint16_t last_port(const Birth& birth) {
  std::uint16_t last = 0;
  for (const Host& host : birth.hosts)
    for (const HostServer& server : host.servers) last = std::max(last, server.port);
  return last;
}

std::string table_of_hosts(const Birth& birth) {
  std::vector<std::vector<std::string>> rows{{"HOST", "ADDRESS", "SERVERS"}};
  for (const Host& host : birth.hosts)
    rows.push_back({host.name, address_text(host.address), names_on(host)});
  return table(rows);
}

std::string told(const Birth& birth, const std::string& folder) {
  const std::string address = address_text(birth.virtual_address);
  std::string text = table_of_hosts(birth);
  text +=
      birth.copies == 1
          ? "\nEach byte of a file is on one host: while one is away, clients wait for what it has.\n"
          : fmt::format("\nEach byte of a file is on {} hosts. One may fail, but for {}, which has names.\n",
                        birth.copies, birth.hosts.front().name);
  text += fmt::format(
      "Clients are those of {}; root there is root of the volume (squash in {}/ensemble.toml).\n\n"
      "Ports, TCP and UDP, for a firewall:\n"
      "  clients to {} (at {}): 111, 2049, 20048\n"
      "  hosts to one another: 2049-{}\n\n",
      birth.clients, folder, address, birth.hosts.front().name, last_port(birth));
  text += "With the packages on every host, as root:\n\n";
  for (const Host& host : birth.hosts) {
    const std::string script = fmt::format("{}/{}", folder, script_name(host));
    text += is_here(host.address) ? fmt::format("  sh {}\n", script)
                                  : fmt::format("  ssh root@{} sh -s < {}\n", host.login, script);
  }
  text += fmt::format(
      "  slicectl status     # on {}: until all serve\n\n"
      "Then, as root on a client:\n\n"
      "  mount -t nfs -o vers=3 {}:{} /mnt\n\n"
      "Who has {}/ensemble.key, or a script, which has it too, may do everything. Each host has its copy "
      "then:\n"
      "remove {}.\n",
      birth.hosts.front().name, address, "/", folder, folder);
  return text;
}

std::string told_as_json(const Birth& birth, const std::string& folder) {
  Json hosts = Json::array();
  for (const Host& host : birth.hosts) {
    Json servers = Json::array();
    for (const HostServer& server : host.servers)
      servers.push_back({{"name", server.name},
                         {"role", role_name(server.role)},
                         {"port", server.port},
                         {"data", server.data}});
    hosts.push_back({{"name", host.name},
                     {"address", address_text(host.address)},
                     {"script", fmt::format("{}/{}", folder, script_name(host))},
                     {"servers", std::move(servers)}});
  }
  return dump({{"ensemble", birth.name},
               {"folder", folder},
               {"virtual_address", address_text(birth.virtual_address)},
               {"clients", birth.clients},
               {"copies", birth.copies},
               {"hosts", std::move(hosts)}});
}

Status write_all(const Birth& birth, const std::string& folder) {
  auto key = new_key();
  if (!key) return fail(std::move(key).error());
  const std::string configuration = configuration_of(birth), path = folder + "/ensemble.toml";
  SLICE_RETURN_IF_ERROR(make_folder(folder));
  SLICE_RETURN_IF_ERROR(write_new_file(folder + "/ensemble.key", *key, 0600));
  if (auto good = parse_ensemble(configuration, path); !good) return fail(std::move(good).error());
  SLICE_RETURN_IF_ERROR(write_new_file(path, configuration, 0644));
  for (const Host& host : birth.hosts) {
    SLICE_RETURN_IF_ERROR(write_new_file(fmt::format("{}/{}", folder, script_name(host)),
                                         script_of(birth, host, configuration, *key), 0700));
  }
  return {};
}

}  // namespace

InitCommands::InitCommands(const cli::Command& app)
    : init_(app.add_subcommand(
          "init",
          "begins an ensemble: a folder with its configuration, its key, and what each host is to run")) {
  init_
      .add_option("--hosts", options_.hosts,
                  "its hosts, by names or addresses, or NAME=ADDRESS, with commas between; the first has the "
                  "manager, the proxy and the names")
      .delimiter(',')
      .required();
  init_.add_option("--virtual", options_.virtual_address, "the address that clients mount, which no host has")
      .required();
  init_
      .add_option("--storage", options_.storage,
                  "folders for data: a storage node for each, on every host; default: one below "
                  "/var/lib/slice")
      .delimiter(',');
  init_.add_option("--clients", options_.clients,
                   "the network that may mount it, as 192.0.2.0/24; default: the one of 256 addresses around "
                   "the virtual one");
  init_
      .add_option("--copies", options_.copies,
                  "on how many hosts each byte is; default: 2 from three hosts on, else 1")
      .in_range(1U, kMaxCopies);
  init_
      .add_option("--directories", options_.directories,
                  "on how many hosts there are directory servers and coordinators")
      .capture_default();
  init_.add_option("--name", options_.name, "the ensemble's name").capture_default();
  init_.add_option("--output", folder_, "the folder, which is made; default: the ensemble's name");
}

Result<std::string> InitCommands::run(Format format, const Resolve& resolve) const {
  auto birth = plan_birth(options_, resolve);
  if (!birth) return fail(std::move(birth).error());
  const std::string folder = folder_.empty() ? options_.name : folder_;
  SLICE_RETURN_IF_ERROR(write_all(*birth, folder));
  return format == Format::kJson ? told_as_json(*birth, folder) : told(*birth, folder);
}

}  // namespace slice::slicectl
