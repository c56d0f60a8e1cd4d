// Participant: this server's part in changes over several servers that another one, or this one, has begun
// (initiator.h): it gives out locks on its cells and what they hold, promises durably what it is told to, and
// does it when told so (two-phase commit, presumed abort). A promise outlives a crash: its locks are taken
// again at the start, and the initiator's site is asked what became of it. Locks without a promise go when
// nobody knows of the change any more. One loop.
#ifndef SLICE_DIRSERVER_ACROSS_PARTICIPANT_H
#define SLICE_DIRSERVER_ACROSS_PARTICIPANT_H

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "common/log.h"
#include "dirserver/across/directory_parts.h"
#include "dirserver/across/lock_table.h"
#include "dirserver/across/peers.h"
#include "dirserver/across/reclaim_queue.h"
#include "dirserver/cells/placement.h"
#include "dirserver/cells/steps.h"

namespace slice::dirserver {

class Participant {
 public:
  static constexpr Duration kLockLimit = std::chrono::milliseconds(1500);  // less than Peers::kCallTimeout
  static constexpr Duration kQuiet = std::chrono::seconds(2);  // without a word: the initiator is asked
  static constexpr Duration kWatch = std::chrono::seconds(1);

  struct Seams {
    service::ServiceContext& context;
    CellStore& cells;
    LockTable& locks;
    Peers& peers;
    DirectoryParts& parts;
    const Placement& placement;
    ReclaimQueue& reclaimer;
    std::function<bool()> low_on_space;  // nothing new is to come here
  };
  explicit Participant(const Seams& seams);

  // As wire/directory.h has them.
  Task<wire::LockResult> lock(const wire::LockArgs& args);
  Task<wire::PeerStatus> prepare(const wire::PrepareArgs& args);
  Task<wire::PeerStatus> finish(const wire::FinishArgs& args);

  // The site is here: its promises from before, and their locks. kCorrupt.
  Status recover(SiteId site);
  // The site went, and its promises with it. Locks without a promise go, all of them: their changes begin
  // again.
  void release(SiteId site);
  void stop() { stopping_ = true; }
  // Changes under way here; how many of them are promised.
  std::size_t guests() const { return guests_.size(); }

 private:
  // A change that holds something here.
  struct Guest {
    LockOwner owner;
    MonoTime heard;
    std::vector<PreparedRecord> promised;
    bool prepared = false;
    std::optional<storage::LogPosition> finished_at;  // carried out, and not known to be durable
  };
  using Value = Result<std::string>;

  // Late copies of its messages must not begin anything again.
  bool over(const TransactionId& id) const;
  void forget(const TransactionId& id);
  Task<bool> lock_item(LockOwner owner, wire::LockItem item);
  Value value_of(const LockOwner& owner, const wire::LockItem& item, storage::LogPosition& shown);
  Value new_value(const LockOwner& owner, SiteId site);
  Value part_value(const CellRef& directory);
  // The server has all these sites, and none is about to move.
  Task<bool> here(std::vector<SiteId> sites);
  std::optional<std::vector<PreparedRecord>> accept(const wire::PrepareArgs& args);
  bool covered(const PreparedRecord& record) const;
  Task<wire::PeerStatus> end(TransactionId id, bool commit);
  Task<wire::PeerStatus> carry_out(const TransactionId& id);
  Task<wire::PeerStatus> give_up(const TransactionId& id);
  void watch_soon();
  Task<void> watch();
  Task<void> ask(TransactionId id);
  void count();

  Seams seams_;
  std::uint64_t incarnation_;
  std::map<TransactionId, Guest> guests_;
  // Changes that have ended: late copies of their messages find nobody. The oldest go.
  std::set<TransactionId> ended_;
  std::deque<TransactionId> ended_order_;
  bool watching_ = false;
  bool stopping_ = false;
  LogLimiter log_{5};
  Counter& locks_given_;
  Counter& locks_refused_;
  Counter& prepared_;
  Counter& committed_;
  Counter& aborted_;
  Counter& under_way_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_PARTICIPANT_H
