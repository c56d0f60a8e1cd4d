// reconcile: fits the attribute cell of a regular file, as a backup has it, to what data servers have of the
// file by now. Names went back in time, and bytes did not (docs/operations.md, "When a disk is lost").
#ifndef SLICE_BACKUP_RECONCILE_H
#define SLICE_BACKUP_RECONCILE_H

#include <vector>

#include "dirserver/cells/cells.h"
#include "wire/manager.h"

namespace slice::backup {

// What one data server has of a file (STAT of the object program).
struct Found {
  std::uint32_t server = 0;
  wire::Role role = wire::Role::kStorage;
  std::uint64_t end = 0, allocated = 0;
  Epoch epoch;
};

enum class Since {
  kNothing,  // as far as can be told
  kGrew,     // written behind its end since: that is kept, since the bytes are there
  kCut,      // its size was set since: it ends where its bytes do
  kGone      // it was removed since: it is empty, since its bytes are not there to be read
};

// Changes `cell` to what it can be by now; its times are `now` where that is another than it was. Without
// `found` the file has no bytes anywhere. What servers told that they store of a file is in its cell where it
// was written before `told`; of a later one its size counts.
Since reconcile(dirserver::AttributeCell& cell, const std::vector<Found>& found, nfs3::Time now,
                nfs3::Time told);

}  // namespace slice::backup

#endif  // SLICE_BACKUP_RECONCILE_H
