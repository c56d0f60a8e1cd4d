#include "common/metrics.h"

namespace slice {

Counter& Metrics::counter(std::string_view name) {
  std::lock_guard lock(mutex_);
  auto found = by_name_.find(name);
  if (found != by_name_.end()) return *found->second;
  Counter& made = counters_.emplace_back();
  by_name_.emplace(name, &made);
  return made;
}

std::vector<Metrics::Sample> Metrics::samples() const {
  std::lock_guard lock(mutex_);
  std::vector<Sample> all;
  all.reserve(by_name_.size());
  for (const auto& [name, counter] : by_name_) all.push_back({name, counter->value()});
  return all;
}

}  // namespace slice
