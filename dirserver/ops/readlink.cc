#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> readlink(Volume& volume, NfsRequest& request, const nfs3::HandleView&, rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = read_object(volume, request.handle, shown);
  if (!cell) return refuse_shown(volume, request, out, shown, cell.error());
  request.attributes = volume.attributes(**cell);
  if ((*cell)->self.type != nfs3::FileType::kSymlink) {
    return refuse_shown(volume, request, out, shown, nfs3::Status::kInval);
  }
  nfs3::encode_result(out,
                      nfs3::ReadlinkOk{.attributes = request.attributes, .target = (*cell)->symlink_target});
  return answer_shown(volume, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
