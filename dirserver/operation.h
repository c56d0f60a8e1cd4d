// What the operations in ops/ share: the protocol's refusals, permission, and how an operation that only
// reads ends. Those that change something: change.h.
#ifndef SLICE_DIRSERVER_OPERATION_H
#define SLICE_DIRSERVER_OPERATION_H

#include <tl/expected.hpp>

#include "dirserver/volume.h"
#include "service/nfs_program.h"

namespace slice::dirserver {

using service::Identity;
using service::NfsAnswer;
using service::NfsRequest;

// The protocol's own refusals, inside an operation.
template <class T>
using Answer = tl::expected<T, nfs3::Status>;
inline tl::unexpected<nfs3::Status> refuse(nfs3::Status status) {
  return tl::unexpected<nfs3::Status>(status);
}
// Logs what an operator should see.
void log_refusal(const Error& error);
// As above for what the store or the configuration refused, which is logged.
tl::unexpected<nfs3::Status> refuse(const Error& error);

// NAMETOOLONG over 255 bytes; INVAL for an empty name and for one with "/" or a zero byte; kOk otherwise.
nfs3::Status check_name(std::string_view name);
bool dot_or_dot_dot(std::string_view name);

bool may(const Identity& who, const AttributeCell& cell, unsigned wanted);
// Whether the sticky bit of `directory` keeps `who` from removing or renaming `cell` in it.
bool sticky_keeps(const Identity& who, const AttributeCell& directory, const AttributeCell& cell);

inline constexpr std::uint64_t kMaxFileSize = nfs3::FsinfoOk{}.max_file_size;

// ---- reading operations ----

// The object of the request's handle; STALE where it is gone. Valid until the next use of the cells. `shown`
// grows to what must be durable before the reply leaves, whatever the answer.
Answer<const AttributeCell*> read_object(Volume& volume, const routing::FileHandle& handle,
                                         storage::LogPosition& shown);
// Ends an operation whose results are written: waits until what they show is durable.
Task<NfsAnswer> answer_shown(Volume& volume, NfsRequest& request, storage::LogPosition shown,
                             nfs3::Status status);
// Ends one that failed: the failure body, with request.attributes.
Task<NfsAnswer> refuse_shown(Volume& volume, NfsRequest& request, rpc::XdrWriter& out,
                             storage::LogPosition shown, nfs3::Status status);

// A cell of any server's, as it is when nothing is about to change it; nothing where it is gone. `shown` as
// in read_object().
Task<Answer<std::optional<AttributeCell>>> read_cell(Volume& volume, CellRef ref,
                                                     storage::LogPosition& shown);
// What a directory's names are judged by: its cell, or a lease of it. STALE.
struct ReadDirectory {
  AttributeCell cell;
  bool leased = false;  // counts and times are not to be shown
};
Task<Answer<ReadDirectory>> read_directory(Volume& volume, const routing::FileHandle& handle,
                                           storage::LogPosition& shown);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_OPERATION_H
