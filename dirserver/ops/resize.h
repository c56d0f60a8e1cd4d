// Setting a regular file's size: what SETATTR and CREATE of an existing file share. The caller holds the
// file's lock from before it reads the cell until the end.
#ifndef SLICE_DIRSERVER_OPS_RESIZE_H
#define SLICE_DIRSERVER_OPS_RESIZE_H

#include "dirserver/change.h"

namespace slice::dirserver::ops {

inline constexpr std::uint64_t kMaxFileSize = nfs3::FsinfoOk{}.max_file_size;
inline constexpr std::uint32_t kSetUid = 04000, kSetGid = 02000, kGroupExecute = 010;

// ISDIR, INVAL (not a regular file), ACCES, FBIG; kOk where the caller may set this size.
nfs3::Status check_resize(const Identity& who, const AttributeCell& cell, std::uint64_t size);

// Size, epoch and times of the cell, as at `now`; what a write by this caller takes off the mode.
void resize(AttributeCell& cell, const Identity& who, std::uint64_t size, nfs3::Time now);

// Commits `change`, in which the cell was resized, as the first step, and has the bytes cut. The record to
// end with, or how the operation ends instead. `call`: what a restart is to answer; SETATTR only.
Task<tl::expected<TruncationRecord, NfsAnswer>> cut(Change& change, AttributeCell& cell,
                                                    std::optional<CallKey> call, nfs3::WccAttributes before);

// A SETATTR of the size alone by the request's caller, of any server's file, and with a reply of its own.
Task<nfs3::Status> set_size(Volume& volume, const NfsRequest& request, const Target& file,
                            std::uint64_t size);

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_RESIZE_H
