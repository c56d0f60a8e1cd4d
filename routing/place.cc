#include "routing/place.h"

namespace slice::routing {

slice_route place_of(const slice_config& config, const slice_request& request, const std::uint8_t* end,
                     std::optional<std::uint64_t> size) {
  slice_route place{};
  slice_route_call(&config, &request, end, size.has_value() ? 1 : 0, size.value_or(0), &place);
  return place;
}

SiteId coordinator_site(const slice_config& config, FileId file) {
  return SiteId{slice_coordinator_site(file.value, config.site_mask[SLICE_CLASS_COORDINATOR])};
}

}  // namespace slice::routing
