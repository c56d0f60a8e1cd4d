#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

// Limits are those of TCP; over UDP a client takes less by itself, since a datagram holds no more.
Task<NfsAnswer> fsinfo(Volume& volume, NfsRequest& request, const nfs3::HandleView&, rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = read_object(volume, request.handle, shown);
  if (!cell) return refuse_shown(volume, request, out, shown, cell.error());
  nfs3::encode_result(out, nfs3::FsinfoOk{.attributes = volume.attributes(**cell)});
  return answer_shown(volume, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
