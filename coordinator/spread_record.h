// SpreadRecord: that files are to be evened out, and by which shares, until it is done: the file `spread` of
// a coordinator's data directory (docs/formats/spread.md).
#ifndef SLICE_COORDINATOR_SPREAD_RECORD_H
#define SLICE_COORDINATOR_SPREAD_RECORD_H

#include <optional>

#include "common/task.h"
#include "storage/disk.h"
#include "wire/layout.h"

namespace slice::coordinator {

inline constexpr const char* kSpreadFile = "spread";

// Nothing where there is none. kCorrupt: it is damaged, or of a later version.
Task<Result<std::optional<wire::SpreadArgs>>> read_spread(storage::Disk& disk);
// Both durable when they end well; calls must not overlap.
Task<Status> record_spread(storage::Disk& disk, wire::SpreadArgs args);
Task<Status> forget_spread(storage::Disk& disk);

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_SPREAD_RECORD_H
