#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

using NfsStatus = nfs3::Status;

namespace {

constexpr std::uint32_t kPermissionBits = 0777;

// As setfacl(1) has it of a file system: the owner's to do, a default list a directory's to have.
NfsStatus check(const Identity& who, const AttributeCell& cell, const nfs3::SetaclArgs& arguments) {
  if ((arguments.mask & ~nfs3::kAclAll) != 0 || !arguments.valid) return NfsStatus::kInval;
  if (cell.self.type == nfs3::FileType::kSymlink) return NfsStatus::kNotSupp;
  if (!who.superuser() && who.uid != cell.uid) return NfsStatus::kPerm;
  const bool defaults = (arguments.mask & nfs3::kAclDefault) != 0 && arguments.defaults;
  return defaults && !cell.directory() ? NfsStatus::kAcces : NfsStatus::kOk;
}

void apply(const Identity& who, AttributeCell& cell, const nfs3::SetaclArgs& arguments) {
  if ((arguments.mask & nfs3::kAclAccess) != 0) {
    if (arguments.access) cell.mode = (cell.mode & ~kPermissionBits) | mode_of(*arguments.access);
    cell.access = arguments.access ? beyond_mode(*arguments.access) : nullptr;
    if (!who.superuser() && !who.in_group(cell.gid)) cell.mode &= ~kSetGid;
  }
  if ((arguments.mask & nfs3::kAclDefault) != 0)
    cell.defaults = arguments.defaults ? std::make_shared<const nfs3::Acl>(*arguments.defaults) : nullptr;
}

NfsStatus plan(Change& change, const nfs3::SetaclArgs& arguments) {
  auto found = change.object(change.request.handle);
  if (!found) return found.error();
  AttributeCell& cell = **found;
  change.request.attributes = change.names.attributes(cell);
  const Identity& who = change.request.who;
  if (auto status = check(who, cell, arguments); status != NfsStatus::kOk) return status;
  apply(who, cell, arguments);
  cell.ctime = later(change.now, cell.ctime);
  if (auto status = change.rewrite(cell); status != NfsStatus::kOk) return status;
  nfs3::encode_result(change.out, nfs3::SetaclOk{change.names.attributes(cell)});
  return NfsStatus::kOk;
}

}  // namespace

Task<NfsAnswer> setacl(Changes& changes, NfsRequest& request, const nfs3::SetaclArgs& arguments,
                       rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) { return plan(change, arguments); });
}

}  // namespace slice::dirserver::ops
