// TargetMetrics: what a Target counts, and which of its log lines may be written now.
#ifndef SLICE_AOE_TARGET_METRICS_H
#define SLICE_AOE_TARGET_METRICS_H

#include <array>
#include <cstdint>
#include <string_view>

#include "common/log.h"
#include "common/metrics.h"

namespace slice::aoe {

// Why a frame got nothing done.
enum class Refusal : std::uint8_t {
  kMalformed,  // no frame of AoE, or an answer, or not as the protocol has it
  kStranger,   // from an address that is no client's
  kElsewhere,  // for a place that is not here
  kCrowded,    // its client has too many requests under way
  kRepeated,   // the request with its tag is under way
  kRange,      // beyond the disk's end, or more than a frame may have
  kUnknown,    // a command that there is none of
  kKinds
};
std::string_view text_of(Refusal why);

enum class Request : std::uint8_t { kRead, kWrite, kFlush, kIdentify, kQuery, kKinds };

class TargetMetrics {
 public:
  // Which outlives it.
  explicit TargetMetrics(Metrics& metrics);

  void refuse(Refusal why) { refused_[static_cast<std::size_t>(why)]->add(); }
  void count(Request request) { requests_[static_cast<std::size_t>(request)]->add(); }
  bool may_log(Refusal why) { return lines_.allow(why); }
  bool may_log_failure() { return failure_lines_.allow(); }

  Counter &frames, &operations, &failed, &read_bytes, &written_bytes;

 private:
  std::array<Counter*, static_cast<std::size_t>(Refusal::kKinds)> refused_{};
  std::array<Counter*, static_cast<std::size_t>(Request::kKinds)> requests_{};
  LogLimiters<Refusal> lines_{5};
  LogLimiter failure_lines_{5};
};

}  // namespace slice::aoe

#endif  // SLICE_AOE_TARGET_METRICS_H
