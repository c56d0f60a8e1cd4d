// Pace: how long an initiator of the link waits before it asks again, and how much it has outstanding.
//
// The time-out follows the latency as EBD's does, TO = (TO + latency) / 2, within bounds, and is longer the
// less credit there is. The window opens by what is answered and halves where something was lost, as TCP's
// does: the port of the other side drops what is too much, and credit alone does not show it.
#ifndef SLICE_LINK_PACE_H
#define SLICE_LINK_PACE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/loop.h"

namespace slice::link {

class Pace {
 public:
  // Blocks: of the greatest credit that there was, and the least that a window is.
  void begin(std::size_t credit, std::size_t least) {
    full_ = credit_ = std::max<std::size_t>(credit, 1);
    least_ = std::min(least, full_);
    window_ = full_;
  }
  void credit(std::size_t blocks) {
    credit_ = std::max<std::size_t>(blocks, 1);
    full_ = std::max(full_, credit_);
    window_ = std::min(window_, full_);
  }
  // A request that was sent once was answered after so long.
  void answered(Duration latency) { latency_ = (latency_ + std::min(latency, kMostLatency)) / 2; }
  void grow(std::size_t blocks) { window_ = std::min(full_, window_ + std::max<std::size_t>(blocks / 4, 1)); }
  void lost(MonoTime now) {
    if (now - lost_at_ < latency_) return;
    lost_at_ = now;
    window_ = std::max(window_ / 2, least_);
  }

  std::size_t window() const { return std::min(window_, credit_); }
  Duration latency() const { return latency_; }
  // Until a request is sent again of which nothing was heard; that came; and of which some is known to miss.
  Duration unheard(unsigned tries) const {
    return stretched(std::clamp<Duration>(4 * latency_, std::chrono::milliseconds(10), kMost), tries);
  }
  Duration heard(unsigned tries) const {
    return stretched(std::clamp<Duration>(8 * latency_, std::chrono::milliseconds(100), kMost), tries);
  }
  Duration missing() const {
    return std::clamp<Duration>(latency_ / 2, std::chrono::microseconds(500), std::chrono::milliseconds(20));
  }

 private:
  static constexpr Duration kMost = std::chrono::seconds(1), kMostLatency = std::chrono::seconds(4);
  Duration stretched(Duration time, unsigned tries) const {
    const auto scarce = static_cast<std::int64_t>(std::clamp<std::size_t>(full_ / credit_, 1, 4));
    return std::min<Duration>(time * scarce * (std::int64_t{1} << std::min(tries, 5U)), 2 * kMost);
  }

  std::size_t full_ = 1, credit_ = 1, least_ = 1, window_ = 1;  // blocks
  Duration latency_ = std::chrono::milliseconds(10);
  MonoTime lost_at_{};
};

}  // namespace slice::link

#endif  // SLICE_LINK_PACE_H
