#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> symlink(Volume& volume, NfsRequest& request, const nfs3::SymlinkArgs& arguments,
                        rpc::XdrWriter& out) {
  Change change(volume, request, out);
  auto added = add_object(change, arguments.where, nfs3::FileType::kSymlink, arguments.attributes);
  if (!added) co_return co_await change.fail(added.error());
  if (arguments.target.empty()) co_return co_await change.fail(nfs3::Status::kInval);
  if (arguments.target.size() > nfs3::kMaxPath) co_return co_await change.fail(nfs3::Status::kNameTooLong);
  AttributeCell& cell = *added->second;
  cell.symlink_target = arguments.target;
  cell.size = arguments.target.size();
  co_return co_await commit_object(change, added->first, cell);
}

}  // namespace slice::dirserver::ops
