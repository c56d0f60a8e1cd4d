#include "common/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace slice {
namespace {

// Collects the keys of which two things differ.
class Keys {
 public:
  template <class T>
  Keys& compare(std::string_view key, const T& a, const T& b) {
    if (!(a == b)) differing_.emplace_back(key);
    return *this;
  }
  std::vector<std::string> take() { return std::move(differing_); }

 private:
  std::vector<std::string> differing_;
};

void compare_volumes(Keys& keys, const VolumeConfig& a, const VolumeConfig& b) {
  keys.compare("[volume] id", a.id, b.id)
      .compare("[volume] threshold", a.threshold, b.threshold)
      .compare("[volume] stripe_unit", a.stripe_shift, b.stripe_shift)
      .compare("[volume] name_policy", a.policy, b.policy)
      .compare("[volume] name_hash", a.hash, b.hash)
      .compare("[volume] root_mode", a.root_mode, b.root_mode)
      .compare("[volume] root_uid", a.root_uid, b.root_uid)
      .compare("[volume] root_gid", a.root_gid, b.root_gid)
      .compare("[volume] mkdir_probability", a.mkdir_probability, b.mkdir_probability);
}

void compare_tls(Keys& keys, std::string_view section, const TlsConfig& a, const TlsConfig& b) {
  keys.compare(fmt::format("{} tls_certificate", section), a.certificate, b.certificate)
      .compare(fmt::format("{} tls_key", section), a.key, b.key)
      .compare(fmt::format("{} tls_authority", section), a.authority, b.authority)
      .compare(fmt::format("{} tls_revoked", section), a.revoked, b.revoked);
}

void compare_networks(Keys& keys, const NetworkConfig& a, const NetworkConfig& b) {
  keys.compare("[network] internal", a.internal, b.internal)
      .compare("[network] session_keys", a.session_key_files, b.session_key_files)
      .compare("[network] cover", a.cover_all, b.cover_all);
  compare_tls(keys, "[network]", a.tls, b.tls);
}

void compare_managers(Keys& keys, const ManagersConfig& a, const ManagersConfig& b) {
  keys.compare("[managers] etcd", a.etcd, b.etcd)
      .compare("[managers] etcd_prefix", a.etcd_prefix, b.etcd_prefix)
      .compare("[managers] etcd_user", a.etcd_user, b.etcd_user)
      .compare("[managers] etcd_tls_authority", a.etcd_tls_authority, b.etcd_tls_authority)
      .compare("[managers] etcd_tls_certificate", a.etcd_tls_certificate, b.etcd_tls_certificate)
      .compare("[managers] etcd_tls_key", a.etcd_tls_key, b.etcd_tls_key)
      .compare("[managers] lease_seconds", a.lease_s, b.lease_s);
}

void compare_proxies(Keys& keys, const ProxyConfig& a, const ProxyConfig& b) {
  keys.compare("[proxy] virtual_address", a.addresses(), b.addresses())
      .compare("[proxy] nfs_port", a.nfs_port, b.nfs_port)
      .compare("[proxy] mount_port", a.mount_port, b.mount_port)
      .compare("[proxy] portmap_port", a.portmap_port, b.portmap_port)
      .compare("[proxy] xdp", a.xdp, b.xdp)
      .compare("[proxy] bpf_folder", a.bpf_folder, b.bpf_folder)
      .compare("[proxy] threads", a.threads, b.threads)
      .compare("[proxy] interfaces", a.interfaces, b.interfaces)
      .compare("[proxy] address_interface", a.address_interface, b.address_interface)
      .compare("[proxy] address_patience_ms", a.address_patience_ms, b.address_patience_ms);
  compare_tls(keys, "[proxy]", a.tls, b.tls);
}

void compare_servers(Keys& keys, const EnsembleConfig& running, const EnsembleConfig& read,
                     const std::vector<std::string>& own) {
  for (const ServerConfig& b : read.servers) {
    const ServerConfig* a = running.find(b.name);
    auto key = [&b](std::string_view what) { return fmt::format("{} of server '{}'", what, b.name); };
    if (a == nullptr) {
      if (b.role == ServerRole::kManager) keys.compare(key("name"), true, false);
      continue;
    }
    keys.compare(key("role"), a->role, b.role);
    // Where the others are say the members.
    if (b.role == ServerRole::kManager) {
      keys.compare(key("address"), a->address, b.address).compare(key("port"), a->port, b.port);
    }
    const bool is_own = std::find(own.begin(), own.end(), b.name) != own.end();
    if (!is_own || !a->listed) continue;
    keys.compare(key("data"), a->data, b.data)
        .compare(key("metrics_port"), a->metrics_port, b.metrics_port)
        .compare(key("backing"), a->backing_copies, b.backing_copies)
        .compare(key("standbys"), a->places, b.places)
        .compare(key("cache"), a->cache_bytes, b.cache_bytes)
        .compare(key("direct_reads"), a->direct_reads, b.direct_reads)
        .compare(key("address_interface"), a->address_interface, b.address_interface)
        .compare(key("emulated_disk"), a->emulated_disk, b.emulated_disk);
  }
}

}  // namespace

bool Settings::has_export_of(std::string_view path) const {
  return std::any_of(exports.begin(), exports.end(),
                     [path](const ExportConfig& entry) { return entry.path == path; });
}

const std::string* Settings::exported_as(TreeId tree) const {
  static const std::string whole = "/";
  for (std::size_t steps = 0; tree.value != 0 && steps <= trees.size(); ++steps) {
    const auto found = trees.find(tree);
    if (found == trees.end()) return nullptr;
    if (has_export_of(found->second.path)) return &found->second.path;
    tree = found->second.above;
  }
  return tree.value == 0 ? &whole : nullptr;
}

const ExportConfig* Settings::export_for(TreeId tree, IpAddress address) const {
  const std::string* path = exported_as(tree);
  if (path == nullptr) return nullptr;
  const auto found = std::find_if(exports.begin(), exports.end(), [&](const ExportConfig& entry) {
    return entry.path == *path && entry.clients.has(address);
  });
  return found == exports.end() ? nullptr : &*found;
}

const ExportConfig* Settings::any_export_for(IpAddress address) const {
  const auto found = std::find_if(exports.begin(), exports.end(), [address](const ExportConfig& entry) {
    return entry.clients.has(address);
  });
  return found == exports.end() ? nullptr : &*found;
}

const Trees::value_type* Settings::tree_at(std::string_view path) const {
  const auto found =
      std::find_if(trees.begin(), trees.end(), [path](const auto& each) { return each.second.path == path; });
  return found == trees.end() ? nullptr : &*found;
}

std::vector<std::string> Settings::exports_of_no_tree() const {
  std::vector<std::string> paths;
  for (const ExportConfig& entry : exports) {
    if (entry.path == "/" || tree_at(entry.path) != nullptr) continue;
    if (std::find(paths.begin(), paths.end(), entry.path) == paths.end()) paths.push_back(entry.path);
  }
  return paths;
}

std::uint64_t Settings::reserve_of(const ServerConfig& server) const {
  auto found = reserves.find(server.name);
  return found == reserves.end() ? server.reserve_bytes : found->second;
}

Settings settings_of(const EnsembleConfig& config) {
  Settings settings{.generation = {},
                    .export_path = config.volume.export_path,
                    .exports = config.exports,
                    .copies = config.volume.copies,
                    .placement = config.volume.placement,
                    .log_level = config.log_level,
                    .slow_operation_ms = config.slow_operation_ms,
                    .failover_ms = config.failover_ms,
                    .limits = config.limits,
                    .reserves = {}};
  for (const ServerConfig& server : config.servers) {
    if (server.listed && !server.data.empty()) settings.reserves[server.name] = server.reserve_bytes;
  }
  return settings;
}

std::vector<std::string> differences(const Settings& a, const Settings& b) {
  Keys keys;
  keys.compare("[volume] export", a.export_path, b.export_path)
      .compare("[[export]]", a.exports, b.exports)
      .compare("[volume] copies", a.copies, b.copies)
      .compare("[volume] placement", a.placement, b.placement)
      .compare("log_level", a.log_level, b.log_level)
      .compare("slow_operation_ms", a.slow_operation_ms, b.slow_operation_ms)
      .compare("failover_ms", a.failover_ms, b.failover_ms)
      .compare("[limits] connections", a.limits.connections, b.limits.connections)
      .compare("[limits] connections_of_address", a.limits.connections_of_address,
               b.limits.connections_of_address)
      .compare("[limits] memory", a.limits.memory, b.limits.memory)
      .compare("[limits] memory_of_address", a.limits.memory_of_address, b.limits.memory_of_address)
      .compare("[limits] calls", a.limits.calls, b.limits.calls)
      .compare("[limits] calls_of_address", a.limits.calls_of_address, b.limits.calls_of_address);
  std::vector<std::string> differing = keys.take();
  for (const auto& [name, bytes] : b.reserves) {
    auto other = a.reserves.find(name);
    if (other == a.reserves.end() || other->second != bytes) {
      differing.push_back(fmt::format("reserve of server '{}'", name));
    }
  }
  for (const auto& [name, bytes] : a.reserves) {
    if (!b.reserves.contains(name)) differing.push_back(fmt::format("reserve of server '{}'", name));
  }
  return differing;
}

std::vector<std::string> fixed_differences(const EnsembleConfig& running, const EnsembleConfig& read,
                                           const std::vector<std::string>& own) {
  constexpr std::array<std::string_view, 4> kSites{"[sites] directory", "[sites] small-file",
                                                   "[sites] storage", "[sites] coordinator"};
  Keys keys;
  keys.compare("name", running.name, read.name)
      .compare("data_folder", running.data_folder, read.data_folder)
      .compare("key_file", running.ensemble_key, read.ensemble_key)
      .compare("log_format", running.log_format, read.log_format)
      .compare("spin_us", running.spin_us, read.spin_us);
  compare_volumes(keys, running.volume, read.volume);
  for (std::size_t i = 0; i < kSites.size(); ++i) {
    keys.compare(kSites[i], running.site_counts[i], read.site_counts[i]);
  }
  compare_networks(keys, running.network, read.network);
  compare_managers(keys, running.managers, read.managers);
  keys.compare("[metrics]", running.metrics.served, read.metrics.served)
      .compare("[metrics] port", running.metrics.port, read.metrics.port)
      .compare("[metrics] scrapers", running.metrics.scrapers, read.metrics.scrapers)
      .compare("[metrics] clients", running.metrics.clients, read.metrics.clients);
  compare_proxies(keys, running.proxy, read.proxy);
  compare_servers(keys, running, read, own);
  return keys.take();
}

std::shared_ptr<const Settings> LiveSettings::get() const {
  std::lock_guard lock(mutex_);
  return current_;
}

void LiveSettings::set(Settings next) {
  auto made = std::make_shared<const Settings>(std::move(next));
  {
    std::lock_guard lock(mutex_);
    current_ = made;
    version_.fetch_add(1, std::memory_order_release);
  }
  if (watcher_) watcher_(*made);
}

}  // namespace slice
