#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> symlink(Changes& changes, NfsRequest& request, const nfs3::SymlinkArgs& arguments,
                        rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) {
    return plan_object(change, arguments.where, nfs3::FileType::kSymlink, arguments.attributes,
                       [&arguments](AttributeCell& cell) {
                         if (arguments.target.empty()) return nfs3::Status::kInval;
                         if (arguments.target.size() > nfs3::kMaxPath) return nfs3::Status::kNameTooLong;
                         cell.symlink_target = arguments.target;
                         cell.size = arguments.target.size();
                         return nfs3::Status::kOk;
                       });
  });
}

}  // namespace slice::dirserver::ops
