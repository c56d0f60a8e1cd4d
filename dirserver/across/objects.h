// What every way to the end of an object does: its cell goes, and its bytes become the reclaimer's.
#ifndef SLICE_DIRSERVER_ACROSS_OBJECTS_H
#define SLICE_DIRSERVER_ACROSS_OBJECTS_H

#include <vector>

#include "dirserver/across/reclaim_queue.h"
#include "dirserver/cells/steps.h"

namespace slice::dirserver {

// Erases the cell in `transaction`. What is to be freed is added to `freed`: for ReclaimQueue::enqueue() once
// that is durable.
void erase_object(ReclaimQueue& reclaimer, Transaction& transaction, AttributeCell& cell,
                  std::vector<ReclaimRecord>& freed);

// Carries out steps that were decided elsewhere, in `transaction`. kCorrupt where the cells are not as they
// were when they were locked.
Status carry_out(const SiteSteps& what, nfs3::Time now, ReclaimQueue& reclaimer, Transaction& transaction,
                 std::vector<ReclaimRecord>& freed);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_OBJECTS_H
