#include "proxy/tables/routes.h"

#include <algorithm>

namespace slice::proxy {
namespace {

std::uint32_t server_of(const slice_site& site) {
  const std::uint32_t key = slice_load_relaxed32(&site.server);
  return key == 0 || key >= SLICE_MAX_SERVERS ? wire::kUnbound : key - 1;
}

bool in_force(const slice_config& config) {
  return slice_load_relaxed32(&config.abi) == SLICE_MAP_ABI;
}

// Whether they have the numbers that a volume never changes.
bool of_one_volume(const wire::Routes& routes, const slice_config& config) {
  bool same = config.volume == routes.volume && config.policy == routes.policy &&
              config.name_hash == routes.name_hash && config.threshold == routes.threshold;
  for (std::uint32_t site_class = 0; site_class < SLICE_CLASSES; ++site_class)
    same = same && config.site_mask[site_class] + std::size_t{1} == routes.sites[site_class].size();
  return same;
}

void set_volume(const wire::Routes& routes, slice_config& config) {
  config.volume = routes.volume;
  config.policy = routes.policy;
  config.name_hash = routes.name_hash;
  config.threshold = routes.threshold;
  for (std::uint32_t site_class = 0; site_class < SLICE_CLASSES; ++site_class)
    config.site_mask[site_class] = static_cast<std::uint32_t>(routes.sites[site_class].size() - 1);
}

}  // namespace

wire::Routes routes_of(const Tables& tables) {
  const slice_config& config = *tables.config;
  wire::Routes routes{.generation = Generation{slice_load_relaxed32(&config.generation)},
                      .changed = true,
                      .volume = config.volume,
                      .policy = config.policy,
                      .name_hash = config.name_hash,
                      .maps = (config.flags & SLICE_CONFIG_MAPS) != 0,
                      .threshold = config.threshold,
                      .mkdir_limit = config.mkdir_limit};
  std::uint32_t last = 0;  // of those that have a site
  for (std::uint32_t site_class = 0; site_class < SLICE_CLASSES; ++site_class) {
    for (std::uint32_t site = 0; site <= config.site_mask[site_class]; ++site) {
      const std::uint32_t server = server_of(tables.sites[slice_site_key(site_class, site)]);
      routes.sites[site_class].push_back(server);
      if (server != wire::kUnbound) last = std::max(last, server);
    }
  }
  for (std::uint32_t server = 0; server <= last; ++server)
    routes.servers.push_back(tables.endpoint_at(server + 1).value_or(rpc::Endpoint{}));
  return routes;
}

Status follow(const wire::Routes& routes, const Tables& tables) {
  slice_config& config = *tables.config;
  if (!in_force(config)) {
    set_volume(routes, config);
  } else if (!of_one_volume(routes, config)) {
    return fail(Errc::kInvalid, "the routes are those of another volume");
  }
  slice_store_relaxed64(&config.mkdir_limit, routes.mkdir_limit);
  for (std::uint32_t server = 0; server < routes.servers.size() && server + 1 < SLICE_MAX_SERVERS; ++server)
    tables.set_endpoint(server + 1, routes.servers[server]);
  const auto generation = static_cast<std::uint32_t>(routes.generation.value);
  for (std::uint32_t site_class = 0; site_class < SLICE_CLASSES; ++site_class) {
    const auto& sites = routes.sites[site_class];
    for (std::uint32_t site = 0; site < sites.size(); ++site)
      tables.bind(site_class, site, sites[site] == wire::kUnbound ? 0 : sites[site] + 1, generation);
  }
  slice_store_relaxed32(&config.flags, routes.maps ? SLICE_CONFIG_MAPS : 0);
  slice_store_relaxed32(&config.generation, generation);
  slice_store_relaxed32(&config.abi, SLICE_MAP_ABI);
  return {};
}

}  // namespace slice::proxy
