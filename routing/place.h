// place_of: on which site a call is carried out, by the routing core. Whoever decides that asks this, or
// RoutingTables, which do.
#ifndef SLICE_ROUTING_PLACE_H
#define SLICE_ROUTING_PLACE_H

#include <cstdint>
#include <optional>

#include "bpf/shared/routing.h"
#include "common/ids.h"

namespace slice::routing {

// Where a parsed call goes: what slice_route_call says. `end`: as there. `size`: what is known of the file's;
// a COMMIT goes to the small-file site when it is given and at most the threshold. Any thread.
slice_route place_of(const slice_config& config, const slice_request& request, const std::uint8_t* end,
                     std::optional<std::uint64_t> size = std::nullopt);
// Whether a proxy of the ensemble has to do it: to be routed, a member's knowledge is needed (of layouts, of
// a secret hash), or a member's word (mirrored WRITEs, docs/mirrors.md). `config` is one without secrets.
bool needs_member(const slice_config& config, const slice_request& request);
SiteId coordinator_site(const slice_config& config, FileId file);

}  // namespace slice::routing

#endif  // SLICE_ROUTING_PLACE_H
