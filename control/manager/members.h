// What operators change of the ensemble's members (CHANGE_SERVER): pure functions of the state.
#ifndef SLICE_CONTROL_MANAGER_MEMBERS_H
#define SLICE_CONTROL_MANAGER_MEMBERS_H

#include <string>

#include "common/config.h"
#include "control/manager/state.h"
#include "wire/manager.h"

namespace slice::manager {

// Changes the members in `next`, whose tables get another generation where that changes anything. An error
// says why it cannot be, and `next` is of no use then.
Status change_members(const EnsembleConfig& config, const wire::ChangeServerArgs& args, ManagerState& next);

// kInvalid: a server of `wanted`'s name cannot be at its endpoint.
Status check_endpoint(const EnsembleConfig& config, const wire::Tables& tables,
                      const wire::ServerEntry& wanted);

// What a server that is to be removed still has, or takes part in; empty: nothing.
std::string what_keeps(const ManagerState& state, const wire::ServerEntry& server);

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_MEMBERS_H
