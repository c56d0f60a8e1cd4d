#include "common/config.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "common/bytes.h"
#include "common/config_section.h"
#include "common/export_words.h"
#include "common/keys.h"
#include "common/whole_file.h"

namespace slice {
namespace {

using config_internal::line_of;
using config_internal::Refusals;
using config_internal::Section;

constexpr std::array<std::string_view, kServerRoles> kRoleNames{"directory",   "small-file", "storage",
                                                                "coordinator", "manager",    "proxy"};
constexpr std::size_t kMaxNameLength = 63;
constexpr std::uint32_t kMaxSites = 4096;                    // of one class
constexpr std::uint64_t kMaxThreshold = 8ull << 20;          // bytes
constexpr std::uint64_t kMinCache = 1ull << 20;              // bytes
constexpr std::uint32_t kMaxArms = 1024;                     // of an emulated disk
constexpr std::uint32_t kMaxAccessMicroseconds = 1'000'000;  // beyond, clients give up
constexpr std::uint64_t kMinTransfer = 64ull << 10;          // bytes a second
// Of [limits]: less, and a client could not do what any does; more than anybody has.
constexpr std::uint64_t kLeastConnections = 16, kLeastCalls = 16;
constexpr std::uint64_t kLeastMemory = 64ull << 20, kLeastMemoryOfAddress = 16ull << 20;  // bytes
constexpr std::uint64_t kMostOfALimit = 1ull << 40;
constexpr std::size_t kMaxConfigBytes = 16ull << 20;

// A path of the configuration: relative ones are so to its folder.
std::string path_beside(const EnsembleConfig& config, const std::string& file) {
  std::filesystem::path path(file);
  if (path.is_relative()) path = std::filesystem::path(config.path).parent_path() / path;
  return path.string();
}

// Three of the files belong together; the authority may be missing where nobody has to show a certificate.
enum class Authority { kNeeded, kMayBeMissing };
void read_tls(Section& section, const EnsembleConfig& config, Authority authority, TlsConfig& tls) {
  const std::array<std::pair<const char*, std::string*>, 4> files{{{"tls_certificate", &tls.certificate},
                                                                   {"tls_key", &tls.key},
                                                                   {"tls_authority", &tls.authority},
                                                                   {"tls_revoked", &tls.revoked}}};
  bool any = false, all = true;
  for (const auto& [key, path] : files) {
    std::string given = section.text(key, "");
    any = any || !given.empty();
    const bool may_be_missing =
        path == &tls.revoked || (path == &tls.authority && authority == Authority::kMayBeMissing);
    all = all && (!given.empty() || may_be_missing);
    if (!given.empty()) *path = path_beside(config, given);
  }
  if (any && !all) {
    section.refuse("tls_certificate", "{} belong together",
                   authority == Authority::kNeeded ? "tls_certificate, tls_key and tls_authority"
                                                   : "tls_certificate and tls_key");
    tls = {};
  } else if (!tls.revoked.empty() && tls.authority.empty()) {
    section.refuse("tls_revoked", "without a tls_authority nobody shows a certificate");
  }
}

void read_internal_network(Refusals& refusals, const toml::table& table, EnsembleConfig& config) {
  Section section(refusals, table, "[network]", line_of(table));
  for (const std::string& text : section.texts("internal")) {
    if (auto network = section.network("internal", text)) config.network.internal.push_back(*network);
  }
  constexpr std::array<std::string_view, 2> kCovers{"heads", "all"};
  config.network.cover_all = section.choice("cover", kCovers, 0) == 1;
  for (const std::string& file : section.texts("session_keys")) {
    config.network.session_key_files.push_back(path_beside(config, file));
  }
  if (!config.network.session_key_files.empty()) {
    auto keys = read_session_keys(config);
    if (keys) {
      config.network.session_keys = std::move(*keys);
    } else {
      section.refuse("session_keys", "{}", keys.error().message);
    }
  }
  read_tls(section, config, Authority::kNeeded, config.network.tls);
  section.finish();
}

void read_metrics(Refusals& refusals, const toml::table& table, MetricsConfig& metrics) {
  Section section(refusals, table, "[metrics]", line_of(table));
  metrics.served = true;
  metrics.port = section.port("port", metrics.port);
  for (const std::string& text : section.texts("scrapers")) {
    if (auto network = section.network("scrapers", text)) metrics.scrapers.push_back(*network);
  }
  if (metrics.scrapers.empty()) {
    section.refuse("scrapers", "who may read the metrics is expected, as [\"ADDRESS/BITS\"]");
  }
  metrics.clients = section.number32("clients", 0, 0, kMaxCountedClients);
  section.finish();
}

// `http://` or `https://`, a host, a port, and nothing behind it.
bool is_plain_url(std::string_view url, std::string_view scheme) {
  if (!url.starts_with(scheme)) return false;
  url.remove_prefix(scheme.size());
  const std::size_t colon = url.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = url.substr(0, colon), port = url.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '.'; };
  return error == std::errc{} && end == port.data() + port.size() && number != 0 &&
         std::all_of(host.begin(), host.end(), plain);
}

void read_managers(Refusals& refusals, const toml::table& table, EnsembleConfig& config) {
  Section section(refusals, table, "[managers]", line_of(table));
  ManagersConfig& managers = config.managers;
  bool all_https = true;
  for (const std::string& url : section.texts("etcd")) {
    const bool https = is_plain_url(url, "https://");
    all_https = all_https && https;
    if (!https && !is_plain_url(url, "http://"))
      section.refuse("etcd", "'{}' is not https://HOST:PORT or http://HOST:PORT", url);
    if (std::find(managers.etcd.begin(), managers.etcd.end(), url) != managers.etcd.end())
      section.refuse("etcd", "'{}' is there twice", url);
    managers.etcd.push_back(url);
  }
  if (managers.etcd.empty() || managers.etcd.size() > kMaxEtcdMembers)
    section.refuse("etcd", "the URLs of 1 to {} members are expected", kMaxEtcdMembers);
  managers.etcd_prefix = section.text("etcd_prefix", "/slice/" + config.name);
  if (!managers.etcd_prefix.starts_with('/') || managers.etcd_prefix.ends_with('/') ||
      managers.etcd_prefix.size() > 255)
    section.refuse("etcd_prefix", "'/', and 1 to 254 bytes that do not end with '/', are expected");
  for (auto& [key, path] : {std::pair<const char*, std::string&>{"etcd_user", managers.etcd_user},
                            {"etcd_tls_authority", managers.etcd_tls_authority},
                            {"etcd_tls_certificate", managers.etcd_tls_certificate},
                            {"etcd_tls_key", managers.etcd_tls_key}}) {
    if (std::string given = section.text(key, ""); !given.empty()) path = path_beside(config, given);
  }
  if (managers.etcd_tls_certificate.empty() != managers.etcd_tls_key.empty())
    section.refuse("etcd_tls_certificate", "etcd_tls_certificate and etcd_tls_key belong together");
  const bool tls = !managers.etcd_tls_authority.empty() || !managers.etcd_tls_certificate.empty();
  if (tls && !all_https) section.refuse("etcd", "with files of TLS all members are https://");
  managers.lease_s = section.number32("lease_seconds", managers.lease_s, 1, 60);
  if (!managers.etcd_user.empty() && !all_https)
    config.warnings.push_back(
        fmt::format("{}:{}: etcd_user over http://: whoever listens on the way has the password", config.path,
                    section.line("etcd_user")));
  section.finish();
}

void read_volume(Refusals& refusals, const toml::table& table, VolumeConfig& volume) {
  Section section(refusals, table, "[volume]", line_of(table));
  volume.id = VolumeId{section.number32("id", 1, 1)};
  volume.export_path = section.text("export", "/");
  if (volume.export_path.empty() || volume.export_path[0] != '/' || volume.export_path.size() > 255) {
    section.refuse("export", "an absolute path of at most 255 bytes is expected");
  }
  const std::filesystem::path path(volume.export_path);
  if (std::find(path.begin(), path.end(), "..") != path.end()) {
    section.refuse("export", "'{}' has '..' in it: nothing is above the volume", volume.export_path);
  }
  std::uint64_t unit = section.size("stripe_unit", std::uint64_t{1} << volume.stripe_shift);
  if (is_stripe_unit(unit)) {
    volume.stripe_shift = static_cast<std::uint32_t>(std::countr_zero(unit));
  } else {
    section.refuse("stripe_unit", "{} bytes is not a power of two from 8KiB to 1GiB", unit);
  }
  volume.copies = section.number32("copies", 1, 1);
  if (volume.copies > kMaxCopies) {
    section.refuse("copies", "{}: a file has at most {}", volume.copies, kMaxCopies);
    volume.copies = 1;
  }
  volume.placement = static_cast<Placement>(section.choice("placement", kPlacementNames, 0));
  volume.threshold = section.size("threshold", volume.threshold);
  if (volume.threshold > kMaxThreshold) {
    section.refuse("threshold", "{} bytes is over 8MiB", volume.threshold);
  } else if (volume.threshold % kLeastStripeUnit != 0) {
    section.refuse("threshold", "{} bytes is not a multiple of 8KiB", volume.threshold);
  }
  constexpr std::array<std::string_view, 2> kPolicies{"mkdir-switching", "name-hashing"};
  constexpr std::array<std::string_view, 2> kHashes{"md5", "siphash13"};
  volume.policy = static_cast<VolumeConfig::NamePolicy>(section.choice("name_policy", kPolicies, 0));
  volume.hash = static_cast<VolumeConfig::NameHash>(section.choice("name_hash", kHashes, 0));
  volume.mkdir_probability = section.fraction("mkdir_probability");
  volume.root_mode = section.mode("root_mode", 0755);
  volume.root_uid = section.number32("root_uid", 0);
  volume.root_gid = section.number32("root_gid", 0);
  section.finish();
}

void read_sites(Refusals& refusals, const toml::table& table, std::array<std::uint32_t, 4>& counts) {
  Section section(refusals, table, "[sites]", line_of(table));
  for (std::size_t role = 0; role < counts.size(); ++role) {
    counts[role] = section.number32(kRoleNames[role], counts[role], 1, kMaxSites);
    if (!std::has_single_bit(counts[role])) {
      section.refuse(kRoleNames[role], "{} is not a power of two", counts[role]);
    }
  }
  section.finish();
}

constexpr std::size_t kLongestInterface = 15;

// Empty where it is not said.
std::string read_address_interface(Section& section) {
  constexpr std::string_view kKey = "address_interface";
  std::string name = section.text(kKey, "");
  if (section.has(kKey) && (name.empty() || name.size() > kLongestInterface || name == "lo"))
    section.refuse(kKey, "'{}' is no name of an interface that clients are at", name);
  return name;
}

// One, or one of each family.
void read_virtual_addresses(Section& section, ProxyConfig& proxy) {
  constexpr std::string_view kKey = "virtual_address";
  const std::vector<std::string> texts = section.one_or_more_texts(kKey);
  std::vector<IpAddress> addresses;
  for (const std::string& text : texts) addresses.push_back(section.host_address(kKey, text));
  if (addresses.size() > 2 || (addresses.size() == 2 && addresses[0].is_v4() == addresses[1].is_v4()))
    return section.refuse(kKey, "one address is expected, or one of IPv4 and one of IPv6");
  if (!addresses.empty()) proxy.virtual_address = addresses[0];
  if (addresses.size() == 2) proxy.second_address = addresses[1];
}

void read_proxy(Refusals& refusals, const toml::table& table, const EnsembleConfig& config,
                ProxyConfig& proxy) {
  Section section(refusals, table, "[proxy]", line_of(table));
  read_virtual_addresses(section, proxy);
  proxy.nfs_port = section.port("nfs_port", 2049);
  proxy.mount_port = section.port("mount_port", 20048);
  proxy.portmap_port = section.port("portmap_port", 111);
  if (proxy.mount_port == proxy.nfs_port) section.refuse("mount_port", "is nfs_port as well");
  if (proxy.portmap_port == proxy.nfs_port || proxy.portmap_port == proxy.mount_port) {
    section.refuse("portmap_port", "is the port of another program as well");
  }
  constexpr std::array<std::string_view, 4> kModes{"auto", "native", "generic", "off"};
  proxy.xdp = static_cast<ProxyConfig::Xdp>(section.choice("xdp", kModes, 0));
  proxy.bpf_folder = section.text("bpf_folder", "/sys/fs/bpf/slice");
  if (!proxy.bpf_folder.starts_with('/')) section.refuse("bpf_folder", "an absolute path is expected");
  proxy.threads = section.number32("threads", 0, 0, 256);
  proxy.interfaces = section.texts("interfaces");
  for (const std::string& name : proxy.interfaces) {
    if (name.empty() || name.size() > kLongestInterface)
      section.refuse("interfaces", "'{}' is no name of an interface", name);
  }
  proxy.address_interface = read_address_interface(section);
  proxy.address_patience_ms = section.number32("address_patience_ms", kDefaultAddressPatienceMs,
                                               kLeastAddressPatienceMs, kMostAddressPatienceMs);
  read_tls(section, config, Authority::kMayBeMissing, proxy.tls);
  if (const std::string keytab = section.text("kerberos_keytab", ""); !keytab.empty())
    proxy.kerberos_keytab = path_beside(config, keytab);
  section.finish();
}

void read_limits(Refusals& refusals, const toml::table& table, ClientLimits& limits) {
  Section section(refusals, table, "[limits]", line_of(table));
  auto read = [&section](std::string_view key, std::uint64_t least, bool bytes) {
    const std::uint64_t value = bytes ? section.size(key, 0) : section.number(key, 0, 0, kMostOfALimit);
    if (section.has(key) && (value < least || value > kMostOfALimit)) {
      section.refuse(key, "{} is not between {} and {}", value, least, kMostOfALimit);
    }
    return value;
  };
  limits = {.connections = read("connections", kLeastConnections, false),
            .connections_of_address = read("connections_of_address", 1, false),
            .memory = read("memory", kLeastMemory, true),
            .memory_of_address = read("memory_of_address", kLeastMemoryOfAddress, true),
            .calls = read("calls", kLeastCalls, false),
            .calls_of_address = read("calls_of_address", kLeastCalls, false)};
  section.finish();
}

void read_emulated_disk(Refusals& refusals, const toml::table& table, EmulatedDiskConfig& disk) {
  Section section(refusals, table, "emulated_disk", line_of(table));
  disk.arms = section.number32("arms", disk.arms, 1, kMaxArms);
  disk.access_us = section.number32("access_us", disk.access_us, 0, kMaxAccessMicroseconds);
  disk.bytes_per_second = section.size("transfer", disk.bytes_per_second);
  if (disk.bytes_per_second < kMinTransfer) section.refuse("transfer", "less than 64KiB a second");
  disk.memory_bytes = section.size("memory", disk.memory_bytes);
  if (disk.memory_bytes < kMinCache) section.refuse("memory", "less than 1MiB");
  section.finish();
}

// Where what a server keeps lies: on its own disk, or on storage nodes.
void read_backing(Section& section, ServerConfig& server) {
  static constexpr std::array<std::string_view, 2> kBackings = {"local", "replicated"};
  const bool replicated = section.choice("backing", kBackings, 0) == 1;
  const bool may = server.role == ServerRole::kDirectory || server.role == ServerRole::kSmallFile ||
                   server.role == ServerRole::kCoordinator;
  if (replicated && !may) {
    section.refuse("backing",
                   "only directory servers, small-file servers and coordinators have a backing set");
  }
  if (!replicated) {
    for (const char* key : {"backing_copies", "standbys"}) {
      if (section.has(key)) section.refuse(key, "it needs backing = \"replicated\"");
    }
    return;
  }
  server.backing_copies = section.number32("backing_copies", 2, 1, kMaxBackingCopies);
  server.places = {server.address};
  for (const std::string& text : section.texts("standbys")) {
    const auto place = parse_address(text);
    if (!place) {
      section.refuse("standbys", "{}", place.error().message);
    } else if (std::find(server.places.begin(), server.places.end(), *place) != server.places.end()) {
      section.refuse("standbys", "{} is said twice", text);
    } else {
      server.places.push_back(*place);
    }
  }
}

void read_server(Refusals& refusals, const toml::table& table, ServerConfig& server) {
  Section section(refusals, table, "[[server]]", line_of(table));
  server.name = section.text("name");
  if (!is_server_name(server.name)) {
    section.refuse("name", "'{}' is not 1 to {} letters, digits, '-', '_' or '.'", server.name,
                   kMaxNameLength);
  }
  server.role = static_cast<ServerRole>(section.choice("role", kRoleNames, std::nullopt));
  server.address = section.address("address");
  server.port = section.port("port", 2049);
  if (section.has("metrics_port")) server.metrics_port = section.port("metrics_port", 0);
  if (server.role == ServerRole::kProxy) {
    if (section.has("data")) section.refuse("data", "a proxy keeps nothing on disk");
    server.address_interface = read_address_interface(section);
  } else {
    server.data = section.text("data");
    if (!server.data.empty() && server.data[0] != '/') {
      section.refuse("data", "'{}' is not an absolute path", server.data);
    } else if (server.data.empty()) {
      section.refuse("data", "an absolute path is expected");
    }
    server.data = std::filesystem::path(server.data).lexically_normal().string();
  }
  read_backing(section, server);
  server.weight = section.size("weight", 0);
  if (section.has("weight") && server.weight == 0) section.refuse("weight", "more than 0 is expected");
  for (auto& [key, place] :
       {std::pair<const char*, std::string&>{"host", server.host}, {"rack", server.rack}}) {
    place = section.text(key, "");
    if (section.has(key) && !is_server_name(place))
      section.refuse(key, "'{}' is not 1 to {} letters, digits, '-', '_' or '.'", place, kMaxNameLength);
  }
  server.cache_bytes = section.size("cache", server.cache_bytes);
  if (server.cache_bytes < kMinCache) section.refuse("cache", "less than 1MiB");
  server.direct_reads = section.boolean("direct_reads", server.direct_reads);
  server.reserve_bytes = section.size("reserve", server.reserve_bytes);
  if (const toml::table* emulated = section.table("emulated_disk")) {
    if (server.role != ServerRole::kStorage && server.role != ServerRole::kSmallFile) {
      section.refuse("emulated_disk", "only storage and small-file servers may have one");
    }
    read_emulated_disk(refusals, *emulated, server.emulated_disk.emplace());
  }
  section.finish();
}

// `b` stands before `a`, or is `a` itself.
void check_metrics_ports(Refusals& refusals, const EnsembleConfig& config, const ServerConfig& a,
                         const ServerConfig& b, std::uint32_t line) {
  const std::uint16_t of_a = config.metrics_port_of(a), of_b = config.metrics_port_of(b);
  if (of_a == b.port) {
    refusals.add(line, "the metrics of server '{}' are at {}:{}, where '{}' serves: give it a metrics_port",
                 a.name, address_text(a.address), of_a, b.name);
  } else if (&a != &b && of_b == a.port) {
    refusals.add(line, "server '{}' has the endpoint {}:{} of the metrics of '{}'", a.name,
                 address_text(a.address), a.port, b.name);
  } else if (&a != &b && of_a == of_b) {
    refusals.add(line, "the metrics of servers '{}' and '{}' are both at {}:{}: give one a metrics_port",
                 b.name, a.name, address_text(a.address), of_a);
  }
}

// What no single [[server]] shows.
void check_servers(Refusals& refusals, const EnsembleConfig& config, const std::vector<std::uint32_t>& lines,
                   std::uint32_t last_line) {
  std::array<std::uint32_t, kServerRoles> count{};
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerConfig& a = config.servers[i];
    ++count[static_cast<std::size_t>(a.role)];
    if (config.proxy.is_virtual(a.address)) {
      refusals.add(lines[i], "server '{}' listens on the virtual address itself", a.name);
    }
    if (!config.network.takes(a.address)) {
      refusals.add(lines[i], "server '{}' is in no network of [network] internal", a.name);
    }
    if (a.metrics_port != 0 && !config.metrics.served) {
      refusals.add(lines[i], "metrics_port of server '{}': there is no [metrics]", a.name);
    }
    if (config.metrics.served) check_metrics_ports(refusals, config, a, a, lines[i]);
    for (std::size_t j = 0; j < i; ++j) {
      const ServerConfig& b = config.servers[j];
      if (a.name == b.name)
        refusals.add(lines[i], "server '{}' was named at line {} before", a.name, lines[j]);
      if (a.address != b.address) continue;
      if (config.metrics.served) check_metrics_ports(refusals, config, a, b, lines[i]);
      if (a.port == b.port) {
        refusals.add(lines[i], "server '{}' has the endpoint {}:{} of '{}'", a.name, address_text(a.address),
                     a.port, b.name);
      }
      if (!a.data.empty() && a.data == b.data) {
        refusals.add(lines[i], "server '{}' has the data directory of '{}'", a.name, b.name);
      }
    }
  }
  for (std::size_t role = 0; role < kServerRoles; ++role) {
    if (count[role] == 0) refusals.add(last_line, "no server has the role '{}'", kRoleNames[role]);
    if (role < config.site_counts.size() && count[role] > config.site_counts[role]) {
      refusals.add(last_line, "{} servers of the role '{}' share only {} sites", count[role],
                   kRoleNames[role], config.site_counts[role]);
    }
  }
  const std::uint32_t managers = count[static_cast<std::size_t>(ServerRole::kManager)];
  if (managers > 1 && !config.managers.shared()) {
    refusals.add(last_line,
                 "more than one server has the role 'manager': they need [managers], where they share their "
                 "state");
  } else if (managers > kMaxManagers) {
    refusals.add(last_line, "more than {} servers have the role 'manager'", kMaxManagers);
  }
}

void read_key(Refusals& refusals, std::uint32_t line, const std::string& file, EnsembleConfig& config) {
  if (file.empty()) return;
  auto secret = read_secret(path_beside(config, file));
  if (!secret) {
    refusals.add(line, "key_file {}", secret.error().message);
    return;
  }
  config.key_file = path_beside(config, file);
  config.ensemble_key = derive_ensemble_key(*secret);
  config.handle_key = derive_key("slice file handles", config.volume.id.value, config.ensemble_key);
  config.name_key = derive_key("slice names", config.volume.id.value, config.ensemble_key);
}

void read_root(Refusals& refusals, const toml::table& root, EnsembleConfig& config, std::uint32_t last_line) {
  Section top(refusals, root, "the ensemble", 1);
  config.name = top.text("name");
  if (config.name.empty() || config.name.size() > kMaxNameLength) {
    top.refuse("name", "1 to {} bytes are expected", kMaxNameLength);
  }
  std::string key_file = top.text("key_file");
  if (top.has("key_file") && key_file.empty()) top.refuse("key_file", "a path is expected");
  if (top.has("data_folder")) config.data_folder = top.text("data_folder");
  if (!config.data_folder.starts_with('/')) top.refuse("data_folder", "an absolute path is expected");
  if (const toml::table* table = top.table("volume")) read_volume(refusals, *table, config.volume);
  if (const toml::table* table = top.table("sites")) read_sites(refusals, *table, config.site_counts);
  const toml::table* proxy = top.table("proxy");
  if (proxy != nullptr) {
    read_proxy(refusals, *proxy, config, config.proxy);
  } else {
    refusals.add(1, "the ensemble lacks '[proxy]'");
  }
  if (const toml::array* entries = top.tables("export")) read_exports(refusals, *entries, config);
  config.log_level = static_cast<LogLevel>(
      top.choice("log_level", kLogLevelNames, static_cast<std::size_t>(LogLevel::kInfo)));
  config.log_format = static_cast<LogFormat>(top.choice("log_format", kLogFormatNames, 0));
  config.spin_us = top.number32("spin_us", 0, 0, kMostSpinUs);
  config.slow_operation_ms = top.number32("slow_operation_ms", 0, 0, kMostSlowOperationMs);
  config.failover_ms = top.number32("failover_ms", kDefaultFailoverMs, 0, kMostFailoverMs);
  if (!is_failover_ms(config.failover_ms))
    top.refuse("failover_ms", "0, or at least {}, is expected", kLeastFailoverMs);
  if (const toml::table* table = top.table("limits")) read_limits(refusals, *table, config.limits);
  if (const toml::table* table = top.table("network")) read_internal_network(refusals, *table, config);
  if (const toml::table* table = top.table("metrics")) read_metrics(refusals, *table, config.metrics);
  if (const toml::table* table = top.table("managers")) read_managers(refusals, *table, config);
  std::vector<std::uint32_t> lines;
  if (const toml::array* entries = top.tables("server")) {
    for (const toml::node& entry : *entries) {
      auto index = static_cast<std::uint32_t>(config.servers.size());
      lines.push_back(line_of(entry));
      if (index == kMaxServers) refusals.add(lines.back(), "more than {} servers", kMaxServers);
      config.servers.emplace_back().index = index;
      read_server(refusals, *entry.as_table(), config.servers.back());
    }
  }
  top.finish();
  check_servers(refusals, config, lines, last_line);
  read_key(refusals, top.line("key_file"), key_file, config);
}

}  // namespace

Key derive_ensemble_key(std::string_view secret) {
  return derive_key("slice ensemble", 0, as_bytes(secret));
}

std::vector<IpAddress> ProxyConfig::addresses() const {
  if (second_address.none()) return {virtual_address};
  return {virtual_address, second_address};
}

std::string ProxyConfig::addresses_text() const {
  std::string text;
  for (const IpAddress each : addresses()) text += (text.empty() ? "" : " ") + address_text(each);
  return text;
}

std::string_view role_name(ServerRole role) {
  auto index = static_cast<std::size_t>(role);
  if (role == ServerRole::kRemoved) return "removed";
  return index < kRoleNames.size() ? kRoleNames[index] : "?";
}

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::array<std::pair<std::string_view, unsigned>, 6> kUnits{
      {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  auto known = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return u.first == unit; });
  if (error != std::errc{} || known == kUnits.end()) {
    return fail(Errc::kInvalid, "'{}' is not a size such as 512, 64KiB, 16MiB or 2GiB", text);
  }
  if (value > std::numeric_limits<std::uint64_t>::max() >> 1 >> known->second) {
    return fail(Errc::kInvalid, "'{}' is too large", text);
  }
  return value << known->second;
}

bool is_server_name(std::string_view name) {
  auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNameLength && std::all_of(name.begin(), name.end(), plain);
}

const ServerConfig* EnsembleConfig::find(std::string_view server_name) const {
  auto found = std::find_if(servers.begin(), servers.end(), [&](const ServerConfig& server) {
    return server.role != ServerRole::kRemoved && server.name == server_name;
  });
  return found == servers.end() ? nullptr : &*found;
}

bool EnsembleConfig::has_removed(std::string_view server_name) const {
  return std::any_of(servers.begin(), servers.end(), [&](const ServerConfig& server) {
    return server.role == ServerRole::kRemoved && server.name == server_name;
  });
}

std::size_t EnsembleConfig::count(ServerRole role) const {
  return static_cast<std::size_t>(std::count_if(
      servers.begin(), servers.end(), [&](const ServerConfig& server) { return server.role == role; }));
}

const ServerConfig* EnsembleConfig::first(ServerRole role) const {
  auto found = std::find_if(servers.begin(), servers.end(),
                            [&](const ServerConfig& server) { return server.role == role; });
  return found == servers.end() ? nullptr : &*found;
}

EnsembleConfig with_members(EnsembleConfig config, const std::vector<Member>& members) {
  std::vector<ServerConfig> servers;
  for (const Member& member : members) {
    const ServerConfig* known = member.role == ServerRole::kRemoved ? nullptr : config.find(member.name);
    ServerConfig server =
        known != nullptr ? *known : ServerConfig{.name = member.name, .data = "", .listed = false};
    server.role = member.role;
    server.address = member.address;
    server.port = member.port;
    const bool has_data = server.role != ServerRole::kProxy && server.role != ServerRole::kRemoved;
    if (server.data.empty() && has_data) {
      server.data = fmt::format("{}/{}", config.data_folder, member.name);
    }
    servers.push_back(std::move(server));
  }
  for (ServerConfig& server : config.servers) {
    auto same = [&](const Member& member) { return member.name == server.name; };
    if (std::none_of(members.begin(), members.end(), same)) servers.push_back(std::move(server));
  }
  for (std::size_t i = 0; i < servers.size(); ++i) servers[i].index = static_cast<std::uint32_t>(i);
  config.servers = std::move(servers);
  return config;
}

Result<EnsembleConfig> parse_ensemble(std::string_view text, const std::string& path) {
  Refusals refusals(path);
  check_lines(refusals, text);
  if (refusals.error()) return fail(*refusals.error());
  toml::parse_result parsed = toml::parse(text, std::string_view(path));
  if (!parsed) {
    return fail(Errc::kInvalid, "{}:{}: {}", path, parsed.error().source().begin.line,
                parsed.error().description());
  }
  EnsembleConfig config;
  config.path = path;
  auto lines = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n'));
  read_root(refusals, parsed.table(), config, std::max(lines, 1u));
  if (refusals.error()) return fail(*refusals.error());
  if (config.volume.copies > config.count(ServerRole::kStorage)) {
    return fail(Errc::kInvalid, "{}: [volume] copies: {} copies need as many storage nodes", path,
                config.volume.copies);
  }
  return config;
}

TlsConfig TlsConfig::of(std::string_view name) const {
  constexpr std::string_view kName = "{name}";
  TlsConfig out = *this;
  for (std::string* path : {&out.certificate, &out.key, &out.authority, &out.revoked}) {
    for (std::size_t at = 0; (at = path->find(kName, at)) != std::string::npos; at += name.size()) {
      path->replace(at, kName.size(), name);
    }
  }
  return out;
}

Result<std::vector<Key>> read_session_keys(const EnsembleConfig& config) {
  std::vector<Key> keys;
  for (const std::string& file : config.network.session_key_files) {
    auto secret = read_secret_or_nothing(file);
    if (!secret) return fail(std::move(secret).error());
    if (!secret->empty()) keys.push_back(derive_key("slice session", 0, as_bytes(*secret)));
  }
  if (keys.empty()) return fail(Errc::kInvalid, "none of the files holds a key");
  return keys;
}

Result<EnsembleConfig> load_ensemble(const std::string& path) {
  auto file = read_whole_file(path, kMaxConfigBytes);
  if (!file) return fail(Errc::kInvalid, "{}: cannot be read: {}", path, file.error().message);
  return parse_ensemble(file->bytes, path);
}

}  // namespace slice
