#include "routing/tables.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <set>

#include "routing/deal.h"
#include "routing/place.h"
#include "wire/listed_site.h"

namespace slice::routing {
namespace {

slice_config make_core(const EnsembleConfig& config, const wire::Tables& tables) {
  slice_config core{};
  core.abi = SLICE_MAP_ABI;
  std::uint8_t address[4];
  store_be(address, config.proxy.address_of(true).v4());
  std::copy_n(address, 4, core.virtual_ipv4);
  core.nfs_port = config.proxy.nfs_port;
  core.volume = config.volume.id.value;
  core.generation = static_cast<std::uint32_t>(tables.generation.value);
  core.policy = config.volume.policy == VolumeConfig::NamePolicy::kNameHashing ? SLICE_POLICY_NAME_HASHING
                                                                               : SLICE_POLICY_MKDIR_SWITCHING;
  core.name_hash = config.volume.hash == VolumeConfig::NameHash::kSipHash13 ? SLICE_NAME_HASH_SIPHASH13
                                                                            : SLICE_NAME_HASH_MD5;
  core.threshold = config.volume.threshold;
  core.mkdir_limit = static_cast<std::uint64_t>(std::ldexp(config.volume.mkdir_probability.value_or(0), 32));
  std::copy(config.name_key.begin(), config.name_key.end(), core.name_key);
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) core.site_mask[c] = config.site_counts[c] - 1;
  return core;
}

// Whether every site of a class is there, and at a server of the class; or, if it may be, at a removed one.
Status check_sites(const EnsembleConfig& config, const wire::Tables& tables, std::size_t site_class,
                   const std::vector<std::uint32_t>& sites, bool may_be_removed = false) {
  std::string_view name = role_name(static_cast<ServerRole>(site_class));
  if (!std::has_single_bit(sites.size()) || sites.size() != config.site_counts[site_class]) {
    return fail(Errc::kInvalid, "tables: {} {} sites, the configuration has {}", sites.size(), name,
                config.site_counts[site_class]);
  }
  for (std::size_t site = 0; site < sites.size(); ++site) {
    const wire::ServerEntry* server =
        sites[site] < tables.servers.size() ? &tables.servers[sites[site]] : nullptr;
    const bool fits = server != nullptr && (server->role == static_cast<wire::Role>(site_class) ||
                                            (may_be_removed && server->role == wire::Role::kRemoved));
    if (!fits) {
      return fail(Errc::kInvalid, "tables: {} site {} is bound to {}, no {} server", name, site, sites[site],
                  name);
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const RoutingTables>> RoutingTables::make(const EnsembleConfig& config,
                                                                 const wire::Tables& tables) {
  if (tables.servers.size() > kMaxServers) {
    return fail(Errc::kInvalid, "tables: {} servers, of {} at most", tables.servers.size(), kMaxServers);
  }
  for (std::size_t i = 0; i < tables.servers.size(); ++i) {
    if (tables.servers[i].server != i) {
      return fail(Errc::kInvalid, "tables: server {} stands at position {}", tables.servers[i].server, i);
    }
    // Servers name one another by these positions, so everybody's configuration must have the same ones; a
    // configuration that is only longer or shorter does.
    if (i < config.servers.size() && tables.servers[i].name != config.servers[i].name) {
      return fail(Errc::kInvalid, "tables: server {} is '{}', in this process's configuration '{}'", i,
                  tables.servers[i].name, config.servers[i].name);
    }
  }
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) {
    SLICE_RETURN_IF_ERROR(check_sites(config, tables, c, tables.sites[c]));
  }
  if (!tables.layout_sites.empty()) {
    SLICE_RETURN_IF_ERROR(check_sites(config, tables, static_cast<std::size_t>(wire::Role::kStorage),
                                      tables.layout_sites, true));
  }
  std::shared_ptr<RoutingTables> made(new RoutingTables());
  made->tables_ = tables;
  made->core_ = make_core(config, tables);
  const auto& owners = made->layout_sites();
  made->some_are_left_ =
      std::any_of(owners.begin(), owners.end(), [&](std::uint32_t server) { return made->leaves(server); });
  std::set<std::uint32_t> may_have(owners.begin(), owners.end());
  for (const wire::ServerEntry& server : tables.servers) {
    if (server.role != wire::Role::kStorage) may_have.erase(server.server);
    if (!server.started) continue;
    may_have.insert(server.server);
    (server.drained ? made->some_are_left_ : made->some_came_later_) = true;
  }
  made->layout_servers_.assign(may_have.begin(), may_have.end());
  return std::shared_ptr<const RoutingTables>(std::move(made));
}

wire::Tables RoutingTables::initial(const EnsembleConfig& config) {
  wire::Tables tables;
  for (const ServerConfig& server : config.servers) {
    tables.servers.push_back({.server = server.index,
                              .role = static_cast<wire::Role>(server.role),
                              .endpoint = {server.address, server.port},
                              .name = server.name,
                              .weight = server.weight,
                              .host = server.host,
                              .rack = server.rack});
  }
  for (std::size_t c = 0; c < wire::kSiteClasses; ++c) {
    std::vector<wire::ServerEntry> holders;
    for (const wire::ServerEntry& server : tables.servers) {
      if (server.role == static_cast<wire::Role>(c)) holders.push_back(server);
    }
    if (!holders.empty()) tables.sites[c] = deal_sites(holders, config.site_counts[c]);
  }
  return tables;
}

SiteId RoutingTables::small_file_site(FileId file) const {
  return SiteId{slice_small_file_site(file.value, core_.site_mask[SLICE_CLASS_SMALL_FILE])};
}

SiteId RoutingTables::coordinator_site(FileId file) const {
  return routing::coordinator_site(core_, file);
}

SiteId RoutingTables::storage_site(FileId file, std::uint64_t offset, std::uint8_t stripe_shift) const {
  return SiteId{
      slice_storage_site(file.value, offset >> (stripe_shift & 63), core_.site_mask[SLICE_CLASS_STORAGE])};
}

std::uint64_t RoutingTables::name_hash(FileId parent, std::string_view name) const {
  name = name.substr(0, nfs3::kMaxName);
  ByteView bytes = as_bytes(name);
  slice_name_words memory;
  return slice_name_hash(&core_, &memory, parent.value, bytes.data(),
                         static_cast<std::uint32_t>(bytes.size()), bytes.data() + bytes.size());
}

SiteId RoutingTables::name_site(nfs3::Procedure procedure, SiteId directory, std::uint64_t hash) const {
  return SiteId{slice_route_name(&core_, static_cast<std::uint32_t>(procedure), directory.value, hash)};
}

std::optional<Route> RoutingTables::place_of(nfs3::Procedure procedure, ByteView arguments,
                                             std::optional<std::uint64_t> size) const {
  if (procedure == nfs3::Procedure::kNull || arguments.empty()) return std::nullopt;
  slice_request request{};
  request.procedure = static_cast<std::uint32_t>(procedure);
  const std::uint8_t* at = arguments.data();
  const std::uint8_t* end = at + arguments.size();
  if (slice_parse_handle(&at, end, &request.handle) != 0 || slice_read_handle(&core_, &request) != 0) {
    return std::nullopt;
  }
  std::uint32_t outcome = slice_parse_beyond_handle(&core_, at, end, &request);
  if (outcome != 0 && slice_is_name_trouble(outcome) == 0) return std::nullopt;
  slice_route place = routing::place_of(core_, request, end, size);
  return Route{static_cast<wire::Role>(place.site_class), SiteId{place.site}};
}

const wire::ServerEntry& RoutingTables::server_of(wire::Role site_class, SiteId site) const {
  auto c = static_cast<std::size_t>(site_class);
  assert(c < wire::kSiteClasses);
  return tables_.servers[tables_.sites[c][site.value & core_.site_mask[c]]];
}

const wire::ServerEntry* RoutingTables::server(std::uint32_t index) const {
  return index < tables_.servers.size() ? &tables_.servers[index] : nullptr;
}

bool RoutingTables::removed(std::uint32_t index) const {
  return index < tables_.servers.size() && tables_.servers[index].role == wire::Role::kRemoved;
}

bool RoutingTables::lost(std::uint32_t index) const {
  return index < tables_.servers.size() && tables_.servers[index].lost.value != 0;
}

std::vector<const wire::ServerEntry*> RoutingTables::servers(wire::Role role) const {
  std::vector<const wire::ServerEntry*> found;
  auto c = static_cast<std::size_t>(role);
  std::set<std::uint32_t> holders;
  if (c < wire::kSiteClasses) holders.insert(tables_.sites[c].begin(), tables_.sites[c].end());
  if (role == wire::Role::kStorage) holders.insert(layout_sites().begin(), layout_sites().end());
  for (const wire::ServerEntry& server : tables_.servers) {
    bool wanted =
        server.role == role && (c >= wire::kSiteClasses || holders.contains(server.server) || server.started);
    if (wanted) found.push_back(&server);
  }
  return found;
}

const std::vector<std::uint32_t>& RoutingTables::layout_sites() const {
  return tables_.layout_sites.empty() ? tables_.sites[static_cast<std::size_t>(wire::Role::kStorage)]
                                      : tables_.layout_sites;
}

std::vector<std::uint32_t> RoutingTables::copies_of(SiteId site, std::uint32_t copies) const {
  if (wire::is_listed(site.value)) return named_by(site, copies);
  const auto& sites = layout_sites();
  return owners_from(site.value, core_.site_mask[SLICE_CLASS_STORAGE], copies, [&](std::uint32_t at) {
    return removed(sites[at]) ? std::nullopt : std::optional(sites[at]);
  });
}

std::vector<std::uint32_t> RoutingTables::named_by(SiteId site, std::uint32_t copies) const {
  if (wire::is_listed(site.value)) {
    std::vector<std::uint32_t> servers = wire::listed_servers(site.value);
    servers.resize(std::min<std::size_t>(servers.size(), copies));
    return servers;
  }
  return owners_from(site.value, core_.site_mask[SLICE_CLASS_STORAGE], copies,
                     [&](std::uint32_t at) { return std::optional(layout_sites()[at]); });
}

bool RoutingTables::leaves(std::uint32_t server) const {
  return server >= tables_.servers.size() || tables_.servers[server].drained || removed(server);
}

bool RoutingTables::is_left(SiteId site, std::uint32_t copies) const {
  if (!some_are_left_) return false;
  const auto owners = named_by(site, copies);
  return std::any_of(owners.begin(), owners.end(), [&](std::uint32_t server) { return leaves(server); });
}

bool RoutingTables::owns(std::uint32_t server, wire::Role site_class, SiteId site) const {
  const auto c = static_cast<std::size_t>(site_class);
  return c < wire::kSiteClasses && site.value <= core_.site_mask[c] &&
         tables_.servers[tables_.sites[c][site.value]].server == server;
}

}  // namespace slice::routing
