// ReclaimQueue: who sees to the bytes of files that lost their last name, as changes know it
// (background/reclaimer.h). One loop.
#ifndef SLICE_DIRSERVER_ACROSS_RECLAIM_QUEUE_H
#define SLICE_DIRSERVER_ACROSS_RECLAIM_QUEUE_H

#include <optional>

#include "dirserver/store/cell_store.h"

namespace slice::dirserver {

class ReclaimQueue {
 public:
  virtual ~ReclaimQueue() = default;

  // The file, whose cell the transaction erases, is to be freed: what to enqueue() once that is durable.
  // Nothing where no server has bytes of it.
  virtual std::optional<ReclaimRecord> add(Transaction& transaction, const AttributeCell& cell) = 0;
  virtual void enqueue(ReclaimRecord record) = 0;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_RECLAIM_QUEUE_H
