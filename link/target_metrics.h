// TargetMetrics: what a Target of the link counts, and which of its log lines may be written now.
#ifndef SLICE_LINK_TARGET_METRICS_H
#define SLICE_LINK_TARGET_METRICS_H

#include <array>
#include <cstdint>
#include <string_view>

#include "common/log.h"
#include "common/metrics.h"
#include "link/frame.h"

namespace slice::link {

// Why a frame got nothing done.
enum class Refusal : std::uint8_t {
  kMalformed,  // no frame of the link, or not as the protocol has it
  kForged,     // its MAC is wrong
  kNoSession,  // of a session that there is not
  kStale,      // of a request that was over when it came: a late copy, or a replayed one
  kTicket,     // a handshake with a ticket that is none, too old, or another's
  kCrowded,    // too many sessions, or no memory left for the request
  kVolume,     // it cannot be opened
  kKinds
};

class TargetMetrics {
 public:
  // Which outlives it.
  explicit TargetMetrics(Metrics& metrics);

  void refuse(Refusal why) { refused_[static_cast<std::size_t>(why)]->add(); }
  void count_request(Op op);
  bool may_log(Refusal why) { return lines_.allow(why); }
  bool may_log_session() { return session_lines_.allow(); }

  Gauge &sessions, &held_bytes;
  Counter &frames, &opened, &ended, &repeated, &failed, &read_bytes, &written_bytes;

 private:
  static constexpr std::array kRequests{Op::kRead, Op::kWrite, Op::kZeroes, Op::kFlush};
  std::array<Counter*, static_cast<std::size_t>(Refusal::kKinds)> refused_{};
  std::array<Counter*, kRequests.size()> requests_{};
  LogLimiters<Refusal> lines_{5};
  LogLimiter session_lines_{20};
};

std::string_view text_of(Refusal why);

}  // namespace slice::link

#endif  // SLICE_LINK_TARGET_METRICS_H
