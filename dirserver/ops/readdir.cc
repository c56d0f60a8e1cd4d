#include "dirserver/ops/listing.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> readdir(NameSpace& names, NfsRequest& request, const nfs3::ReaddirArgs& arguments,
                        rpc::XdrWriter& out) {
  return list(
      names, request,
      {.cookie = arguments.cookie, .verifier = arguments.verifier, .limits = {.maxcount = arguments.count}},
      out);
}

}  // namespace slice::dirserver::ops
