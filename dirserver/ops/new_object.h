// What CREATE, MKDIR, SYMLINK and MKNOD share: a name that is not there yet, and the cell it will point to.
#ifndef SLICE_DIRSERVER_OPS_NEW_OBJECT_H
#define SLICE_DIRSERVER_OPS_NEW_OBJECT_H

#include "dirserver/ops/change.h"

namespace slice::dirserver::ops {

// Loads the directory (its attributes go into the request's wcc) and looks the name up. EXIST for "." and
// "..". The name may exist.
Answer<NamedEntry> find_place(Change& change, const nfs3::DirOpArgs& where);

// Makes name and attribute cell with what the caller may set of `attributes`: EXIST, ACCES, NOSPC. The cell
// may still be completed before the commit.
Answer<AttributeCell*> make_object(Change& change, const NamedEntry& entry, nfs3::FileType type,
                                   const nfs3::SetAttributes& attributes);

// Writes the success of any of the four for a new object.
nfs3::Status created(Change& change, const NamedEntry& entry, const AttributeCell& cell);

// The whole plan of MKDIR and its like: `complete` does what is special about the new cell, or refuses.
nfs3::Status plan_object(Change& change, const nfs3::DirOpArgs& where, nfs3::FileType type,
                         const nfs3::SetAttributes& attributes,
                         const std::function<nfs3::Status(AttributeCell& cell)>& complete = {});

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_NEW_OBJECT_H
