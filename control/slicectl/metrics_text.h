// Reads the text of a process's metrics (Metrics::text()) sample by sample.
#ifndef SLICE_CONTROL_SLICECTL_METRICS_TEXT_H
#define SLICE_CONTROL_SLICECTL_METRICS_TEXT_H

#include <functional>
#include <string_view>

namespace slice::slicectl {

// `name{labels} value`; the views are into the text.
struct MetricSample {
  std::string_view name;
  std::string_view labels;  // with their braces; empty: none
  double value = 0;
};
// Comments, and what is no sample, are passed over.
void for_each_sample(std::string_view metrics, const std::function<void(const MetricSample&)>& take);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_METRICS_TEXT_H
