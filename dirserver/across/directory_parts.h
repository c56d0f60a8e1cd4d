// DirectoryParts: how a directory whose names are on many sites (name hashing) stays one directory. Its own
// site, the home, has its attributes. Another site's server works on its names by a lease of these, and tells
// the home when it changed names (a touch), so that mtime and nlink follow. Whoever changes who may do what
// in a directory revokes its leases first. Leases are in memory; owed touches are stored with the change that
// owes them (docs/formats/cells.md). One loop.
#ifndef SLICE_DIRSERVER_ACROSS_DIRECTORY_PARTS_H
#define SLICE_DIRSERVER_ACROSS_DIRECTORY_PARTS_H

#include <map>
#include <optional>

#include "common/log.h"
#include "dirserver/across/lock_table.h"
#include "dirserver/across/peers.h"
#include "dirserver/store/cell_store.h"

namespace slice::dirserver {

class DirectoryParts {
 public:
  static constexpr Duration kLease = std::chrono::milliseconds(wire::kLeaseMilliseconds);
  static constexpr std::uint64_t kLeaseCacheBytes = 16 << 20;

  DirectoryParts(service::ServiceContext& context, CellStore& cells, LockTable& locks, Peers& peers);

  // ---- with a lease ----
  // The directory's cell: right in type, owner and mode; its counts and times are not to be shown. Null where
  // there is no lease now. Valid until the next call.
  const AttributeCell* leased(const CellRef& directory);
  // Asks the home. kStale where there is no such directory.
  Task<Status> take_lease(CellRef directory);
  void forget(FileId directory);

  // Of a transaction, in the same step as its commit: from now on they are owed, and paid when it is durable.
  // What is returned need not be awaited. True: the homes know; false: not yet, and it is tried again until
  // they do.
  Task<bool> tell(const std::vector<Transaction::Touch>& touches);
  // The site is here: goes on with what is owed from before, and takes for given out what may be. kCorrupt.
  Status recover(SiteId site);
  // The site went, and what it owes with it.
  void release(SiteId site);
  void stop() { stopping_ = true; }

  // ---- at the home ----
  // The cell is given out as a lease from now on.
  void grant(FileId directory);
  bool given_out(FileId directory) const;
  // Afterwards nobody has a lease. The directory's cell is locked, so that none is given out meanwhile.
  Task<void> revoke(FileId directory);
  // Moves mtime and nlink; the cell as it is then.
  Task<wire::CellResult> touched(const wire::TouchArgs& args);

 private:
  struct Lease {
    AttributeCell cell;
    MonoTime until;
  };
  // What one directory owes for one site. Touches of one are sent one after another.
  struct Debt {
    OwedTouch owed;
    Stay stay;  // of the part's site
    std::uint64_t changes = 0, told = 0;
    bool sending = false;
    std::vector<OneShot<bool>> waiting;
  };
  // The last lease of a directory that was given out.
  struct Given {
    MonoTime until;
    std::uint64_t number = 0;
  };
  using DebtKey = std::pair<SiteId, FileId>;

  void keep(const AttributeCell& cell, MonoTime asked, std::uint64_t revocations);
  Task<void> pay(DebtKey key, Stay stay);
  Task<bool> pay_once(DebtKey key, Stay stay);
  // Null where it went with its site.
  Debt* debt_of(DebtKey key, Stay stay);
  void settle(DebtKey key, const Debt& debt);
  // Up to when a lease of before the directory's site was here may last.
  MonoTime unknown_until(FileId directory) const;

  service::ServiceContext& context_;
  CellStore& cells_;
  LockTable& locks_;
  Peers& peers_;
  ClockCache<FileId, Lease> leases_;
  std::map<DebtKey, Debt> debts_;
  std::map<FileId, Given> given_;
  std::uint64_t grants_ = 0;
  std::uint64_t revocations_ = 0;     // leases on their way here when one came are not kept
  std::map<SiteId, MonoTime> since_;  // when the site came
  bool stopping_ = false;
  LogLimiter log_{2};
  Counter& taken_;
  Counter& revoked_;
  Counter& touches_;
  Counter& owed_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_DIRECTORY_PARTS_H
