#include "dirserver/ops/ops.h"
#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {
namespace {

nfs3::Status plan(Change& change, const nfs3::RmdirArgs& arguments) {
  if (arguments.name == ".") return nfs3::Status::kInval;
  if (arguments.name == "..") return nfs3::Status::kExist;
  auto found = find_victim(change, arguments);
  if (!found) return found.error();
  if (!found->cell->directory()) return nfs3::Status::kNotDir;
  if (found->cell->entries > 0) return nfs3::Status::kNotEmpty;
  unlink_victim(change, *found);
  return nfs3::Status::kOk;
}

}  // namespace

Task<NfsAnswer> rmdir(Volume& volume, NfsRequest& request, const nfs3::RmdirArgs& arguments,
                      rpc::XdrWriter& out) {
  return take_out(volume, request, arguments, out, plan);
}

}  // namespace slice::dirserver::ops
