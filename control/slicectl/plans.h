// What slicectl plans of moves of sites, and has the manager carry out (docs/moves.md).
#ifndef SLICE_CONTROL_SLICECTL_PLANS_H
#define SLICE_CONTROL_SLICECTL_PLANS_H

#include <memory>
#include <vector>

#include "control/slicectl/queries.h"
#include "control/slicectl/render.h"

namespace slice::slicectl {

inline bool going_on(const wire::MoveState& move) {
  return move.ended_ns == 0;
}

// Also of one that does not answer, since nobody knows; but not of one that cannot tell.
inline bool going_on(const Spread& spread) {
  if (!spread.state) return spread.state.error().code != Errc::kInvalid;
  return spread.state->phase != wire::SpreadPhase::kNever && spread.state->ended_ns == 0;
}

// What the manager tells of now.
struct Known {
  wire::MembersResult members;
  std::shared_ptr<const routing::RoutingTables> tables;
  wire::MovesListResult going;
};
Task<Result<Known>> ask_known(const Seams& seams);

// What is to move until every server of the class has its share; of those sites that are not on their way.
// kInvalid: no server could have them.
Result<Plan> plan_of(const Known& known, wire::Role site_class);
// The same of the classes that can be moved and that have servers.
Result<std::vector<Plan>> plans_of(const Known& known);
// And of it what takes all sites of one server away: what the others have stays, they get this one's by their
// shares.
Result<Plan> plan_without(const Known& known, const wire::ServerEntry& server);

Task<Status> carry_out(const Seams& seams, Plan plan);
// Has all coordinators even out where files with a layout are, which no move of sites takes along; ends when
// they have recorded that. kUnavailable: one of them has not.
Task<Status> spread_layouts(const Seams& seams, const Known& known);
// Has them leave off, likewise.
Task<Status> stop_spreading(const Seams& seams, const routing::RoutingTables& tables);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_PLANS_H
