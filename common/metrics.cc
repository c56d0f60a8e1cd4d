#include "common/metrics.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace slice {
namespace {

// Those of a process that every program has under the same names.
constexpr std::string_view kOfEveryProgram = "process_";

constexpr std::size_t kTypicalText = 64 << 10;

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

std::string labels_text(Metrics::Labels labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out += ',';
    out += name;
    out += "=\"";
    append_escaped(out, value, true);
    out += '"';
  }
  return out;
}

std::uint64_t per_second(Unit unit) {
  return unit == Unit::kMicroseconds ? 1'000'000 : unit == Unit::kNanoseconds ? 1'000'000'000 : 1;
}

// Exactly, where a double would not hold it: "1.5", "0.00005", "3".
void append_value(std::string& out, std::uint64_t value, std::uint64_t divisor) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{}", value / divisor);
  std::uint64_t rest = value % divisor;
  if (rest == 0) return;
  out += '.';
  for (std::uint64_t digit = divisor / 10; rest != 0; digit /= 10) {
    out += static_cast<char>('0' + rest / digit);
    rest %= digit;
  }
}

void append_sample(std::string& out, std::string_view name, std::string_view labels, std::string_view more,
                   std::uint64_t value, std::uint64_t divisor) {
  out += name;
  if (!labels.empty() || !more.empty()) {
    out += '{';
    out += labels;
    if (!labels.empty() && !more.empty()) out += ',';
    out += more;
    out += '}';
  }
  out += ' ';
  append_value(out, value, divisor);
  out += '\n';
}

void append_histogram(std::string& out, const std::string& name, std::string_view labels,
                      const Histogram& histogram) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= Histogram::kBounds.size(); ++i) {
    count += histogram.in_bucket(i);
    std::string bound = "le=\"";
    if (i < Histogram::kBounds.size()) {
      append_value(bound, static_cast<std::uint64_t>(Histogram::kBounds[i]), per_second(Unit::kNanoseconds));
    } else {
      bound += "+Inf";
    }
    append_sample(out, name + "_bucket", labels, bound + '"', count, 1);
  }
  append_sample(out, name + "_sum", labels, "", static_cast<std::uint64_t>(histogram.sum().count()),
                per_second(Unit::kNanoseconds));
  append_sample(out, name + "_count", labels, "", count, 1);
}

[[noreturn]] void end_for(std::string_view sample, const char* why) {
  std::fprintf(stderr, "metric %.*s: %s\n", static_cast<int>(sample.size()), sample.data(), why);
  std::abort();
}

// Of `name{labels}`.
std::pair<std::string_view, std::string_view> parts_of(std::string_view sample) {
  std::size_t brace = sample.find('{');
  if (brace == std::string_view::npos) return {sample, {}};
  std::string_view labels = sample.substr(brace + 1);
  if (labels.ends_with('}')) labels.remove_suffix(1);
  return {sample.substr(0, brace), labels};
}

constexpr const char* kNotMade =
    "was not made before: say what it is where it is made, counter(name, help) or gauge(name, help)";

}  // namespace

std::uint64_t Histogram::count() const {
  std::uint64_t sum = 0;
  for (const auto& each : counts_) sum += each.load(std::memory_order_relaxed);
  return sum;
}

std::string exposed_name(std::string_view name) {
  return name.starts_with(kOfEveryProgram) ? std::string(name) : fmt::format("slice_{}", name);
}

Metrics::Family& Metrics::family(std::string_view name, Kind kind, Unit unit, Help help) {
  auto found = families_.find(name);
  if (found == families_.end()) {
    found = families_.emplace(std::string(name), Family{.kind = kind, .unit = unit}).first;
    found->second.help = help.text;
  }
  if (found->second.kind != kind || found->second.unit != unit)
    end_for(name, "is made as two kinds of metrics, or in two units");
  return found->second;
}

Counter& Metrics::cell(std::string_view name, Kind kind, Unit unit, Help help, Labels labels) {
  std::lock_guard lock(mutex_);
  Counter*& cell = family(name, kind, unit, help).cells[labels_text(labels)];
  if (cell == nullptr) cell = &counters_.emplace_back();
  return *cell;
}

Counter& Metrics::counter(CounterName name, Help help, Labels labels, Unit unit) {
  return cell(name.text, Kind::kCounter, unit, help, labels);
}

Gauge& Metrics::gauge(GaugeName name, Help help, Labels labels, Unit unit) {
  return cell(name.text, Kind::kGauge, unit, help, labels);
}

Histogram& Metrics::histogram(GaugeName name, Help help, Labels labels) {
  std::lock_guard lock(mutex_);
  Histogram*& made = family(name.text, Kind::kHistogram, Unit::kAsIs, help).histograms[labels_text(labels)];
  if (made == nullptr) made = &histograms_.emplace_back();
  return *made;
}

Counter& Metrics::counter(std::string_view sample) {
  std::lock_guard lock(mutex_);
  auto [name, labels] = parts_of(sample);
  auto found = families_.find(name);
  if (found == families_.end()) end_for(sample, kNotMade);
  auto cell = found->second.cells.find(labels);
  if (cell == found->second.cells.end()) end_for(sample, kNotMade);
  return *cell->second;
}

Histogram& Metrics::histogram(std::string_view sample) {
  std::lock_guard lock(mutex_);
  auto [name, labels] = parts_of(sample);
  auto found = families_.find(name);
  if (found == families_.end()) end_for(sample, kNotMade);
  auto made = found->second.histograms.find(labels);
  if (made == found->second.histograms.end()) end_for(sample, kNotMade);
  return *made->second;
}

void Metrics::write(std::string& out, const std::string& name, const Family& family) {
  const char* type = family.kind == Kind::kCounter ? "counter"
                     : family.kind == Kind::kGauge ? "gauge"
                                                   : "histogram";
  out += fmt::format("# HELP {} ", name);
  append_escaped(out, family.help, false);
  out += fmt::format("\n# TYPE {} {}\n", name, type);
  for (const auto& [labels, cell] : family.cells)
    append_sample(out, name, labels, "", cell->value(), per_second(family.unit));
  for (const auto& [labels, histogram] : family.histograms) append_histogram(out, name, labels, *histogram);
}

std::string Metrics::text() const {
  std::lock_guard lock(mutex_);
  std::string out;
  out.reserve(kTypicalText);
  for (const auto& [name, family] : families_) write(out, exposed_name(name), family);
  return out;
}

}  // namespace slice
