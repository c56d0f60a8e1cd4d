// What a storage node keeps of one server's backing set beside its files: `backing/NUMBER/state`. Format:
// docs/formats/backing.md.
#ifndef SLICE_STORAGENODE_BACKING_SET_STATE_H
#define SLICE_STORAGENODE_BACKING_SET_STATE_H

#include <string>

#include "storage/disk.h"
#include "wire/backing.h"

namespace slice::storagenode {

inline constexpr const char* kBackingFolder = "backing";

// Which bytes the files have: those that the owner of `changed` had written up to its change of that number.
struct SetContents {
  BackingEpoch changed;  // 0: nobody can say
  std::uint64_t applied = 0;
  bool known() const { return changed.value != 0; }
  bool operator==(const SetContents&) const = default;
};

struct SetState {
  std::uint32_t server = 0;  // whose set: the folder's number
  BackingEpoch epoch;        // the largest known; 0: none yet
  std::uint64_t instance = 0;
  bool let_go = false;   // by that owner
  SetContents contents;  // known: and all of it is durable
};

// "backing/0000000a": of the set of server 10.
std::string set_folder(std::uint32_t server);

// kNotFound where there is none; kCorrupt where it is damaged, of another format, or another server's.
Task<Result<SetState>> load_set_state(storage::Disk& disk, std::uint32_t server);
// Durable when it ends well; where it does not, either may be there. Calls for one set must not overlap.
Task<Status> save_set_state(storage::Disk& disk, SetState state);

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_BACKING_SET_STATE_H
