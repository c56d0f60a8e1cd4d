#include "dirserver/ops/ops.h"
#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {
namespace {

nfs3::Status check_directory(Change& change, const AttributeCell& victim) {
  if (!victim.directory()) return nfs3::Status::kNotDir;
  auto empty = change.empty(victim);
  if (!empty) return empty.error();
  return *empty ? nfs3::Status::kOk : nfs3::Status::kNotEmpty;
}

}  // namespace

Task<NfsAnswer> rmdir(Changes& changes, NfsRequest& request, const nfs3::RmdirArgs& arguments,
                      rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) {
    if (arguments.name == ".") return nfs3::Status::kInval;
    if (arguments.name == "..") return nfs3::Status::kExist;
    return take_out(change, arguments.name, check_directory);
  });
}

}  // namespace slice::dirserver::ops
