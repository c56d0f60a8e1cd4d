// What a run that stands by fetches before it is wanted: the tables of the last checkpoints in the backing
// set (docs/backing.md), so that to take over is not to wait for them. One loop.
#ifndef SLICE_SERVICE_BACKING_LOOK_AHEAD_H
#define SLICE_SERVICE_BACKING_LOOK_AHEAD_H

#include <functional>
#include <string>

#include "service/backing/backing_set.h"
#include "service/managers.h"

namespace slice::service {

struct LookAhead {
  Loop& loop;
  rpc::Channel& channel;
  Managers& managers;
  Metrics& metrics;
  storage::Disk& local;  // the data directory
  const BackingSet& set;
  std::uint32_t server = 0;
  std::string name;           // of that server, for logs
  std::uint64_t reserve = 0;  // bytes that are left free
  std::function<bool()> over;
};
// Now and then while it stands by, at a moderate rate; until it is over, or the run is to serve. Nothing of
// it is needed: what fails is tried again later. What the seams name outlives it.
Task<void> look_ahead(LookAhead seams);

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_LOOK_AHEAD_H
