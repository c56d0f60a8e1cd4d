#include "routing/place.h"

namespace slice::routing {

slice_route place_of(const slice_config& config, const slice_request& request, const std::uint8_t* end,
                     std::optional<std::uint64_t> size) {
  slice_route place{};
  slice_route_call(&config, &request, end, size.has_value() ? 1 : 0, size.value_or(0), &place);
  return place;
}

bool needs_member(const slice_config& config, const slice_request& request) {
  const bool maps = (config.flags & SLICE_CONFIG_MAPS) != 0;
  switch (request.procedure) {
    case SLICE_NFS_READ:
      return (request.handle_flags & SLICE_HANDLE_BLOCK_MAPPED) != 0 ||
             (maps && slice_handle_has_layout(request.handle_flags) != 0);
    case SLICE_NFS_WRITE:
    case SLICE_NFS_COMMIT:
      return slice_handle_has_layout(request.handle_flags) != 0;
    default:
      return config.name_hash == SLICE_NAME_HASH_SIPHASH13 && slice_needs_name_hash(&config, &request) != 0;
  }
}

SiteId coordinator_site(const slice_config& config, FileId file) {
  return SiteId{slice_coordinator_site(file.value, config.site_mask[SLICE_CLASS_COORDINATOR])};
}

}  // namespace slice::routing
