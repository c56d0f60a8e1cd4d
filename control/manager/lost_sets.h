// A backing set that the manager's state does not know any more: its members are found by what its own file
// says on storage servers (docs/backing.md, "Where the manager's state is lost"). One loop.
#ifndef SLICE_CONTROL_MANAGER_LOST_SETS_H
#define SLICE_CONTROL_MANAGER_LOST_SETS_H

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/channel.h"
#include "wire/backing.h"
#include "wire/manager.h"

namespace slice::manager {

// What a storage server answers about one set.
struct SetOnNode {
  std::uint32_t storage = 0;
  bool answered = false;                         // else it is silent
  std::optional<wire::BackingMembersFile> file;  // none: nothing of the set is there, or it cannot be read
};

// The members of which the newest file tells. Whoever changes them has each one that stays a member note it
// durably before anything is acknowledged by it: so where all whom the newest file names have one, nothing
// was acknowledged without them. The set has the last known owner, and an epoch behind all that were given.
//   kNotFound: all answered, and none has anything of it
//   kUnavailable: who of the members is silent, or lacks its file
Result<wire::BackingSet> find_set_in(const std::vector<SetOnNode>& nodes, const wire::Tables& tables);
// Behind all epochs that may have been given to owners of what is on these nodes.
BackingEpoch epoch_behind(const std::vector<SetOnNode>& nodes);

// Asks all storage servers that are not lost. The channel outlives it.
Task<std::vector<SetOnNode>> ask_for_set(rpc::Channel& channel, wire::Tables tables, std::uint32_t server);

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_LOST_SETS_H
