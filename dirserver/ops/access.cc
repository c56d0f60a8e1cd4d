#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> access(NameSpace& names, NfsRequest& request, const nfs3::AccessArgs& arguments,
                       rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = names.read_object(request.handle, shown);
  if (!cell) return refuse_shown(names, request, out, shown, cell.error());
  nfs3::Attributes attributes = names.attributes(**cell);
  nfs3::encode_result(
      out, nfs3::AccessOk{.attributes = attributes,
                          .access = service::access_mask(request.who, {attributes, (*cell)->access.get()},
                                                         arguments.access)});
  return answer_shown(names, request, shown, nfs3::Status::kOk);
}

}  // namespace slice::dirserver::ops
