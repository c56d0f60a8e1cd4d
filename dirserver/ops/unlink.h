// What REMOVE and RMDIR share: a name that goes, and the object it points to.
#ifndef SLICE_DIRSERVER_OPS_UNLINK_H
#define SLICE_DIRSERVER_OPS_UNLINK_H

#include "dirserver/operation.h"

namespace slice::dirserver::ops {

struct Victim {
  NamedEntry entry;
  AttributeCell* cell = nullptr;
};

// The name and what it points to, where the caller may take it out of the request's directory: NOENT, ACCES,
// PERM (sticky bit).
Answer<Victim> find_victim(Change& change, const nfs3::DirOpArgs& where);
// Takes the name away, and the object with its last one.
void unlink_victim(Change& change, Victim& victim);

// The whole operation: runs `plan` over the request's directory and answers with the wcc_data before and
// after (REMOVE3res and RMDIR3res are alike).
using UnlinkPlan = nfs3::Status (*)(Change& change, const nfs3::DirOpArgs& where);
Task<NfsAnswer> take_out(Volume& volume, NfsRequest& request, const nfs3::DirOpArgs& where,
                         rpc::XdrWriter& out, UnlinkPlan plan);

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_UNLINK_H
