// What the operations in ops/ share: looking up what a call names, permission, and how an operation ends.
//
// A changing operation reads, decides and commits without awaiting anything between, by one Change; so its
// pre-operation attributes are taken atomically with it. Its reply is encoded before the commit, since the
// reply is stored in the same batch (DuplicateCache).
#ifndef SLICE_DIRSERVER_OPERATION_H
#define SLICE_DIRSERVER_OPERATION_H

#include <tl/expected.hpp>
#include <vector>

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
// The same for what the store or the configuration refused; logs what an operator should see.
tl::unexpected<nfs3::Status> refuse(const Error& error);

// NAMETOOLONG over 255 bytes; INVAL for an empty name and for one with "/" or a zero byte; kOk otherwise.
nfs3::Status check_name(std::string_view name);
bool dot_or_dot_dot(std::string_view name);

bool may(const Identity& who, const AttributeCell& cell, unsigned wanted);
// Whether the sticky bit of `directory` keeps `who` from removing or renaming `cell` in it.
bool sticky_keeps(const Identity& who, const AttributeCell& directory, const AttributeCell& cell);

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

// ---- changing operations ----

// A name in a directory, as (directory, name) of a call's arguments.
struct NamedEntry {
  AttributeCell* directory = nullptr;
  NamePlace place;
  std::optional<Target> target;  // where the name exists
};

class Change {
 public:
  Change(Volume& volume, NfsRequest& request, rpc::XdrWriter& out);

  // The cell of a handle: STALE, and NOTDIR from directory().
  Answer<AttributeCell*> object(const routing::FileHandle& handle);
  Answer<AttributeCell*> directory(const routing::FileHandle& handle);
  // A handle that is not the first of the arguments: BADHANDLE.
  Answer<routing::FileHandle> open(nfs3::HandleView handle) const;
  // Looks `name` up in a directory that was loaded: NAMETOOLONG, INVAL, ACCES where the directory may not be
  // searched. The caller has dealt with "." and "..".
  Answer<NamedEntry> look_up(AttributeCell& in, std::string_view name);
  // The cell a name points to.
  Answer<AttributeCell*> target(const NamedEntry& entry);

  // The directory got or lost a name.
  void touch_directory(AttributeCell& cell);
  // Takes one name off an object, and the object away with its last one.
  void drop_link(AttributeCell& cell);
  nfs3::WccData wcc_after(const nfs3::WccData& before, const AttributeCell& cell) const;

  // Ends the operation well: `results` are written; their record, commit, durable.
  Task<NfsAnswer> commit();
  // Commits, durably, the first of two steps: nothing is answered yet.
  Task<slice::Status> commit_first_step();
  // Ends it badly: writes the procedure's failure body with the request's attributes and wcc, and changes
  // nothing.
  Task<NfsAnswer> fail(nfs3::Status status);
  // Ends it without a change; the results, with `status`, are written.
  Task<NfsAnswer> answer(nfs3::Status status);

  Volume& volume;
  NfsRequest& request;
  rpc::XdrWriter& out;
  Transaction transaction;
  nfs3::Time now;

 private:
  std::size_t start_;  // of this operation's results in `out`
  std::vector<ReclaimRecord> reclaims_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_OPERATION_H
