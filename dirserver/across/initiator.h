// Initiator: one change of this server's own, as far as it needs cells of other servers. It holds what the
// change has asked for (needs), so that the change can be decided here as if all of it were here, and takes
// it through its two phases:
//
//   run the plan; where it lacks something: acquire(needs), and run the plan again, until it lacks nothing;
//   prepare(steps): the other servers promise their parts; commit the own batch with record(): decided;
//   decided(): the others carry out theirs.
//
// Dropping it gives everything back. One loop.
#ifndef SLICE_DIRSERVER_ACROSS_INITIATOR_H
#define SLICE_DIRSERVER_ACROSS_INITIATOR_H

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "dirserver/across/directory_parts.h"
#include "dirserver/across/intentions.h"
#include "dirserver/across/lock_table.h"
#include "dirserver/across/peers.h"
#include "dirserver/cells/steps.h"

namespace slice::dirserver {

// What a change lacks to be decided.
struct Need {
  enum class Kind {
    kLock,   // `item`, at the server of its site
    kLocal,  // `key` in `mode`, of this server's own
    kRead,   // the cell `ref`, unlocked
    kLease,  // of the directory `ref`
    kRevoke  // all leases of the directory `ref`, whose home this server is
  };
  Kind kind = Kind::kLock;
  wire::LockItem item;
  CellRef ref;
  LockKey key;
  LockMode mode = LockMode::kExclusive;
};

class Initiator {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(8);  // then the client is asked to come again

  struct Seams {
    service::ServiceContext& context;
    LockTable& locks;
    Peers& peers;
    DirectoryParts& parts;
    Intentions& intentions;
  };
  // `site`: one of this server's, at which others ask for the outcome.
  Initiator(const Seams& seams, SiteId site);
  Initiator(const Initiator&) = delete;
  Initiator& operator=(const Initiator&) = delete;
  ~Initiator() { give_up(); }

  // ---- what it holds; null or nothing: not yet ----
  struct HeldCell {
    std::optional<AttributeCell> cell;  // nothing: there is none
    bool exclusive = false;
  };
  const HeldCell* cell(const CellRef& ref) const;
  struct HeldName {
    std::optional<Target> target;  // nothing: there is no such name
    bool full = false;             // and its position has no slot left
  };
  const HeldName* name(const NamePlace& place) const;
  // Names of the directory on all other servers' sites but its own; nothing where it is not known of each
  // site.
  std::optional<std::uint64_t> names_elsewhere(FileId directory, std::uint32_t sites) const;
  bool holds_rename_lock() const { return rename_lock_; }
  // A fileID of another server's for a new cell.
  struct HeldNew {
    SiteId site;
    FileId fileid;
  };
  const HeldNew* held_new() const { return new_ ? &*new_ : nullptr; }
  // One was asked for and not had: this change is not to ask again.
  bool refused_new() const { return refused_new_; }
  const HeldCell* read(const CellRef& ref) const;
  bool gone(const CellRef& directory) const { return gone_.contains(directory); }
  bool revoked(FileId directory) const { return revoked_.contains(directory); }
  bool holds(LockKey key, LockMode mode) const { return id_ && seams_.locks.holds(*id_, key, mode); }
  const TransactionId* id() const { return id_ ? &*id_ : nullptr; }

  // kOk: run the plan again, whether everything was got or all had to be given up. kTimedOut: the patience is
  // used up.
  Task<Status> acquire(std::vector<Need> needs);
  // The same for a key of this server's that somebody holds.
  Task<Status> acquire(LockKey key, LockMode mode);

  // True: every server with steps has promised them, and the keys are locked here; else as from acquire().
  Task<Result<bool>> prepare(const std::vector<Transaction::Key>& keys, std::vector<SiteSteps> steps);
  // Puts the decision into the change's own batch; after prepare().
  void record(Transaction& transaction) const;
  // The batch was applied, and whether it is durable is not known: only the next start can tell.
  void in_doubt() { handed_over_ = true; }
  // The batch is durable: true when the others have carried out their parts as well.
  Task<bool> decided();

 private:
  bool late() const { return seams_.context.loop.now() >= deadline_; }
  void begin();
  void give_up();
  Task<void> step_back();
  Task<bool> acquire_one(Need need);
  Task<bool> lock_at(std::uint32_t server, std::vector<wire::LockItem> items);
  bool keep(const wire::LockItem& item, const std::string& value);
  Task<bool> prepare_at(std::vector<SiteSteps> parts);
  std::vector<SiteId> contacted_but(const std::vector<SiteId>& participants) const;

  Seams seams_;
  SiteId site_;
  std::uint64_t age_;
  MonoTime deadline_;
  unsigned tries_ = 0;
  std::optional<TransactionId> id_;
  std::map<std::uint32_t, SiteId> contacted_;            // servers that may hold something for it
  std::map<std::uint32_t, std::uint64_t> incarnations_;  // of servers that gave locks
  std::vector<SiteId> participants_;                     // that have promised something
  bool handed_over_ = false;                             // decided: not to be given up any more

  std::map<CellRef, HeldCell> cells_;
  std::map<CellRef, HeldCell> read_;
  std::map<std::pair<LockKey, std::string>, HeldName> names_;
  std::map<std::pair<FileId, std::uint32_t>, wire::PartNames> names_at_;  // directory, server
  std::set<CellRef> gone_;
  std::set<FileId> revoked_;
  bool rename_lock_ = false;
  std::optional<HeldNew> new_;
  bool refused_new_ = false;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_INITIATOR_H
