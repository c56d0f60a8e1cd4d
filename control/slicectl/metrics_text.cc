#include "control/slicectl/metrics_text.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace slice::slicectl {
namespace {

std::optional<MetricSample> read_sample(std::string_view line) {
  const std::size_t space = line.rfind(' ');
  if (line.starts_with('#') || space == std::string_view::npos) return std::nullopt;
  const std::string_view what = line.substr(0, space), number = line.substr(space + 1);
  const std::size_t brace = std::min(what.find('{'), what.size());
  MetricSample sample{.name = what.substr(0, brace), .labels = what.substr(brace)};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), sample.value);
  const bool is_one = error == std::errc{} && end == number.data() + number.size() &&
                      sample.name.find(' ') == std::string_view::npos;
  return is_one ? std::optional(sample) : std::nullopt;
}

}  // namespace

void for_each_sample(std::string_view metrics, const std::function<void(const MetricSample&)>& take) {
  while (!metrics.empty()) {
    const std::size_t end = std::min(metrics.find('\n'), metrics.size());
    if (const auto sample = read_sample(metrics.substr(0, end))) take(*sample);
    metrics.remove_prefix(std::min(end + 1, metrics.size()));
  }
}

}  // namespace slice::slicectl
