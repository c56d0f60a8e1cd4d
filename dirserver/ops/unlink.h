// What REMOVE and RMDIR share: a name that goes, and the object it points to.
#ifndef SLICE_DIRSERVER_OPS_UNLINK_H
#define SLICE_DIRSERVER_OPS_UNLINK_H

#include "dirserver/ops/change.h"

namespace slice::dirserver::ops {

// Whether the procedure may take this object out: ISDIR, NOTDIR, NOTEMPTY.
using CheckVictim = nfs3::Status (*)(Change& change, const AttributeCell& victim);

// The whole plan: the name goes from the request's directory, and the object with its last one; answers with
// the wcc_data before and after (REMOVE3res and RMDIR3res are alike). NOENT, ACCES, PERM (sticky bit).
nfs3::Status take_out(Change& change, std::string_view name, CheckVictim check);

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_UNLINK_H
