// What CREATE, MKDIR, SYMLINK and MKNOD share: a name that is not there yet, and the cell it will point to.
#ifndef SLICE_DIRSERVER_OPS_NEW_OBJECT_H
#define SLICE_DIRSERVER_OPS_NEW_OBJECT_H

#include "dirserver/operation.h"

namespace slice::dirserver::ops {

// Loads the directory (its attributes go into the request's wcc) and looks the name up. EXIST for "." and
// "..". The name may exist.
Answer<NamedEntry> find_place(Change& change, const nfs3::DirOpArgs& where);

// Makes name and attribute cell with what the caller may set of `attributes`: EXIST, ACCES, NOSPC. The cell
// may still be completed before the commit.
Answer<AttributeCell*> make_object(Change& change, const NamedEntry& entry, nfs3::FileType type,
                                   const nfs3::SetAttributes& attributes);

// Writes the success of any of the four for a new object, and commits.
Task<NfsAnswer> commit_object(Change& change, const NamedEntry& entry, const AttributeCell& cell);

// The whole of MKDIR and its like where nothing but the cell's making is special.
Answer<std::pair<NamedEntry, AttributeCell*>> add_object(Change& change, const nfs3::DirOpArgs& where,
                                                         nfs3::FileType type,
                                                         const nfs3::SetAttributes& attributes);

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_NEW_OBJECT_H
