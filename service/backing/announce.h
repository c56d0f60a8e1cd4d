// While a server becomes the owner of its backing set the manager has to hear of it: one that has no state
// waits for everybody before it deals any tables, and gives no epoch before that. One loop.
#ifndef SLICE_SERVICE_BACKING_ANNOUNCE_H
#define SLICE_SERVICE_BACKING_ANNOUNCE_H

#include <functional>

#include "service/backing/backing_set.h"
#include "service/managers.h"

namespace slice::service {

struct Announcement {
  Loop& loop;
  rpc::Channel& channel;
  Managers& managers;
  const BackingSet& set;
  bool first_place = true;  // the server runs here where nobody has said anything else
  std::function<wire::HeartbeatArgs()> told;
  std::function<bool()> over;
};
// Sends heartbeats until the set is open, or it is over. A run that stands by says nothing in the server's
// name: where nobody knows who does, the first place is the server's. What the seams name outlives it.
Task<void> announce(Announcement seams);

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_ANNOUNCE_H
