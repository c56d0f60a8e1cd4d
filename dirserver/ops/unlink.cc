#include "dirserver/ops/unlink.h"

namespace slice::dirserver::ops {

nfs3::Status take_out(Change& change, std::string_view name, CheckVictim check) {
  const Identity& who = change.request.who;
  change.expect_name(change.request.handle, name);
  auto directory = change.directory(change.request.handle);
  if (!directory) return directory.error();
  change.request.wcc = change.wcc_before(**directory);
  auto entry = change.look_up(**directory, name);
  if (!entry) return entry.error();
  if (!entry->target) return nfs3::Status::kNoEnt;
  if (!may(who, **directory, service::kMayWrite | service::kMayExecute)) return nfs3::Status::kAcces;
  auto victim = change.target(*entry);
  if (!victim) return victim.error();
  if (sticky_keeps(who, **directory, **victim)) return nfs3::Status::kPerm;
  // A tree's own directory goes by slicectl tree alone, as one that something is mounted on.
  if ((*victim)->self.tree != (*directory)->self.tree && !change.request.call.internal)
    return nfs3::Status::kAcces;
  if (auto status = check(change, **victim); status != nfs3::Status::kOk) return status;

  if (auto status = change.unlink(*entry); status != nfs3::Status::kOk) return status;
  if (auto status = change.drop_link(**victim); status != nfs3::Status::kOk) return status;
  nfs3::encode_result(change.out, nfs3::Status::kOk, change.wcc_after(change.request.wcc, **directory));
  return nfs3::Status::kOk;
}

}  // namespace slice::dirserver::ops
