// Metrics: named counters and gauges of one process, read by slicectl and by a scraper. Names are
// snake_case with the unit last (`_total`, `_bytes`, `_seconds`); docs/metrics.md lists them.
#ifndef SLICE_COMMON_METRICS_H
#define SLICE_COMMON_METRICS_H

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace slice {

// Thread-safe, relaxed: figures, not synchronisation.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Metrics {
 public:
  struct Sample {
    std::string name;
    std::uint64_t value;
  };

  // The counter of that name, made at the first call; valid as long as this Metrics. Keep the reference:
  // looking up takes a lock. Labels are part of the name: `nfs_calls_total{procedure="READ"}`.
  Counter& counter(std::string_view name);

  // All of them, by name.
  std::vector<Sample> samples() const;

 private:
  mutable std::mutex mutex_;
  std::deque<Counter> counters_;
  std::map<std::string, Counter*, std::less<>> by_name_;
};

}  // namespace slice

#endif  // SLICE_COMMON_METRICS_H
