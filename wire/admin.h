// The admin program, served by every process: what slicectl asks of one.
#ifndef SLICE_WIRE_ADMIN_H
#define SLICE_WIRE_ADMIN_H

#include <string>
#include <vector>

#include "wire/internal.h"
#include "wire/manager.h"

namespace slice::wire {

enum class AdminProcedure : std::uint32_t { kNull = 0, kMetrics = 1 };

struct MetricSample {
  std::string name;
  std::uint64_t value = 0;
};
struct MetricsResult {
  std::string process;
  std::vector<MetricSample> samples;
};
void encode(rpc::XdrWriter& out, const MetricsResult& result);
bool decode(ByteView bytes, MetricsResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_ADMIN_H
