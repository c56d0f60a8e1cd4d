// SlowLog: one line for an operation of a client that took longer than the settings have it
// (slow_operation_ms): who asked for what, and where the time went. At most one a second of each procedure.
// Not thread-safe.
#ifndef SLICE_SERVICE_SLOW_LOG_H
#define SLICE_SERVICE_SLOW_LOG_H

#include <array>
#include <string>

#include "common/log.h"
#include "wire/mount3.h"
#include "wire/nfs3.h"
#include "wire/trace.h"

namespace slice::service {

class SlowLog {
 public:
  explicit SlowLog(std::string server) : server_(std::move(server)) {}

  // Of a client's operation.
  void note(const wire::TraceRecord& record);
  // What took the most of it, at most three: "sync of objects/1 200 ms, itself 4 ms".
  static std::string where_it_went(const wire::TraceRecord& record);

 private:
  const std::string server_;
  std::array<LogLimiter, nfs3::kProcedureCount> limits_;
  std::array<LogLimiter, mount3::kProcedureCount> mount_limits_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_SLOW_LOG_H
