#include "service/admin_program.h"

namespace slice::service {

Task<rpc::Outcome> AdminProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.internal) co_return rpc::Outcome::kDenied;
  if (call.procedure != static_cast<std::uint32_t>(wire::AdminProcedure::kMetrics)) {
    co_return rpc::Outcome::kNoProcedure;
  }
  if (!call.arguments.empty()) co_return rpc::Outcome::kGarbage;
  if (refresh_) refresh_();
  wire::MetricsResult result;
  result.process = process_;
  for (const Metrics::Sample& sample : metrics_.samples())
    result.samples.push_back({sample.name, sample.value});
  encode(results, result);
  co_return rpc::Outcome::kReply;
}

}  // namespace slice::service
