#include "service/admin_program.h"

#include <utility>

namespace slice::service {

AdminProgram::AdminProgram(std::string process, Metrics& metrics, std::function<void()> refresh,
                           const Misdirected& misdirected)
    : InternalProgram(wire::kAdminProgram),
      process_(std::move(process)),
      metrics_(metrics),
      refresh_(std::move(refresh)) {
  on<NoArguments>(wire::AdminProcedure::kMetrics, [this](const auto&) { return this->metrics(); });
  if (!misdirected) return;
  on<wire::MisdirectedArgs>(wire::AdminProcedure::kMisdirected,
                            [misdirected](const wire::MisdirectedArgs& report) {
                              misdirected(report);
                              return NoResults{};
                            });
}

wire::MetricsResult AdminProgram::metrics() {
  if (refresh_) refresh_();
  wire::MetricsResult result;
  result.process = process_;
  for (const Metrics::Sample& sample : metrics_.samples())
    result.samples.push_back({sample.name, sample.value});
  return result;
}

}  // namespace slice::service
