// BackingSets: the manager's part in backing sets (docs/backing.md): who the owner of each is, under which
// epoch, and which storage servers have a whole copy. All of it is in the state. One loop.
#ifndef SLICE_CONTROL_MANAGER_BACKING_SETS_H
#define SLICE_CONTROL_MANAGER_BACKING_SETS_H

#include <functional>
#include <optional>
#include <vector>

#include "common/metrics.h"
#include "control/manager/lost_sets.h"
#include "control/manager/state.h"
#include "wire/backing.h"

namespace slice::manager {

// Directory servers, small-file servers and coordinators may.
bool may_have_set(const wire::ServerEntry& server);

// The set of that server; null: it has none.
const wire::BackingSet* find_set(const ManagerState& state, std::uint32_t server);

// A storage server for one more copy of a set that has these members; none: there is no such one. Never one
// that is drained, lost or silent; of those on a host of which no member is the one with the fewest copies,
// and the lowest number where several have as few. A member's host is taken only where all storage servers
// in use are on members' hosts.
std::optional<std::uint32_t> spare_for(const ManagerState& state, const std::vector<std::uint32_t>& members,
                                       const std::function<bool(std::uint32_t server)>& alive);

class BackingSets {
 public:
  struct Hooks {
    const ManagerState& state;
    ChangeState change;
    std::function<bool(std::uint32_t server)> alive;
    // Two processes are heard of, lately, that say that they are this server.
    std::function<bool(std::uint32_t server)> is_twice;
    // What storage servers have of a server's set.
    std::function<Task<std::vector<SetOnNode>>(std::uint32_t server)> ask_nodes;
    // That run was told to serve in place of the one before (control/manager/failovers.h).
    std::function<bool(std::uint32_t server, std::uint64_t instance)> is_to_serve;
  };
  BackingSets(Metrics& metrics, Hooks hooks);

  Task<wire::BackingClaimResult> claim(wire::BackingClaimArgs args);
  Task<wire::BackingMembersResult> set_members(wire::BackingMembersArgs args);
  Task<wire::BackingKeepResult> keep(wire::BackingKeepArgs args);
  Task<wire::BackingAdoptResult> adopt(wire::BackingAdoptArgs args);
  wire::BackingSpareResult spare(const wire::BackingSpareArgs& args) const;
  wire::BackingSetsResult list() const;

 private:
  // It has served, and has no set as far as the state knows.
  bool may_be_lost(std::uint32_t server) const;
  // With `lost` where the state has no set.
  Status claim_in(const wire::BackingClaimArgs& args, const Result<wire::BackingSet>& lost,
                  ManagerState& next) const;
  // A set that there was none of.
  Status make(const wire::BackingClaimArgs& args, ManagerState& next) const;
  Status change_members(const wire::BackingMembersArgs& args, ManagerState& next) const;

  Hooks hooks_;
  Counter &claims_, &changes_, &refused_, &found_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_BACKING_SETS_H
