#include "service/object_source.h"

#include "service/internal_call.h"

namespace slice::service {

Task<Result<wire::ObjectListResult>> RemoteObjects::list(wire::ObjectListArgs args) {
  auto result = co_await internal_call<wire::ObjectListResult>(
      channel_, server().endpoint, wire::kObjectProgram, wire::ObjectProcedure::kList, args, timeout_);
  if (!result) co_return fail(result.error(), server().name);
  if (result->status != nfs3::Status::kOk) {
    co_return fail(Errc::kUnavailable, "{} answered {}", server().name, nfs3::status_name(result->status));
  }
  co_return result;
}

Task<Result<wire::ObjectStatResult>> RemoteObjects::stat(wire::ObjectName object) {
  auto result = co_await internal_call<wire::ObjectStatResult>(
      channel_, server().endpoint, wire::kObjectProgram, wire::ObjectProcedure::kStat,
      wire::ObjectStatArgs{object}, timeout_);
  if (!result) co_return fail(result.error(), server().name);
  co_return result;
}

}  // namespace slice::service
