#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {
namespace {

// Regular files, directories and symbolic links have procedures of their own (RFC 1813 section 3.3.11).
nfs3::Status check_type(nfs3::FileType type, const Identity& who) {
  switch (type) {
    case nfs3::FileType::kBlock:
    case nfs3::FileType::kCharacter:
      return who.superuser() ? nfs3::Status::kOk : nfs3::Status::kPerm;
    case nfs3::FileType::kSocket:
    case nfs3::FileType::kFifo:
      return nfs3::Status::kOk;
    default:
      return nfs3::Status::kBadType;
  }
}

nfs3::Status plan(Change& change, const nfs3::MknodArgs& arguments) {
  auto entry = find_place(change, arguments.where);
  if (!entry) return entry.error();
  if (auto status = check_type(arguments.type, change.request.who); status != nfs3::Status::kOk) {
    return entry->target ? nfs3::Status::kExist : status;
  }
  auto cell = make_object(change, *entry, arguments.type, arguments.attributes);
  if (!cell) return cell.error();
  (*cell)->rdev_major = arguments.rdev_major;
  (*cell)->rdev_minor = arguments.rdev_minor;
  return created(change, *entry, **cell);
}

}  // namespace

Task<NfsAnswer> mknod(Changes& changes, NfsRequest& request, const nfs3::MknodArgs& arguments,
                      rpc::XdrWriter& out) {
  return changes.run(request, out, [&arguments](Change& change) { return plan(change, arguments); });
}

}  // namespace slice::dirserver::ops
