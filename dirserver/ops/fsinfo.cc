#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

// Limits are those of TCP; over UDP a client takes less by itself, since a datagram holds no more.
Task<NfsAnswer> fsinfo(NameSpace& names, NfsRequest& request, const nfs3::HandleView&, rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) return refuse_shown(names, request, out, shown, cell.error());
  nfs3::encode_result(out, nfs3::FsinfoOk{.attributes = names.attributes(**cell)});
  return answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
