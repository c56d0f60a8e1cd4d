#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> readlink(NameSpace& names, NfsRequest& request, const nfs3::HandleView&,
                         rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) return refuse_shown(names, request, out, shown, cell.error());
  request.attributes = names.attributes(**cell);
  if ((*cell)->self.type != nfs3::FileType::kSymlink) {
    return refuse_shown(names, request, out, shown, nfs3::Status::kInval);
  }
  nfs3::encode_result(out,
                      nfs3::ReadlinkOk{.attributes = request.attributes, .target = (*cell)->symlink_target});
  return answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
