// Patience: how long a device's operations wait for who serves them.
#ifndef SLICE_BLOCK_PATIENCE_H
#define SLICE_BLOCK_PATIENCE_H

#include <functional>
#include <memory>
#include <string>

#include "common/bytes.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"

namespace slice::block {

// One loop, which outlives it.
class Patience {
 public:
  // After `time` an operation fails with kTimedOut and this message; 0: it waits for ever.
  Patience(Loop& loop, Duration time, std::string message);

  bool endless() const { return time_ == Duration(0); }
  // How the operation ends. Where that takes too long, it goes on all the same, and `owner`, whose it is,
  // lives until it has ended.
  Task<Status> within(Task<Status> operation, std::shared_ptr<const void> owner) const;
  // The same of one that fills `into`, which nobody may write to once this has ended.
  Task<Status> fill(ByteSpan into, std::function<Task<Status>(ByteSpan)> operation,
                    std::shared_ptr<const void> owner) const;

 private:
  Loop& loop_;
  const Duration time_;
  const std::string message_;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_PATIENCE_H
