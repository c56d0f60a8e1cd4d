#include "control/webd/figures.h"

#include "control/slicectl/metrics_text.h"

namespace slice::webd {
namespace {

using slicectl::MetricSample;

constexpr std::string_view kPrefix = "slice_";  // of all that are ours

bool has(const MetricSample& sample, std::string_view label) {
  return sample.labels.find(label) != std::string_view::npos;
}

void add(Figures& figures, const MetricSample& sample) {
  std::string_view name = sample.name;
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name == "nfs_latency_seconds_count" || name == "proxy_latency_seconds_count") {
    const bool writes = has(sample, R"(procedure="WRITE")") || has(sample, R"(procedure="COMMIT")");
    (has(sample, R"(procedure="READ")") ? figures.reads
     : writes                           ? figures.writes
                                        : figures.names) += sample.value;
  } else if (name == "nfs_latency_seconds_sum" || name == "proxy_latency_seconds_sum") {
    figures.seconds += sample.value;
  } else if (name == "nfs_failures_total") {
    figures.failures += sample.value;
  } else if (name == "xdp_outcomes_total" && has(sample, R"(outcome="ROUTED_)")) {
    figures.by_xdp += sample.value;
  } else if (name == "process_cpu_seconds_total") {
    figures.cpu_seconds += sample.value;
  }
}

}  // namespace

Figures figures_of(std::string_view metrics) {
  Figures figures;
  slicectl::for_each_sample(metrics, [&](const MetricSample& sample) { add(figures, sample); });
  return figures;
}

std::optional<Rates> rates_between(const Figures& before, const Figures& after, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const double calls = after.calls() - before.calls();
  if (seconds <= 0 || calls < 0 || after.cpu_seconds < before.cpu_seconds || after.by_xdp < before.by_xdp)
    return std::nullopt;
  return Rates{.reads = (after.reads - before.reads) / seconds,
               .writes = (after.writes - before.writes) / seconds,
               .names = (after.names - before.names) / seconds,
               .failures = (after.failures - before.failures) / seconds,
               .by_xdp = (after.by_xdp - before.by_xdp) / seconds,
               .latency = calls > 0 ? (after.seconds - before.seconds) / calls : 0,
               .cpu = (after.cpu_seconds - before.cpu_seconds) / seconds};
}

}  // namespace slice::webd
