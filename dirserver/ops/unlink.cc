#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {

Answer<Victim> find_victim(Change& change, const nfs3::DirOpArgs& where) {
  auto directory = change.directory(change.request.handle);
  if (!directory) return refuse(directory.error());
  auto entry = change.look_up(**directory, where.name);
  if (!entry) return refuse(entry.error());
  if (!entry->target) return refuse(nfs3::Status::kNoEnt);
  if (!may(change.request.who, **directory, service::kMayWrite | service::kMayExecute)) {
    return refuse(nfs3::Status::kAcces);
  }
  auto cell = change.target(*entry);
  if (!cell) return refuse(cell.error());
  if (sticky_keeps(change.request.who, **directory, **cell)) return refuse(nfs3::Status::kPerm);
  return Victim{*entry, *cell};
}

void unlink_victim(Change& change, Victim& victim) {
  AttributeCell& directory = *victim.entry.directory;
  change.transaction.unlink(victim.entry.place);
  --directory.entries;
  if (victim.cell->directory()) --directory.nlink;
  change.touch_directory(directory);
  change.drop_link(*victim.cell);
}

Task<NfsAnswer> take_out(Volume& volume, NfsRequest& request, const nfs3::DirOpArgs& where,
                         rpc::XdrWriter& out, UnlinkPlan plan) {
  Change change(volume, request, out);
  auto directory = change.directory(request.handle);
  if (!directory) co_return co_await change.fail(directory.error());
  request.wcc = {.before = wcc_of(**directory), .after = volume.attributes(**directory)};
  if (auto status = plan(change, where); status != nfs3::Status::kOk) {
    co_return co_await change.fail(status);
  }
  nfs3::encode_result(out, nfs3::Status::kOk, change.wcc_after(request.wcc, **directory));
  co_return co_await change.commit();
}

}  // namespace slice::dirserver::ops
