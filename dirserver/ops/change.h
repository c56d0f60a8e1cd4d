// Change: a changing operation. It is a plan: it reads, decides and writes its reply without awaiting
// anything between, by one Change, and is committed in the same step, so that its pre-operation attributes
// are taken atomically with it. Its reply is encoded before the commit, since it is stored in the same batch
// (DuplicateCache). Where it takes cells of other servers, the very same plan runs again when they are here
// and locked (across/initiator.h).
#ifndef SLICE_DIRSERVER_OPS_CHANGE_H
#define SLICE_DIRSERVER_OPS_CHANGE_H

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dirserver/across/initiator.h"
#include "dirserver/across/reclaim_queue.h"
#include "dirserver/background/new_directories.h"
#include "dirserver/background/quota_keeper.h"
#include "dirserver/background/space.h"
#include "dirserver/ops/operation.h"
#include "dirserver/store/duplicate_cache.h"

namespace slice::dirserver {

// A name in a directory, as (directory, name) of a call's arguments.
struct NamedEntry {
  AttributeCell* directory = nullptr;
  NamePlace place;
  std::optional<Target> target;  // where the name exists
};

class Change;
// Decides one try: changes cells by `change`, writes the results and answers OK; or answers why not, with or
// without having written the procedure's failure body.
using Plan = std::function<nfs3::Status(Change& change)>;
// How a try that was decided ends; by default Change::commit().
using Finish = std::function<Task<NfsAnswer>(Change& change)>;

// The changes that this server is asked for, and what they need of it. One loop.
class Changes {
 public:
  struct Seams {
    service::ServiceContext& context;
    NameSpace& names;
    Peers& peers;
    DirectoryParts& parts;
    Intentions& intentions;
    DuplicateCache& duplicates;
    SpaceMonitor& space;
    NewDirectories& new_directories;
    QuotaKeeper& quotas;
    ReclaimQueue& reclaimer;
  };
  // All must outlive this.
  explicit Changes(const Seams& seams) : seams_(seams) {}

  // Tries until the plan has all that it needs and nothing is in its way, then finishes. What the callables
  // refer to must live until the task ends.
  Task<NfsAnswer> run(NfsRequest& request, rpc::XdrWriter& out, Plan plan, Finish finish = {});

 private:
  friend class Change;
  // The site by which a request came here: one of this server's.
  SiteId site_of(const NfsRequest& request) const;

  Seams seams_;
};

// One try of a changing operation: the cells that it reads, wherever they are, and what it makes of them.
// What it lacks it notes as needs(), and answers JUKEBOX: the operation is then tried again by Changes::run()
// when the initiator has it. Cells of other servers and their changes become steps for these.
class Change {
 public:
  Change(Changes& changes, NfsRequest& request, rpc::XdrWriter& out, Initiator& initiator);

  // ---- reading ----
  // The cell of a handle, to be changed: STALE, and NOTDIR from directory(), whose names may be changed.
  Answer<AttributeCell*> object(const routing::FileHandle& handle);
  Answer<AttributeCell*> directory(const routing::FileHandle& handle);
  // A handle that is not the first of the arguments: BADHANDLE.
  Answer<routing::FileHandle> open(nfs3::HandleView handle) const;
  // Says early that a name will be looked up, so that what it takes comes in one round trip with the rest.
  void expect_name(const routing::FileHandle& directory, std::string_view name);
  // Looks `name` up in a directory that was loaded: NAMETOOLONG, INVAL, ACCES where the directory may not be
  // searched. The caller has dealt with "." and "..".
  Answer<NamedEntry> look_up(AttributeCell& in, std::string_view name);
  // The cell a name points to, to be changed.
  Answer<AttributeCell*> target(const NamedEntry& entry);
  // The same only to be read. It may be out of date when it is used, unless something keeps it.
  Answer<AttributeCell*> glance(const CellRef& ref);
  // Whether a directory that is to go has no names, and gets none any more.
  Answer<bool> empty(const AttributeCell& directory);
  // Until the end nobody else moves a directory to another one: OK, or JUKEBOX as long as it is not had.
  nfs3::Status hold_rename_lock();
  // Nobody else changes the name, from before it is looked at until the end: OK, or JUKEBOX as long as it is
  // not had.
  nfs3::Status hold_name(const NamedEntry& entry);
  // Whether the cell is of this server, so that what is said of it before and after is true.
  bool near(const AttributeCell& cell) const;

  // ---- changing ----
  // Whether names and cells may only shrink: NOSPC for what adds some.
  bool low_on_space() const { return seams_.space.low(); }
  // What the caller adds to what the owner and group of `cell` have: DQUOT where one of them may not have
  // that much more.
  nfs3::Status check_quotas(std::span<const QuotaId> whose, const AttributeCell& cell);
  // For a new object whose name is at `place`: NOSPC and what the store refuses, or JUKEBOX as above.
  Answer<CellRef> new_cell(const NamePlace& place, nfs3::FileType type);
  // Says that `cell` was or will be changed. OK, or JUKEBOX as above.
  nfs3::Status rewrite(AttributeCell& cell);
  // `cell.self.cell` is from new_cell().
  AttributeCell& create(AttributeCell cell);
  // Names: entry.target is what was looked up; NOSPC from link(). The directory's counts and times follow.
  nfs3::Status link(const NamedEntry& entry, const Target& target);
  nfs3::Status unlink(const NamedEntry& entry);
  nfs3::Status retarget(const NamedEntry& entry, const Target& target);
  // Takes one name off an object, and the object away with its last one.
  nfs3::Status drop_link(AttributeCell& cell);

  nfs3::WccData wcc_before(const AttributeCell& cell) const;  // as it is now, also as `after`
  nfs3::WccData wcc_after(const nfs3::WccData& before, const AttributeCell& cell) const;

  // ---- what Changes::run() does with it ----
  std::vector<Need> take_needs() { return std::move(needs_); }
  bool lacks_something() const { return !needs_.empty(); }
  // A key that somebody else holds.
  std::optional<Transaction::Key> blocked() const;
  std::vector<SiteSteps> steps() const;
  // Ends the operation well: `results` are written; their record, commit, durable.
  Task<NfsAnswer> commit();
  // The same, although nothing but the reply is to be remembered.
  Task<NfsAnswer> commit_reply();
  // Commits, durably, the first of two steps: nothing is answered yet.
  Task<slice::Status> commit_first_step();
  // What the plan wrote does not count.
  void discard_results() { out.rewind(start_); }
  // Ends it badly: writes the procedure's failure body with the request's attributes and wcc, unless the plan
  // wrote its own, and changes nothing.
  Task<NfsAnswer> fail(nfs3::Status status);
  // Ends it without a change; the results, with `status`, are written.
  Task<NfsAnswer> answer(nfs3::Status status);

  NameSpace& names;
  NfsRequest& request;
  rpc::XdrWriter& out;
  Initiator& initiator;
  Transaction transaction;
  nfs3::Time now;

 private:
  // A cell of another server.
  struct Far {
    AttributeCell cell;
    bool exclusive = false;
    std::optional<CellStep::How> step = {};  // what becomes of it; none: nothing
  };
  nfs3::Status need(Need need);
  nfs3::Status need_cell(const CellRef& ref, LockMode mode);
  nfs3::Status need_name(const NamePlace& place);
  // Null: there is none.
  Answer<AttributeCell*> load(const CellRef& ref, LockMode mode);
  Answer<AttributeCell*> load_far(const CellRef& ref, LockMode mode);
  Answer<AttributeCell*> load_leased(const CellRef& ref);
  AttributeCell* keep_far(const AttributeCell& cell, bool exclusive);
  Far* far_of(const AttributeCell& cell);
  Answer<std::uint64_t> names_near(const AttributeCell& directory);
  nfs3::Status change_name(NameStep::How how, const NamedEntry& entry, const Target& target);
  void remember_reply();

  Changes& changes_;
  const Changes::Seams& seams_;
  std::size_t start_;  // of this operation's results in `out`
  std::vector<std::unique_ptr<Far>> far_;
  std::vector<std::pair<SiteId, NameStep>> name_steps_;
  std::vector<Need> needs_;
  std::optional<Error> corrupt_;  // what this try found
  std::vector<ReclaimRecord> freed_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_OPS_CHANGE_H
