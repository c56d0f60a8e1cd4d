#include "dirserver/ops/ops.h"

namespace slice::dirserver::ops {

using NfsStatus = nfs3::Status;

namespace {

using TimeHow = nfs3::SetAttributes::TimeHow;

constexpr std::uint32_t kNanosecondsPerSecond = 1'000'000'000;

bool bad_time(TimeHow how, const nfs3::Time& time) {
  return how == TimeHow::kClientTime && time.nanoseconds >= kNanosecondsPerSecond;
}

bool sets_something(const nfs3::SetAttributes& set) {
  return set.mode || set.uid || set.gid || set.size || set.set_atime != TimeHow::kDontChange ||
         set.set_mtime != TimeHow::kDontChange;
}

NfsStatus check_resize(const Identity& who, const AttributeCell& cell, std::uint64_t size) {
  if (cell.directory()) return NfsStatus::kIsDir;
  if (!cell.regular()) return NfsStatus::kInval;
  if (size > kMaxFileSize) return NfsStatus::kFbig;
  // The owner always may: the file may have been opened before a chmod.
  if (who.uid != cell.uid && !may(who, cell, service::kMayWrite)) return NfsStatus::kAcces;
  return NfsStatus::kOk;
}

// As chown(2), chmod(2) and utimes(2) have it, for the caller as squashed.
NfsStatus check_permission(const Identity& who, const AttributeCell& cell, const nfs3::SetAttributes& set) {
  bool owner = who.superuser() || who.uid == cell.uid;
  if (set.uid && !who.superuser() && !(owner && *set.uid == cell.uid)) return NfsStatus::kPerm;
  if (set.gid && !who.superuser() && !(owner && (*set.gid == cell.gid || who.in_group(*set.gid)))) {
    return NfsStatus::kPerm;
  }
  if (set.mode && !owner) return NfsStatus::kPerm;
  if (set.set_atime == TimeHow::kClientTime || set.set_mtime == TimeHow::kClientTime) {
    if (!owner) return NfsStatus::kPerm;
  } else if (set.set_atime == TimeHow::kServerTime || set.set_mtime == TimeHow::kServerTime) {
    if (!owner && !may(who, cell, service::kMayWrite)) return NfsStatus::kAcces;
  }
  if (bad_time(set.set_atime, set.atime) || bad_time(set.set_mtime, set.mtime)) return NfsStatus::kInval;
  return set.size ? check_resize(who, cell, *set.size) : NfsStatus::kOk;
}

// Size, epoch and times, and what a write by this caller takes off the mode.
void resize(AttributeCell& cell, const Identity& who, std::uint64_t size, nfs3::Time now) {
  cell.cut(size);
  cell.ctime = later(now, cell.ctime);
  cell.mtime = cell.ctime;
  if (!who.superuser()) {
    cell.mode &= ~kSetUid;
    if ((cell.mode & kGroupExecute) != 0) cell.mode &= ~kSetGid;
  }
}

void set_owner_and_mode(AttributeCell& cell, const Identity& who, const nfs3::SetAttributes& set) {
  cell.uid = set.uid.value_or(cell.uid);
  cell.gid = set.gid.value_or(cell.gid);
  if (set.mode) {
    cell.mode = *set.mode & kAllModes;
    if (!who.superuser() && !who.in_group(cell.gid)) cell.mode &= ~kSetGid;
  }
  // A file that changes hands runs as nobody it did not run as before.
  if ((set.uid || set.gid) && !cell.directory()) {
    cell.mode &= ~kSetUid;
    if ((cell.mode & kGroupExecute) != 0) cell.mode &= ~kSetGid;
  }
}

void set_times(AttributeCell& cell, const nfs3::SetAttributes& set) {
  if (set.set_atime == TimeHow::kClientTime) cell.atime = set.atime;
  if (set.set_atime == TimeHow::kServerTime) cell.atime = cell.ctime;
  if (set.set_mtime == TimeHow::kClientTime) cell.mtime = set.mtime;
  if (set.set_mtime == TimeHow::kServerTime) cell.mtime = cell.ctime;
  if (set.set_mtime != TimeHow::kDontChange) cell.mtime_set = cell.ctime;
}

// Who gets the object has room for it.
NfsStatus check_new_owners(Change& change, const AttributeCell& cell, const nfs3::SetAttributes& set) {
  std::vector<QuotaId> owners;
  if (set.uid && *set.uid != cell.uid) owners.push_back({QuotaKind::kUser, *set.uid});
  if (set.gid && *set.gid != cell.gid) owners.push_back({QuotaKind::kGroup, *set.gid});
  return owners.empty() ? NfsStatus::kOk : change.check_quotas(owners, cell);
}

NfsStatus apply(Change& change, AttributeCell& cell, const nfs3::SetattrArgs& arguments) {
  if (arguments.guard && *arguments.guard != cell.ctime) return NfsStatus::kNotSync;
  const nfs3::SetAttributes& set = arguments.attributes;
  const Identity& who = change.request.who;
  if (auto status = check_permission(who, cell, set); status != NfsStatus::kOk) return status;
  if (!sets_something(set)) return NfsStatus::kOk;
  if (auto status = check_new_owners(change, cell, set); status != NfsStatus::kOk) return status;
  if (set.size) resize(cell, who, *set.size, change.now);
  set_owner_and_mode(cell, who, set);
  if (!set.size) cell.ctime = later(change.now, cell.ctime);
  set_times(cell, set);
  cell.exclusive_verifier.reset();
  return change.rewrite(cell);
}

NfsStatus plan(Change& change, const nfs3::SetattrArgs& arguments) {
  auto cell = change.object(change.request.handle);
  if (!cell) return cell.error();
  change.request.wcc = change.wcc_before(**cell);
  if (auto status = apply(change, **cell, arguments); status != NfsStatus::kOk) return status;
  nfs3::encode_result(change.out, NfsStatus::kOk, change.wcc_after(change.request.wcc, **cell));
  return NfsStatus::kOk;
}

bool bytes_elsewhere(Change& change, const Truncations& truncations) {
  auto cell = change.object(change.request.handle);
  return truncations.bytes_elsewhere(**cell);
}

// The rest of a SETATTR of the size: the bytes are cut before it is answered. The caller holds the file's
// lock from before the cell was read.
Task<NfsAnswer> truncate(Changes& changes, Truncations& truncations, Change& change) {
  change.discard_results();
  auto cell = change.object(change.request.handle);
  TruncationRecord record =
      truncations.begin(change.transaction, **cell, key_of(change.request.call), *change.request.wcc.before);
  if (slice::Status committed = co_await change.commit_first_step(); !committed) {
    change.request.wcc = {};
    co_return co_await change.fail(refuse(committed.error()).value());
  }
  if (!co_await truncations.carry_out(record)) co_return NfsAnswer::drop();
  co_await change.names.held.until_free(record.file.cell.fileid);
  Change last(changes, change.request, change.out, change.initiator);
  auto now = truncations.end(last.transaction, record);
  if (!now) co_return co_await last.fail(refuse(now.error()).value());
  last.out.fixed(as_bytes(truncated_reply(record, *now, change.names.id())));
  co_return co_await last.commit();
}

}  // namespace

Task<NfsAnswer> setattr(Changes& changes, Truncations& truncations, NfsRequest& request,
                        const nfs3::SetattrArgs& arguments, rpc::XdrWriter& out) {
  std::optional<service::FileLocks::Held> lock;
  bool sized = arguments.attributes.size.has_value();
  if (sized) lock.emplace(co_await truncations.lock(request.handle.fileid));
  co_return co_await changes.run(
      request, out, [&arguments](Change& change) { return plan(change, arguments); },
      [&changes, &truncations, sized](Change& change) {
        return sized && bytes_elsewhere(change, truncations) ? truncate(changes, truncations, change)
                                                             : change.commit();
      });
}

}  // namespace slice::dirserver::ops
