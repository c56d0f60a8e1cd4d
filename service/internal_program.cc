#include "service/internal_program.h"

namespace slice::service {

Task<rpc::Outcome> InternalProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (!call.internal) co_return rpc::Outcome::kDenied;
  if (calls_ != nullptr) calls_->add();
  if (call.procedure >= operations_.size() || !operations_[call.procedure]) {
    co_return rpc::Outcome::kNoProcedure;
  }
  co_return co_await operations_[call.procedure](call, results);
}

}  // namespace slice::service
