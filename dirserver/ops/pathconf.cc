#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> pathconf(NameSpace& names, NfsRequest& request, const nfs3::HandleView&,
                         rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) return refuse_shown(names, request, out, shown, cell.error());
  nfs3::encode_result(out, nfs3::PathconfOk{.attributes = names.attributes(**cell)});
  return answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
