// CrashAt: fault injection by an operator: a process that kills itself, as `kill -9` would, at a named crash
// point (service/crash_points.h). Asked for by the environment variable SLICE_CRASH_AT=POINT[:N].
#ifndef SLICE_SERVICE_CRASH_AT_H
#define SLICE_SERVICE_CRASH_AT_H

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"
#include "service/crash_points.h"

namespace slice::service {

inline constexpr char kCrashAtVariable[] = "SLICE_CRASH_AT";

struct CrashAt {
  std::string point;
  std::uint64_t count = 1;  // dies when it is reached for this time
};

// kInvalid: neither POINT nor POINT:N with N of at least 1. Whether there is such a point is not known here.
Result<CrashAt> parse_crash_at(std::string_view text);

// From now on the process ends by SIGKILL, after a line in its log, at the given reach of the point.
void arm(CrashPoints& points, const CrashAt& at);

}  // namespace slice::service

#endif  // SLICE_SERVICE_CRASH_AT_H
