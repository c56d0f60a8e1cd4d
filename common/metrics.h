// Metrics: counters, gauges and histograms of one server, as Prometheus has them; read over HTTP
// (http/listener.h) and by slicectl. docs/metrics.md lists them.
//
// Names are snake_case, without the prefix `slice_`, which the text adds; the unit is last and is a base
// unit (`_seconds`, `_bytes`), and counters, and only they, end in `_total`. A name or a help that is
// otherwise does not compile.
#ifndef SLICE_COMMON_METRICS_H
#define SLICE_COMMON_METRICS_H

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/loop.h"

namespace slice {

// Thread-safe, relaxed: figures, not synchronisation.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  // A gauge; or a counter that something else counts.
  void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};
using Gauge = Counter;  // the same cell; which of them a family is shows where it is made

// How many durations were within each bound, and their sum. Thread-safe, relaxed, without locks or
// allocations: a reader may see one more in a bucket than in the sum.
class Histogram {
 public:
  // Upper bounds of buckets, nanoseconds, inclusive; the last bucket has no bound.
  static constexpr std::array<std::int64_t, 17> kBounds{
      50'000,      100'000,       250'000,       500'000,       1'000'000,     2'500'000,
      5'000'000,   10'000'000,    25'000'000,    50'000'000,    100'000'000,   250'000'000,
      500'000'000, 1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};

  void observe(Duration duration) {
    const std::int64_t ns = duration.count() < 0 ? 0 : duration.count();
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && ns > kBounds[bucket]) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  }
  // Not cumulative: of the bucket alone.
  std::uint64_t in_bucket(std::size_t bucket) const {
    return counts_.at(bucket).load(std::memory_order_relaxed);
  }
  std::uint64_t count() const;
  Duration sum() const {
    return Duration(static_cast<std::int64_t>(sum_ns_.load(std::memory_order_relaxed)));
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

// What a cell of a family in seconds holds.
enum class Unit : std::uint8_t { kAsIs, kMicroseconds, kNanoseconds };

namespace metrics_internal {

// Called where a literal is wrong, which then does not compile.
void name_is_not_snake_case_with_a_base_unit();
void counters_alone_end_in_total();
void help_is_missing_or_has_a_line_break();

consteval bool has_part(std::string_view name, std::string_view part) {
  for (std::size_t at = 0; at <= name.size();) {
    std::size_t end = std::min(name.find('_', at), name.size());
    if (name.substr(at, end - at) == part) return true;
    at = end + 1;
  }
  return false;
}

consteval void check_name(std::string_view name) {
  bool good = !name.empty() && name.front() >= 'a' && name.front() <= 'z' && name.back() != '_' &&
              !name.starts_with("slice_");
  for (char c : name) good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_');
  for (const char* unit :
       {"nanoseconds", "microseconds", "milliseconds", "minutes", "kilobytes", "megabytes"})
    good = good && !has_part(name, unit);
  for (const char* end : {"_count", "_sum", "_bucket"}) good = good && !name.ends_with(end);
  if (!good) name_is_not_snake_case_with_a_base_unit();
}

}  // namespace metrics_internal

// Literals, checked by the compiler.
struct CounterName {
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval CounterName(const char* literal) : text(literal) {
    metrics_internal::check_name(text);
    if (!text.ends_with("_total")) metrics_internal::counters_alone_end_in_total();
  }
  std::string_view text;
};
struct GaugeName {
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval GaugeName(const char* literal) : text(literal) {
    metrics_internal::check_name(text);
    if (text.ends_with("_total")) metrics_internal::counters_alone_end_in_total();
  }
  std::string_view text;
};
// One line for people, of which docs/metrics.md has the same; it stands by itself.
struct Help {
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval Help(const char* literal) : text(literal) {
    if (text.size() < 8 || text.find('\n') != std::string_view::npos)
      metrics_internal::help_is_missing_or_has_a_line_break();
  }
  std::string_view text;
};

class Metrics {
 public:
  // Names are literals; values may be anything.
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // The cell of that name and labels, made at the first call; valid as long as this Metrics. Keep the
  // reference: looking up takes a lock. The first call for a family says its help.
  Counter& counter(CounterName name, Help help, Labels labels = {}, Unit unit = Unit::kAsIs);
  Gauge& gauge(GaugeName name, Help help, Labels labels = {}, Unit unit = Unit::kAsIs);
  // In seconds: the name ends so.
  Histogram& histogram(GaugeName name, Help help, Labels labels = {});

  // A counter or gauge that was made before, by its sample: `nfs_calls_total{procedure="READ"}`. For tests.
  // Where there is none the program ends, and says so: sources make metrics with their help.
  Counter& counter(std::string_view sample);
  // The same of a histogram.
  Histogram& histogram(std::string_view sample);

  // All of them, families by name, in Prometheus' text form 0.0.4: every family with prefix, HELP and TYPE.
  std::string text() const;

 private:
  enum class Kind : std::uint8_t { kCounter, kGauge, kHistogram };
  struct Family {
    Kind kind = Kind::kCounter;
    Unit unit = Unit::kAsIs;
    std::string help;
    std::map<std::string, Counter*, std::less<>> cells;  // by labels: `procedure="READ"`
    std::map<std::string, Histogram*, std::less<>> histograms;
  };

  Family& family(std::string_view name, Kind kind, Unit unit, Help help);
  Counter& cell(std::string_view name, Kind kind, Unit unit, Help help, Labels labels);
  static void write(std::string& out, const std::string& name, const Family& family);

  mutable std::mutex mutex_;
  std::deque<Counter> counters_;
  std::deque<Histogram> histograms_;
  std::map<std::string, Family, std::less<>> families_;
};

// What the text calls the family.
std::string exposed_name(std::string_view name);

// The name of the content: of HTTP's Content-Type.
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace slice

#endif  // SLICE_COMMON_METRICS_H
