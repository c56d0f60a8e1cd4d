#include "service/slow_log.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace slice::service {
namespace {

constexpr std::size_t kMostParts = 3;

std::string part_name(const TraceStep& step) {
  switch (step.kind) {
    case TraceStep::Kind::kRead:
      return "read of " + step.what;
    case TraceStep::Kind::kWrite:
      return "write of " + step.what;
    case TraceStep::Kind::kSync:
      return "sync of " + step.what;
    case TraceStep::Kind::kCall:
      return fmt::format("{} at {}", wire::operation_name(step.program, step.procedure),
                         rpc::to_string({step.address, step.port}));
    case TraceStep::Kind::kHeld:
      return "held while its site moves";
    case TraceStep::Kind::kLock:
      break;
  }
  return "another operation on the same file or range";
}

}  // namespace

std::string SlowLog::where_it_went(const wire::TraceRecord& record) {
  const Duration outside = outside_of(record.steps, record.took);
  std::vector<std::pair<Duration, std::string>> parts{{std::min(record.waited, outside), "queued"},
                                                      {outside - std::min(record.waited, outside), "itself"}};
  for (const TraceStep& step : record.steps) parts.emplace_back(step.took, part_name(step));
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < parts.size() && i < kMostParts; ++i) {
    if (in_milliseconds(parts[i].first) == 0) break;
    text +=
        fmt::format("{}{} {} ms", text.empty() ? "" : ", ", parts[i].second, in_milliseconds(parts[i].first));
  }
  return text;
}

void SlowLog::note(const wire::TraceRecord& record) {
  const bool is_mount = record.program == mount3::kProgram;
  LogLimiter& limit = is_mount ? mount_limits_[record.procedure % mount3::kProcedureCount]
                               : limits_[record.procedure % nfs3::kProcedureCount];
  if (!limit.allow()) return;
  const std::string what =
      is_mount ? fmt::format("path='{}'", record.path)
               : fmt::format("file={:#x} offset={} count={}", record.file.value, record.offset, record.count);
  log_warning("slow {} took_ms={} client={} {} status={} name={}: {}",
              wire::operation_name(record.program, record.procedure), in_milliseconds(record.took),
              rpc::to_string(record.client), what, record.answered ? wire::outcome_name(record) : "none",
              server_, where_it_went(record));
}

}  // namespace slice::service
