// Histogram: counts of values (here nanoseconds) in log-linear buckets. Every power of two is cut into 128
// equal buckets, so that a value read back is at most 1/128 larger than the one that was put in, whatever its
// size. Histograms of several processes merge exactly.
#ifndef SLICE_TESTS_SPEC_LIKE_HISTOGRAM_H
#define SLICE_TESTS_SPEC_LIKE_HISTOGRAM_H

#include <cstdint>
#include <utility>
#include <vector>

#include "common/result.h"

namespace slice::load {

class Histogram {
 public:
  static constexpr unsigned kStepBits = 7;
  static constexpr double kError = 1.0 / (1 << kStepBits);  // of a quantile, relative, never below the value
  static constexpr std::size_t kBuckets = std::size_t{64 - kStepBits + 1} << kStepBits;

  void add(std::uint64_t value, std::uint64_t times = 1);
  void merge(const Histogram& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The value that `q` (0 to 1) of all values do not exceed; 0 where there is none.
  std::uint64_t quantile(double q) const;

  // What a report holds: the buckets that are not empty, the sum and the largest value.
  struct Sparse {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> buckets;  // number, count
    double sum = 0;
    std::uint64_t max = 0;
  };
  Sparse sparse() const;
  // kInvalid where a bucket does not exist.
  static Result<Histogram> from(const Sparse& sparse);

 private:
  static std::size_t bucket_of(std::uint64_t value);
  static std::uint64_t upper_edge(std::size_t bucket);

  std::vector<std::uint64_t> buckets_;  // as long as the largest one that was used
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_HISTOGRAM_H
