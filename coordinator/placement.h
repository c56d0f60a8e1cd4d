// Placement: on which storage servers stripes of files with a layout go (docs/block-maps.md). Pure.
#ifndef SLICE_COORDINATOR_PLACEMENT_H
#define SLICE_COORDINATOR_PLACEMENT_H

#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/weighted_choice.h"
#include "routing/tables.h"

namespace slice::coordinator {

// A storage server that may get stripes.
struct Room {
  std::uint32_t server = 0;
  std::uint64_t free_bytes = 0;  // above its reserve
};

// By the tables and the free space of a moment, for files with so many copies.
class Placement {
 public:
  // `tables` and `random` outlive it. A server without a room has no session: it gets what no other can take.
  Placement(const routing::RoutingTables& tables, const std::vector<Room>& rooms, std::uint32_t copies,
            const Random& random);

  // Whether there are as many servers in use, that is, not drained, as a file has copies.
  bool enough() const { return enough_; }
  // Listed sites for `count` stripes one after another: as many on each server as its share of the free
  // space, as evenly mixed as that allows; copies on the most hosts and racks; none on a drained server while
  // enough(). Where nobody has space: on all alike; they answer for themselves.
  std::vector<std::uint32_t> sites(std::size_t count);
  // A listed site of those servers of this one that are in use, and of others instead of the rest, so that
  // least is copied. None unless enough().
  std::optional<std::uint32_t> instead_of(SiteId site) const;

 private:
  struct Candidate {
    const wire::ServerEntry* server = nullptr;
    std::int64_t weight = 0;  // free MiB
    std::int64_t credit = 0;
  };
  using Servers = std::vector<const wire::ServerEntry*>;
  // Those of the candidates that are not among `chosen` and may best be beside these.
  std::vector<const Candidate*> best_beside(const Servers& chosen) const;

  const routing::RoutingTables& tables_;
  std::uint32_t copies_;
  const Random& random_;
  std::vector<Candidate> candidates_;
  bool enough_ = false;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_PLACEMENT_H
