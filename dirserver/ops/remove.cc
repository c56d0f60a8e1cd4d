#include "dirserver/ops/ops.h"
#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {
namespace {

nfs3::Status check_file(Change&, const AttributeCell& victim) {
  return victim.directory() ? nfs3::Status::kIsDir : nfs3::Status::kOk;
}

}  // namespace

Task<NfsAnswer> remove(Changes& changes, NfsRequest& request, const nfs3::RemoveArgs& arguments,
                       rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) {
    if (dot_or_dot_dot(arguments.name)) return nfs3::Status::kInval;
    return take_out(change, arguments.name, check_file);
  });
}

}  // namespace slice::dirserver::ops
