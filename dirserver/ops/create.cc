#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"
#include "dirserver/ops/resize.h"

namespace slice::dirserver::ops {
namespace {

using nfs3::CreateMode;
using nfs3::Status;

Status make(Change& change, const NamedEntry& entry, const nfs3::CreateArgs& arguments) {
  // An exclusive create carries a verifier where the others carry attributes: the client sets them next.
  bool exclusive = arguments.mode == CreateMode::kExclusive;
  auto cell = make_object(change, entry, nfs3::FileType::kRegular,
                          exclusive ? nfs3::SetAttributes{} : arguments.attributes);
  if (!cell) return cell.error();
  if ((*cell)->size > kMaxFileSize) return Status::kFbig;
  if (exclusive) (*cell)->exclusive_verifier = arguments.verifier;
  return created(change, entry, **cell);
}

// The name exists: whether this call may have it. CREATE UNCHECKED with a size is a SETATTR of the size then,
// which is to be done before: `resize` is set.
Status take(Change& change, const NamedEntry& entry, const nfs3::CreateArgs& arguments,
            std::optional<Target>& resize) {
  auto cell = change.glance(entry.target->cell);
  if (!cell) return cell.error();
  if (*cell == nullptr) return Status::kStale;  // removed since: the client looks again
  bool same = arguments.mode == CreateMode::kExclusive && (*cell)->exclusive_verifier == arguments.verifier;
  bool unchecked = arguments.mode == CreateMode::kUnchecked && (*cell)->regular();
  if (!same && !unchecked) return Status::kExist;
  if (unchecked && arguments.attributes.size) resize = (*cell)->self;
  routing::HandleBytes handle = change.volume.mint((*cell)->self);
  nfs3::encode_result(change.out, nfs3::CreatedOk{.object = nfs3::HandleView(handle),
                                                  .attributes = change.volume.attributes(**cell),
                                                  .directory = change.request.wcc});
  return Status::kOk;
}

Status plan(Change& change, const nfs3::CreateArgs& arguments, std::optional<Target>& resize) {
  resize.reset();
  auto entry = find_place(change, arguments.where);
  if (!entry) return entry.error();
  return entry->target ? take(change, *entry, arguments, resize) : make(change, *entry, arguments);
}

}  // namespace

Task<NfsAnswer> create(Volume& volume, NfsRequest& request, const nfs3::CreateArgs& arguments,
                       rpc::XdrWriter& out) {
  std::optional<Target> resize;
  std::size_t start = out.size();
  Plan make_or_take = [&](Change& change) { return plan(change, arguments, resize); };
  NfsAnswer answer = co_await run_change(volume, request, out, make_or_take);
  if (!resize) co_return answer;
  out.rewind(start);
  Status set = co_await set_size(volume, request, *resize, *arguments.attributes.size);
  if (set != Status::kOk) co_return set;
  // Once more, for the attributes as they are now; this reply is the one to remember.
  co_return co_await run_change(volume, request, out, make_or_take,
                                [](Change& change) { return change.commit_reply(); });
}

}  // namespace slice::dirserver::ops
