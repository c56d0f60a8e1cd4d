#include "tests/spec-like/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace slice::load {

std::size_t Histogram::bucket_of(std::uint64_t value) {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  const unsigned shift = width > kStepBits + 1 ? width - kStepBits - 1 : 0;
  return (std::size_t{shift} << kStepBits) + static_cast<std::size_t>(value >> shift);
}

std::uint64_t Histogram::upper_edge(std::size_t bucket) {
  const std::size_t row = bucket >> kStepBits;
  const std::size_t shift = row > 0 ? row - 1 : 0;
  const std::uint64_t step = bucket - (shift << kStepBits);
  return ((step + 1) << shift) - 1;
}

void Histogram::add(std::uint64_t value, std::uint64_t times) {
  if (times == 0) return;
  const std::size_t bucket = bucket_of(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  buckets_[bucket] += times;
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::uint64_t Histogram::quantile(double q) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= wanted && buckets_[i] > 0) return std::min(upper_edge(i), max_);
  }
  return max_;
}

Histogram::Sparse Histogram::sparse() const {
  Sparse out{.buckets = {}, .sum = sum_, .max = max_};
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i] > 0) out.buckets.emplace_back(i, buckets_[i]);
  }
  return out;
}

Result<Histogram> Histogram::from(const Sparse& sparse) {
  Histogram out;
  for (auto [bucket, times] : sparse.buckets) {
    if (bucket >= kBuckets) return fail(Errc::kInvalid, "a histogram has no bucket {}", bucket);
    if (bucket >= out.buckets_.size()) out.buckets_.resize(bucket + 1);
    out.buckets_[bucket] += times;
    out.count_ += times;
  }
  out.sum_ = sparse.sum;
  out.max_ = sparse.max;
  return out;
}

}  // namespace slice::load
