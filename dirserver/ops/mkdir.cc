#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> mkdir(Changes& changes, NfsRequest& request, const nfs3::MkdirArgs& arguments,
                      rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) {
    return plan_object(change, arguments.where, nfs3::FileType::kDirectory, arguments.attributes);
  });
}

}  // namespace slice::dirserver::ops
