#include "dirserver/authority_service.h"

#include <algorithm>

#include "dirserver/ops/operation.h"
#include "service/ownership.h"

namespace slice::dirserver {

using NfsStatus = nfs3::Status;
using Opened = Result<routing::FileHandle>;

namespace {

constexpr std::uint32_t kSetUid = 04000, kSetGid = 02000, kGroupExecute = 010;
constexpr std::uint32_t kAtimeLag = 24 * 3600;  // seconds

wire::FetchResult failed(NfsStatus status) {
  wire::FetchResult result;
  result.status = status;
  return result;
}

wire::FetchResult told(const AttributeCell& cell, VolumeId volume) {
  wire::FetchResult result;
  result.attributes = attributes_of(cell, volume);
  result.striped = cell.striped;
  result.access = cell.access;
  return result;
}

bool ours(const Volume& volume, const routing::FileHandle& file) {
  return volume.context.tables.get()->owns(volume.context.self.index, wire::Role::kDirectory,
                                           file.directory_site);
}

Answer<AttributeCell*> load_file(Volume& volume, Transaction& transaction, const Opened& opened) {
  if (!opened) return refuse(NfsStatus::kBadHandle);
  if (!ours(volume, *opened)) return refuse(NfsStatus::kJukebox);
  CellRef ref = cell_of(*opened);
  if (ref.generation == 0) {
    auto any = volume.cells.any_generation(ref);
    if (!any) return refuse(any.error());
    if (*any != nullptr) ref = (*any)->self.cell;
  }
  auto cell = transaction.load(ref);
  if (!cell) return refuse(cell.error());
  if (*cell == nullptr || (*cell)->self.type != opened->type) return refuse(NfsStatus::kStale);
  return *cell;
}

// A write took place at `mtime`. Reports come late: one of a write before the last SETATTR of mtime, or of
// the mode, must not undo it.
bool merge_mtime(AttributeCell& cell, nfs3::Time mtime) {
  bool after_last_change = mtime > cell.ctime;
  if (mtime <= cell.mtime || mtime <= cell.mtime_set) return false;
  cell.mtime = mtime;
  cell.ctime = std::max(cell.ctime, mtime);
  if (after_last_change) {
    cell.mode &= ~kSetUid;
    if ((cell.mode & kGroupExecute) != 0) cell.mode &= ~kSetGid;
  }
  return true;
}

// As relatime of mount(8): only when it was not later than mtime or ctime, or is a day old.
bool merge_atime(AttributeCell& cell, nfs3::Time atime) {
  if (atime <= cell.atime) return false;
  bool wanted =
      cell.atime <= cell.mtime || cell.atime <= cell.ctime || atime.seconds - cell.atime.seconds >= kAtimeLag;
  if (!wanted) return false;
  cell.atime = atime;
  return true;
}

// Whether there is what a call wants to put in force.
bool good_policy(const Volume& volume, const wire::PolicyArgs& args) {
  const wire::FilePolicy& wanted = args.policy;
  auto named = [&](wire::PolicyField field) { return (args.fields & field) != 0; };
  bool unit = wanted.stripe_shift == 0 ||
              (wanted.stripe_shift < 64 && is_stripe_unit(std::uint64_t{1} << wanted.stripe_shift));
  // A storage node without sites gets no copies.
  std::size_t nodes = volume.context.tables.get()->servers(wire::Role::kStorage).size();
  bool copies = wanted.copies <= kMaxCopies && wanted.copies <= nodes;
  bool placement = wanted.placement <= kPlacementNames.size();
  return (unit || !named(wire::kPolicyStripeUnit)) && (copies || !named(wire::kPolicyCopies)) &&
         (placement || !named(wire::kPolicyPlacement));
}

FilePolicy merged(FilePolicy policy, const wire::PolicyArgs& args) {
  if ((args.fields & wire::kPolicyStripeUnit) != 0) {
    policy.stripe_shift = static_cast<std::uint8_t>(args.policy.stripe_shift);
  }
  if ((args.fields & wire::kPolicyCopies) != 0) {
    policy.copies = static_cast<std::uint8_t>(args.policy.copies);
  }
  if ((args.fields & wire::kPolicyPlacement) != 0) {
    policy.placement = static_cast<std::uint8_t>(args.policy.placement);
  }
  return policy;
}

std::uint32_t copies_of_new(const Volume& volume, const FilePolicy& policy) {
  return policy.copies != 0 ? policy.copies : volume.context.settings.get()->copies;
}

}  // namespace

AuthorityService::AuthorityService(Volume& volume)
    : InternalProgram(wire::kAuthorityProgram),
      volume_(volume),
      fetches_(volume.context.metrics.counter(
          "authority_fetches_total",
          "attributes asked of a directory server; of a directory server, answered")),
      merges_(volume.context.metrics.counter(
          "authority_merges_total",
          "files whose size and mtime were reported to a directory server; of a directory server, taken")),
      old_merges_(volume.context.metrics.counter(
          "authority_old_epoch_merges_total",
          "reports of sizes from before a truncation, which a directory server ignored")),
      refused_(volume.context.metrics.counter(
          "authority_refused_merges_total",
          "reports of a size beyond the largest file, which a directory server refused")),
      passed_on_(volume.context.metrics.counter(
          "authority_passed_on_total",
          "questions and tellings of files whose site was given away, passed on to the server that has it")) {
  using Procedure = wire::AuthorityProcedure;
  on<wire::FetchArgs>(Procedure::kFetch, [this](const auto& args) { return fetch(args); });
  on<wire::MergeArgs>(Procedure::kMerge, [this](const auto& args) { return merge_all(args); });
  on<wire::HandlesArgs>(Procedure::kHandles, [this](const auto& args) { return handles(args); });
  on<wire::RoomArgs>(Procedure::kRoom, [this](const auto& args) { return volume_.quotas.promise(args); });
  on<wire::PolicyArgs>(Procedure::kPolicy, [this](const auto& args) { return policy(args); });
}

Task<wire::FetchResult> AuthorityService::fetch(const wire::FetchArgs& args) {
  fetches_.add();
  // Waits while a truncation is under way, so that nobody learns the new epoch before its own bytes are cut.
  std::optional<service::FileLocks::Held> lock;
  auto opened = volume_.context.handles.open(args.handle);
  if (opened && !co_await volume_.peers.here(opened->directory_site)) {
    if (auto result = co_await pass_on<wire::FetchResult>(opened->directory_site,
                                                          wire::AuthorityProcedure::kFetch, args))
      co_return std::move(*result);
  }
  if (opened && volume_.locks.busy(opened->fileid)) {
    lock.emplace(co_await volume_.locks.lock(opened->fileid));
  }
  if (opened) co_await volume_.held.until_free(opened->fileid);
  if (opened) co_await volume_.peers.here(opened->directory_site);
  Transaction transaction(volume_.cells);
  auto cell = load_file(volume_, transaction, opened);
  wire::FetchResult result;
  if (!cell) {
    result.status = cell.error();
  } else {
    if (args.with_striped && (*cell)->regular() && !(*cell)->striped) {
      (*cell)->striped = true;
      transaction.change(**cell);
    }
    result = told(**cell, volume_.names.id());
  }
  if (NfsStatus status = co_await finish(transaction); status != NfsStatus::kOk) co_return failed(status);
  co_return result;
}

template <class Answer, class Args>
Task<std::optional<Answer>> AuthorityService::pass_on(SiteId site, wire::AuthorityProcedure procedure,
                                                      const Args& args) {
  const service::Ownership* record = volume_.context.ownership;
  if (record == nullptr || !record->known() || !record->given().contains(site.value)) co_return std::nullopt;
  const wire::ServerEntry* owner = volume_.context.tables.get()->server(volume_.peers.server_of(site));
  if (owner == nullptr || owner->server == volume_.context.self.index) co_return std::nullopt;
  passed_on_.add();
  auto result = co_await service::internal_call<Answer>(volume_.context.channel, owner->endpoint,
                                                        wire::kAuthorityProgram, procedure, args);
  if (!result) co_return std::nullopt;
  co_return std::move(*result);
}

wire::HandlesResult AuthorityService::handles(const wire::HandlesArgs& args) {
  wire::HandlesResult result;
  for (FileId file : args.files) {
    const CellRef ref{routing::directory_site_of(file), file, 0};
    if (!volume_.cells.owns(ref.site)) return {.status = NfsStatus::kJukebox, .files = {}};
    auto cell = volume_.cells.any_generation(ref);
    if (!cell) return {.status = nfs3::status_of(cell.error()), .files = {}};
    auto& known = result.files.emplace_back();
    if (*cell != nullptr && (*cell)->regular())
      known = {volume_.context.handles.mint(handle_of((*cell)->self)), (*cell)->size};
  }
  return result;
}

// What a file has below the threshold is at one small-file server as a whole: what another one told was so
// before its site moved.
bool AuthorityService::note_stored(AttributeCell& cell, StoredPart part) const {
  const routing::RoutingTables& tables = *volume_.context.tables.get();
  auto is_small = [&](std::uint32_t server) {
    const wire::ServerEntry* entry = tables.server(server);
    return entry != nullptr && entry->role == wire::Role::kSmallFile;
  };
  bool changed = false;
  if (cell.stored && is_small(part.server)) {
    changed = std::erase_if(*cell.stored, [&](const StoredPart& each) {
                return each.server != part.server && is_small(each.server);
              }) > 0;
  }
  return cell.note_stored(part) || changed;
}

wire::FetchResult AuthorityService::merge(Transaction& transaction, const Opened& file, std::uint32_t teller,
                                          const wire::FileMerge& merge) {
  merges_.add();
  // What no write can have done, whoever says so.
  if (merge.size > kMaxFileSize) {
    refused_.add();
    return failed(NfsStatus::kFbig);
  }
  if (file && volume_.held.stops_change({file->fileid, {}}, LockMode::kExclusive, nullptr)) {
    return failed(NfsStatus::kJukebox);
  }
  auto loaded = load_file(volume_, transaction, file);
  if (!loaded) return failed(loaded.error());
  AttributeCell& cell = **loaded;
  bool changed = false;
  if (cell.regular()) {
    if (merge.epoch < cell.epoch) {
      old_merges_.add();
    } else if (merge.size > cell.size) {
      cell.size = merge.size;
      changed = true;
    }
    if (merge.stored && merge.epoch == cell.epoch) {
      changed = note_stored(cell, {teller, *merge.stored}) || changed;
    }
  }
  if (merge.mtime) changed = merge_mtime(cell, *merge.mtime) || changed;
  if (merge.atime) changed = merge_atime(cell, *merge.atime) || changed;
  if (changed) transaction.change(cell);
  wire::FetchResult result = told(cell, volume_.names.id());
  // Does not wait for a truncation, which may be waiting for the very write that is told here; so it does not
  // tell its epoch either.
  if (cell.truncating && merge.epoch < cell.epoch) result.attributes.rdev_major = merge.epoch.value;
  return result;
}

Task<wire::MergeResult> AuthorityService::merge_all(const wire::MergeArgs& args) {
  std::vector<Opened> files;
  files.reserve(args.files.size());
  for (const wire::FileMerge& each : args.files) files.push_back(volume_.context.handles.open(each.handle));
  // One alone waits for a change under way; of several none waits for another's.
  if (files.size() == 1 && files[0]) co_await volume_.held.until_free(files[0]->fileid);
  // What is here may be about to go while another file's site is waited for.
  auto settled = [&](const Opened& file) {
    return !file || (ours(volume_, *file) && !volume_.cells.stays().closed(file->directory_site));
  };
  while (!std::all_of(files.begin(), files.end(), settled)) {
    for (const Opened& file : files) {
      if (!file || co_await volume_.peers.here(file->directory_site)) continue;
      co_return co_await merge_elsewhere(args, files, file->directory_site);
    }
  }
  Transaction transaction(volume_.cells);
  wire::MergeResult result;
  result.files.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    result.files.push_back(merge(transaction, files[i], args.teller, args.files[i]));
  }
  result.status = co_await finish(transaction);
  co_return result;
}

// Where all the files are another server's, that one is told; some of several are told again, apart.
Task<wire::MergeResult> AuthorityService::merge_elsewhere(const wire::MergeArgs& args,
                                                          const std::vector<Opened>& files, SiteId site) {
  const std::uint32_t owner = volume_.peers.server_of(site);
  bool all = std::all_of(files.begin(), files.end(), [&](const Opened& file) {
    return file && volume_.peers.server_of(file->directory_site) == owner;
  });
  if (all) {
    if (auto result = co_await pass_on<wire::MergeResult>(site, wire::AuthorityProcedure::kMerge, args))
      co_return std::move(*result);
  }
  co_return wire::MergeResult{.status = NfsStatus::kJukebox};
}

Task<wire::PolicyResult> AuthorityService::policy(const wire::PolicyArgs& args) {
  if (!good_policy(volume_, args)) co_return wire::PolicyResult{.status = NfsStatus::kInval};
  auto opened = volume_.context.handles.open(args.handle);
  if (opened) co_await volume_.held.until_free(opened->fileid);
  if (opened) co_await volume_.peers.here(opened->directory_site);
  Transaction transaction(volume_.cells);
  auto cell = load_file(volume_, transaction, opened);
  if (!cell) co_return wire::PolicyResult{.status = cell.error()};
  if (!(*cell)->directory()) co_return wire::PolicyResult{.status = NfsStatus::kNotDir};
  FilePolicy& policy = (*cell)->policy;
  const FilePolicy next = merged(policy, args);
  // Nobody should lose copies by a command that was about something else.
  bool fewer = copies_of_new(volume_, next) < copies_of_new(volume_, policy);
  bool refused = args.fields != 0 && fewer && !args.fewer_copies;
  if (args.fields != 0 && !refused) {
    policy = next;
    transaction.change(**cell);
  }
  wire::PolicyResult result{.policy = {policy.stripe_shift, policy.copies, policy.placement}};
  result.status = co_await finish(transaction);
  if (refused && result.status == NfsStatus::kOk) result.status = NfsStatus::kPerm;
  co_return result;
}

Task<NfsStatus> AuthorityService::finish(Transaction& transaction) {
  auto position = transaction.commit();
  if (!position) co_return refuse(position.error()).value();
  if (*position > volume_.cells.durable_position()) {
    co_await volume_.context.crash.reach("authority.committed");
    if (auto durable = co_await volume_.cells.durable(*position); !durable) {
      co_return refuse(durable.error()).value();
    }
    co_await volume_.context.crash.reach("authority.durable");
  }
  co_return NfsStatus::kOk;
}

}  // namespace slice::dirserver
