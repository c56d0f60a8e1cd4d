#include "service/admin_program.h"

namespace slice::service {

Task<rpc::Outcome> AdminProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.internal) co_return rpc::Outcome::kDenied;
  switch (static_cast<wire::AdminProcedure>(call.procedure)) {
    case wire::AdminProcedure::kMetrics:
      co_return metrics(call, results);
    case wire::AdminProcedure::kMisdirected:
      co_return misdirected(call);
    default:
      co_return rpc::Outcome::kNoProcedure;
  }
}

rpc::Outcome AdminProgram::metrics(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.arguments.empty()) return rpc::Outcome::kGarbage;
  if (refresh_) refresh_();
  wire::MetricsResult result;
  result.process = process_;
  for (const Metrics::Sample& sample : metrics_.samples())
    result.samples.push_back({sample.name, sample.value});
  encode(results, result);
  return rpc::Outcome::kReply;
}

rpc::Outcome AdminProgram::misdirected(const rpc::Call& call) {
  if (!misdirected_) return rpc::Outcome::kNoProcedure;
  wire::MisdirectedArgs report;
  if (!decode(call.arguments, report)) return rpc::Outcome::kGarbage;
  misdirected_(report);
  return rpc::Outcome::kReply;
}

}  // namespace slice::service
