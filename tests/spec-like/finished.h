// finished(task): the same task with a value, so that all() (common/task.h) takes it.
#ifndef SLICE_TESTS_SPEC_LIKE_FINISHED_H
#define SLICE_TESTS_SPEC_LIKE_FINISHED_H

#include "common/task.h"

namespace slice::load {

inline Task<bool> finished(Task<void> task) {
  co_await task;
  co_return true;
}

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_FINISHED_H
