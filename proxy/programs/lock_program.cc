#include "proxy/programs/lock_program.h"

#include <optional>

#include "rpc/endpoint.h"

namespace slice::proxy {

using LockStatus = nlm4::Status;

namespace {

using nlm4::Procedure;

// False where the arguments do not decode.
template <class Args>
bool refuse(const rpc::Call& call, LockStatus status, rpc::XdrWriter& results) {
  Args args;
  if (!decode(call.arguments, args)) return false;
  encode(results, nlm4::Result{args.cookie, status});
  return true;
}

bool refuse_share(const rpc::Call& call, rpc::XdrWriter& results) {
  nlm4::ShareArgs args;
  if (!decode(call.arguments, args)) return false;
  encode(results, nlm4::ShareResult{args.cookie, LockStatus::kDeniedNoLocks, 0});
  return true;
}

// False where the arguments do not decode, nothing where there is no such procedure.
std::optional<bool> answer(const rpc::Call& call, rpc::XdrWriter& results) {
  switch (static_cast<Procedure>(call.procedure)) {
    case Procedure::kTest:
      return refuse<nlm4::TestArgs>(call, LockStatus::kDeniedNoLocks, results);
    case Procedure::kLock:
    case Procedure::kNmLock:
      return refuse<nlm4::LockArgs>(call, LockStatus::kDeniedNoLocks, results);
    case Procedure::kCancel:
      return refuse<nlm4::CancelArgs>(call, LockStatus::kDeniedNoLocks, results);
    case Procedure::kUnlock:
      return refuse<nlm4::UnlockArgs>(call, LockStatus::kDeniedNoLocks, results);
    case Procedure::kGranted:  // nobody waits here for a lock
      return refuse<nlm4::TestArgs>(call, LockStatus::kDenied, results);
    case Procedure::kShare:
    case Procedure::kUnshare:
      return refuse_share(call, results);
    default:
      return std::nullopt;
  }
}

}  // namespace

Task<rpc::Outcome> LockProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  if (call.procedure == static_cast<std::uint32_t>(Procedure::kFreeAll)) {
    // A client that was restarted: nothing is held for it.
    nlm4::FreeAllArgs args;
    co_return decode(call.arguments, args) ? rpc::Outcome::kReply : rpc::Outcome::kGarbage;
  }
  auto answered = answer(call, results);
  if (!answered) co_return rpc::Outcome::kNoProcedure;
  if (!*answered) co_return rpc::Outcome::kGarbage;
  refused_.add();
  if (log_limit_.allow()) {
    log_info("a lock was refused to {}: there are none over the network; clients mount with nolock",
             rpc::to_string(call.client));
  }
  co_return rpc::Outcome::kReply;
}

}  // namespace slice::proxy
