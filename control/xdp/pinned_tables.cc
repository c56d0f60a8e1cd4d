#include "control/xdp/pinned_tables.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include "bpf/shared/map_abi.h"
#include "bpf/shared/routing.h"
#include "routing/tables.h"

namespace slice::proxy {
namespace {

// A pinned array map.
class PinnedMap {
 public:
  PinnedMap(const std::string& folder, const char* name, std::size_t value_size)
      : fd_(bpf_obj_get((folder + "/" + name).c_str())) {
    bpf_map_info info{};
    std::uint32_t size = sizeof info;
    good_ = fd_ >= 0 && bpf_obj_get_info_by_fd(fd_, &info, &size) == 0 && info.type == BPF_MAP_TYPE_ARRAY &&
            info.value_size == value_size;
  }
  PinnedMap(const PinnedMap&) = delete;
  PinnedMap& operator=(const PinnedMap&) = delete;
  ~PinnedMap() {
    if (fd_ >= 0) ::close(fd_);
  }
  template <class Value>
  bool read(std::uint32_t key, Value& out) const {
    return good_ && bpf_map_lookup_elem(fd_, &key, &out) == 0;
  }

 private:
  int fd_;
  bool good_ = false;
};

bool of_this_volume(const slice_config& pinned, const slice_config& own) {
  return pinned.abi == SLICE_MAP_ABI && pinned.volume == own.volume && pinned.generation > 0 &&
         std::equal(std::begin(pinned.site_mask), std::end(pinned.site_mask), std::begin(own.site_mask));
}

}  // namespace

std::optional<wire::Tables> pinned_tables(const EnsembleConfig& config) {
  if (config.proxy.xdp == ProxyConfig::Xdp::kOff) return std::nullopt;  // nobody would keep them
  wire::Tables tables = routing::RoutingTables::initial(config);
  auto own = routing::RoutingTables::make(config, tables);
  slice_config pinned{};
  PinnedMap configs(config.proxy.bpf_folder, "config", sizeof pinned);
  if (!own || !configs.read(0, pinned) || !of_this_volume(pinned, (*own)->core())) return std::nullopt;
  tables.generation = Generation{pinned.generation};
  PinnedMap sites(config.proxy.bpf_folder, "sites", sizeof(slice_site));
  for (std::uint32_t site_class = 0; site_class < wire::kSiteClasses; ++site_class) {
    for (std::uint32_t site = 0; site < tables.sites[site_class].size(); ++site) {
      slice_site entry{};
      if (!sites.read(slice_site_key(site_class, site), entry) || entry.server == 0) return std::nullopt;
      tables.sites[site_class][site] = entry.server - 1;
    }
  }
  if (!routing::RoutingTables::make(config, tables)) return std::nullopt;
  return tables;
}

}  // namespace slice::proxy
