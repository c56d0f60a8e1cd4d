#include "control/webd/figures.h"

#include <charconv>

namespace slice::webd {
namespace {

constexpr std::string_view kPrefix = "slice_";  // of all that are ours

// Of `name{label="value",...} number`; kept where the parts are what is looked for.
struct Sample {
  std::string_view name, labels;
  double value = 0;
};

std::optional<Sample> read_sample(std::string_view line) {
  const std::size_t space = line.rfind(' ');
  if (line.empty() || line.front() == '#' || space == std::string_view::npos) return std::nullopt;
  Sample sample;
  const std::string_view number = line.substr(space + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), sample.value);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  const std::string_view what = line.substr(0, space);
  const std::size_t brace = what.find('{');
  sample.name = what.substr(0, brace);
  if (sample.name.starts_with(kPrefix)) sample.name.remove_prefix(kPrefix.size());
  if (brace != std::string_view::npos) sample.labels = what.substr(brace);
  return sample;
}

bool has(const Sample& sample, std::string_view label) {
  return sample.labels.find(label) != std::string_view::npos;
}

void add(Figures& figures, const Sample& sample) {
  const std::string_view name = sample.name;
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
  } else if (name == "process_resident_memory_bytes") {
    figures.resident_bytes = sample.value;
  }
}

}  // namespace

Figures figures_of(std::string_view metrics) {
  Figures figures;
  while (!metrics.empty()) {
    const std::size_t end = metrics.find('\n');
    if (const auto sample = read_sample(metrics.substr(0, end))) add(figures, *sample);
    metrics.remove_prefix(end == std::string_view::npos ? metrics.size() : end + 1);
  }
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
