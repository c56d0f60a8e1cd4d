#include "common/trace.h"

#include <algorithm>
#include <utility>

namespace slice {
namespace {

constexpr Duration kGap = std::chrono::microseconds(100);  // between steps that count as one

bool goes_on(const TraceStep& last, const TraceStep& next) {
  return next.kind == last.kind && next.kind != TraceStep::Kind::kCall && next.what == last.what &&
         next.began >= last.began + last.took && next.began - (last.began + last.took) < kGap;
}

}  // namespace

Duration outside_of(std::span<const TraceStep> steps, Duration took) {
  std::vector<std::pair<Duration, Duration>> within;  // from, to
  within.reserve(steps.size());
  for (const TraceStep& step : steps) within.emplace_back(step.began, step.began + step.took);
  std::sort(within.begin(), within.end());
  Duration inside{}, covered{};  // up to where
  for (auto [from, to] : within) {
    from = std::max(from, covered);
    if (to > from) inside += to - from;
    covered = std::max(covered, to);
  }
  return std::max(took - inside, Duration(0));
}

void Trace::add(TraceStep step, MonoTime began) {
  step.began = began - began_;
  step.took = now() - began;
  if (!steps_.empty() && goes_on(steps_.back(), step)) {
    steps_.back().took = step.began + step.took - steps_.back().began;
    return;
  }
  if (steps_.size() < kMostSteps) {
    steps_.push_back(std::move(step));
    return;
  }
  ++left_off_;
  auto shortest = std::min_element(steps_.begin(), steps_.end(),
                                   [](const TraceStep& a, const TraceStep& b) { return a.took < b.took; });
  if (shortest->took >= step.took) return;
  steps_.erase(shortest);
  steps_.push_back(std::move(step));
}

}  // namespace slice
