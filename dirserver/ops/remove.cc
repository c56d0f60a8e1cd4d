#include "dirserver/ops/ops.h"
#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {
namespace {

nfs3::Status plan(Change& change, const nfs3::RemoveArgs& arguments) {
  if (dot_or_dot_dot(arguments.name)) return nfs3::Status::kInval;
  auto found = find_victim(change, arguments);
  if (!found) return found.error();
  if (found->cell->directory()) return nfs3::Status::kIsDir;
  unlink_victim(change, *found);
  return nfs3::Status::kOk;
}

}  // namespace

Task<NfsAnswer> remove(Volume& volume, NfsRequest& request, const nfs3::RemoveArgs& arguments,
                       rpc::XdrWriter& out) {
  return take_out(volume, request, arguments, out, plan);
}

}  // namespace slice::dirserver::ops
