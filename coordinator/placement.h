// Placement by free space: on which storage sites new stripes go (docs/block-maps.md). A pure function.
#ifndef SLICE_COORDINATOR_PLACEMENT_H
#define SLICE_COORDINATOR_PLACEMENT_H

#include <cstdint>
#include <functional>
#include <vector>

#include "routing/tables.h"

namespace slice::coordinator {

// A storage server that may get stripes.
struct Room {
  std::uint32_t server = 0;
  std::uint64_t free_bytes = 0;  // above its reserve
};

// Sites for `count` stripes of a file with so many copies one after another: as many on each server as its
// share of the free space, as evenly mixed as that allows; none on a drained one while there are others. Of
// the sites of a server those count that are not left (RoutingTables::is_left), and whose copies are on the
// most hosts and racks.
// Where nobody has space, or `rooms` names no server with sites: on all servers alike; they answer for
// themselves. `random`: 64 random bits.
std::vector<std::uint16_t> place_by_free_space(const routing::RoutingTables& tables,
                                               const std::vector<Room>& rooms, std::uint32_t copies,
                                               std::size_t count,
                                               const std::function<std::uint64_t()>& random);

// The sites, of those that are not left (RoutingTables::is_left), whose servers have most in common with
// those of this one: what goes there from here is copied to the fewest. None where all are left.
std::vector<std::uint16_t> sites_instead_of(const routing::RoutingTables& tables, SiteId site,
                                            std::uint32_t copies);

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_PLACEMENT_H
