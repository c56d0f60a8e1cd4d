#include "dirserver/ops/listing.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

Task<NfsAnswer> readdirplus(NameSpace& names, NfsRequest& request, const nfs3::ReaddirplusArgs& arguments,
                            rpc::XdrWriter& out) {
  return list(names, request,
              {.cookie = arguments.cookie,
               .verifier = arguments.verifier,
               .limits = {.dircount = arguments.dircount, .maxcount = arguments.maxcount},
               .plus = true},
              out);
}

}  // namespace slice::dirserver::ops
