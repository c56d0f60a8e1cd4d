#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> mkdir(Volume& volume, NfsRequest& request, const nfs3::MkdirArgs& arguments,
                      rpc::XdrWriter& out) {
  Change change(volume, request, out);
  auto added = add_object(change, arguments.where, nfs3::FileType::kDirectory, arguments.attributes);
  if (!added) co_return co_await change.fail(added.error());
  co_return co_await commit_object(change, added->first, *added->second);
}

}  // namespace slice::dirserver::ops
