// What the system knows of this process, under the names that every program's metrics have: processor time,
// memory, descriptors, start. One of a process has them, so that sums over servers are right.
#ifndef SLICE_SERVICE_PROCESS_FIGURES_H
#define SLICE_SERVICE_PROCESS_FIGURES_H

#include "common/loop.h"
#include "common/metrics.h"

namespace slice::service {

class ProcessFigures {
 public:
  // `metrics` outlives it.
  explicit ProcessFigures(Metrics& metrics);
  // Looks again, before the figures are read. Takes some tens of microseconds; where the process has very
  // many descriptors, they are counted less often, so that this stays below a hundredth of the time.
  void refresh();

 private:
  void count_descriptors();

  Counter& processor_;
  Gauge &resident_, &virtual_, &descriptors_, &most_descriptors_, &started_;
  std::int64_t count_again_ns_ = 0;  // CLOCK_MONOTONIC
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_PROCESS_FIGURES_H
