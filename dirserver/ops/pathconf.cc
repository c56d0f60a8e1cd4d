#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> pathconf(Volume& volume, NfsRequest& request, const nfs3::HandleView&, rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = read_object(volume, request.handle, shown);
  if (!cell) return refuse_shown(volume, request, out, shown, cell.error());
  nfs3::encode_result(out, nfs3::PathconfOk{.attributes = volume.attributes(**cell)});
  return answer_shown(volume, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
