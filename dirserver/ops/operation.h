// What the operations share: what names and permissions the protocol takes, and how an operation that only
// reads ends. Those that change something: change.h.
#ifndef SLICE_DIRSERVER_OPS_OPERATION_H
#define SLICE_DIRSERVER_OPS_OPERATION_H

#include "dirserver/across/name_space.h"
#include "service/nfs_program.h"

namespace slice::dirserver {

using service::Identity;
using service::NfsAnswer;
using service::NfsRequest;

// Bits of a mode (RFC 1813 section 2.5, mode3).
inline constexpr std::uint32_t kAllModes = 07777, kSetUid = 04000, kSetGid = 02000, kGroupExecute = 010;

// NAMETOOLONG over 255 bytes; INVAL for an empty name and for one with "/" or a zero byte; kOk otherwise.
nfs3::Status check_name(std::string_view name);
bool dot_or_dot_dot(std::string_view name);

bool may(const Identity& who, const AttributeCell& cell, unsigned wanted);
// Whether the sticky bit of `directory` keeps `who` from removing or renaming `cell` in it.
bool sticky_keeps(const Identity& who, const AttributeCell& directory, const AttributeCell& cell);

// Whether the caller is to see what is above a directory: all are, but where that is another tree, whose
// exports have to let them in.
bool may_go_up(const NameSpace& names, const rpc::Call& call, const AttributeCell& directory,
               const AttributeCell& above);

inline constexpr std::uint64_t kMaxFileSize = nfs3::FsinfoOk{}.max_file_size;

// Ends an operation whose results are written: waits until what they show is durable.
Task<NfsAnswer> answer_shown(NameSpace& names, NfsRequest& request, storage::LogPosition shown,
                             nfs3::Status status);
// Ends one that failed: the failure body, with request.attributes.
Task<NfsAnswer> refuse_shown(NameSpace& names, NfsRequest& request, rpc::XdrWriter& out,
                             storage::LogPosition shown, nfs3::Status status);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_OPS_OPERATION_H
