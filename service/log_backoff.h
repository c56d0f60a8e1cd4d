// LogBackoff: for a line about something that goes on: rarer and rarer, so that a night of it fills no log.
#ifndef SLICE_SERVICE_LOG_BACKOFF_H
#define SLICE_SERVICE_LOG_BACKOFF_H

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "common/loop.h"

namespace slice::service {

class LogBackoff {
 public:
  static constexpr Duration kFirst = std::chrono::seconds(3), kLongest = std::chrono::minutes(5);

  // True at once, and then each time that twice as long has passed as the time before, `kFirst` at first; of
  // another reason than the last after `kFirst` already.
  bool allow(MonoTime now, std::string_view reason) {
    const Duration pause = reason == reason_ ? pause_ : kFirst;
    if (said_ && now < *said_ + pause) return false;
    if (!began_) began_ = now;
    if (said_) pause_ = std::min(pause_ * 2, kLongest);
    said_ = now;
    reason_ = reason;
    return true;
  }
  // It goes on no more; for how long it did, where allow() was asked since the last time.
  std::optional<Duration> over(MonoTime now) {
    std::optional<Duration> lasted;
    if (began_) lasted = now - *began_;
    *this = {};
    return lasted;
  }

 private:
  std::optional<MonoTime> began_, said_;
  std::string reason_;
  Duration pause_ = kFirst;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_LOG_BACKOFF_H
