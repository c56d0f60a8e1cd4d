#include "dirserver/ops/new_object.h"
#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

using NfsStatus = nfs3::Status;

namespace {

using nfs3::CreateMode;

NfsStatus make(Change& change, const NamedEntry& entry, const nfs3::CreateArgs& arguments) {
  // An exclusive create carries a verifier where the others carry attributes: the client sets them next.
  bool exclusive = arguments.mode == CreateMode::kExclusive;
  auto cell = make_object(change, entry, nfs3::FileType::kRegular,
                          exclusive ? nfs3::SetAttributes{} : arguments.attributes);
  if (!cell) return cell.error();
  if ((*cell)->size > kMaxFileSize) return NfsStatus::kFbig;
  if (exclusive) (*cell)->exclusive_verifier = arguments.verifier;
  return created(change, entry, **cell);
}

// The name exists: whether this call may have it. CREATE UNCHECKED with a size sets that of the file: `cut`,
// and then the name is held.
NfsStatus take(Change& change, const NamedEntry& entry, const nfs3::CreateArgs& arguments,
               std::optional<CutRecord>& cut) {
  auto cell = change.glance(entry.target->cell);
  if (!cell) return cell.error();
  if (*cell == nullptr) return NfsStatus::kStale;  // removed since: the client looks again
  bool same = arguments.mode == CreateMode::kExclusive && (*cell)->exclusive_verifier == arguments.verifier;
  bool unchecked = arguments.mode == CreateMode::kUnchecked && (*cell)->regular();
  if (!same && !unchecked) return NfsStatus::kExist;
  if (unchecked && arguments.attributes.size) {
    if (auto status = change.hold_name(entry); status != NfsStatus::kOk) return status;
    LockKey name{entry.place.directory.fileid, entry.place.position};
    cut = Cuts::make(*change.initiator.id(), change.request.call, name, **cell, *arguments.attributes.size);
    return NfsStatus::kOk;
  }
  routing::HandleBytes handle = change.names.mint((*cell)->self);
  nfs3::encode_result(change.out, nfs3::CreatedOk{.object = nfs3::HandleView(handle),
                                                  .attributes = change.names.attributes(**cell),
                                                  .directory = change.request.wcc});
  return NfsStatus::kOk;
}

NfsStatus plan(Change& change, const nfs3::CreateArgs& arguments, std::optional<CutRecord>& cut) {
  cut.reset();
  auto entry = find_place(change, arguments.where);
  if (!entry) return entry.error();
  return entry->target ? take(change, *entry, arguments, cut) : make(change, *entry, arguments);
}

Task<NfsAnswer> carry_out(Change& change, Cuts& cuts, CutRecord cut) {
  LockTable& held = change.names.held;
  // What it had to wait for it holds as well; the SETATTR to come needs the file itself free.
  held.release_all_but(cut.id, {cut.directory, cut.position});
  held.make_oldest(cut.id);
  auto results = co_await cuts.run(std::move(cut));
  if (!results) co_return NfsAnswer::drop();
  change.out.fixed(as_bytes(*results));
  rpc::XdrReader in(as_bytes(*results));
  co_return NfsAnswer::written(static_cast<NfsStatus>(in.u32()));
}

}  // namespace

Task<NfsAnswer> create(Changes& changes, Cuts& cuts, NfsRequest& request, const nfs3::CreateArgs& arguments,
                       rpc::XdrWriter& out) {
  std::optional<CutRecord> cut;
  co_return co_await changes.run(
      request, out, [&](Change& change) { return plan(change, arguments, cut); },
      [&](Change& change) { return cut ? carry_out(change, cuts, std::move(*cut)) : change.commit(); });
}

}  // namespace slice::dirserver::ops
