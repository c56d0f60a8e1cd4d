// ManagerState: what slice-managerd must not forget: the largest verifier drawn, the routing tables with
// their generation, which servers have a record of their sites, which moves of sites go on, and who has which
// backing set. Kept in one small file that is replaced whole (docs/formats/manager-state.md).
#ifndef SLICE_CONTROL_MANAGER_STATE_H
#define SLICE_CONTROL_MANAGER_STATE_H

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/config.h"
#include "control/manager/state_store.h"
#include "wire/backing.h"
#include "wire/manager.h"
#include "wire/moves.h"

namespace slice::manager {

// A move of sites that has not ended.
struct MoveRecord {
  wire::SiteMove move;
  bool aborting = false;
  std::uint64_t began_ns = 0;  // wall clock
};

struct ManagerState {
  Verifier drawn;       // 0: none yet
  VolumeConfig volume;  // as the volume was made: id, threshold, name policy and hash alone are kept
  wire::Tables tables;
  std::set<std::string>
      recorded;  // names of servers that have a record: one of them without has lost its data
  std::vector<MoveRecord> moves = {};  // the oldest first
  wire::MoveId last_move = {};         // the last number given; never given again
  wire::MoveSettings settings{.bytes_per_second = wire::kDefaultMoveRate};
  std::vector<wire::BackingSet> backing_sets = {};  // by server
};

// A change of it; an error: nothing is changed. Who is given a ChangeState has one made durable, one at a
// time.
using StateChange = std::function<Status(ManagerState& next)>;
using ChangeState = std::function<Task<Status>(StateChange change)>;

inline constexpr const char* kStateFile = "manager.state";

// kNotFound at the first start; kCorrupt where it is damaged or of another format: never guessed at, since a
// verifier drawn twice would lose clients' data. Other errors: the store's.
Task<Result<ManagerState>> load_state(StateStore& store);
// As StateStore::replace(). Calls must not overlap.
Task<Status> save_state(StateStore& store, const ManagerState& state);

// kInvalid where `config` has another volume, threshold, name policy or name hash than the volume was made
// with: names and bytes lie where those say.
Status check_volume(const EnsembleConfig& config, const VolumeConfig& made_with);

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_STATE_H
