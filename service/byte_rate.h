// ByteRate: how many bytes a second something has done in the last seconds. One loop.
#ifndef SLICE_SERVICE_BYTE_RATE_H
#define SLICE_SERVICE_BYTE_RATE_H

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/loop.h"

namespace slice::service {

class ByteRate {
 public:
  static constexpr Duration kLeast =
      std::chrono::milliseconds(500);  // what comes sooner counts with the next

  // So many bytes are done in all by now. Fewer than before: it has begun anew, and the rate stays.
  void note(MonoTime now, std::uint64_t done) {
    if (!last_ || done < last_->done) {
      last_ = Sample{now, done};
      return;
    }
    if (now - last_->at < kLeast) return;
    const double seconds = std::chrono::duration<double>(now - last_->at).count();
    const double fresh = static_cast<double>(done - last_->done) / seconds;
    rate_ = rate_ ? kOld * *rate_ + (1 - kOld) * fresh : fresh;
    last_ = Sample{now, done};
  }
  std::uint64_t bytes_a_second() const { return static_cast<std::uint64_t>(rate_.value_or(0)); }

 private:
  static constexpr double kOld = 0.7;  // what the rate of before counts
  struct Sample {
    MonoTime at;
    std::uint64_t done = 0;
  };
  std::optional<Sample> last_;
  std::optional<double> rate_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BYTE_RATE_H
