#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> getacl(NameSpace& names, NfsRequest& request, const nfs3::GetaclArgs& arguments,
                       rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) return refuse_shown(names, request, out, shown, cell.error());
  request.attributes = names.attributes(**cell);
  if ((arguments.mask & ~nfs3::kAclAll) != 0)
    return refuse_shown(names, request, out, shown, nfs3::Status::kInval);
  nfs3::GetaclOk ok{.attributes = request.attributes, .mask = arguments.mask, .access = {}, .defaults = {}};
  if ((arguments.mask & (nfs3::kAclAccess | nfs3::kAclAccessCount)) != 0)
    ok.access = nfs3::acl_of((*cell)->mode, (*cell)->access.get());
  if ((arguments.mask & (nfs3::kAclDefault | nfs3::kAclDefaultCount)) != 0 && (*cell)->defaults)
    ok.defaults = *(*cell)->defaults;
  nfs3::encode_result(out, ok);
  return answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
