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

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_UNLINK_H
