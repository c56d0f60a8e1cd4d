// ClientLockCells: the locks of clients on the files of the sites that are here. They are few beside files,
// so all of them are kept decoded; Transaction::put_locks() changes them. One loop.
#ifndef SLICE_DIRSERVER_STORE_CLIENT_LOCK_CELLS_H
#define SLICE_DIRSERVER_STORE_CLIENT_LOCK_CELLS_H

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/metrics.h"
#include "dirserver/cells/cells.h"
#include "dirserver/cells/client_locks.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

class ClientLockCells {
 public:
  // Of one client, on all files of this server.
  static constexpr std::size_t kMostOfClient = 16384;

  explicit ClientLockCells(Metrics& metrics)
      : locks_(metrics.gauge("dir_client_locks", "byte ranges and share reservations that clients have")),
        waiting_(metrics.gauge("dir_client_locks_waiting", "locks that clients wait for")) {}

  // The site is here. kCorrupt.
  Status load(const storage::KvStore& store, SiteId site);
  // The site went.
  void release(SiteId site);

  // Null where nobody has locked anything of it. Valid until it changes.
  const ClientLocks* find(FileId file) const;
  // Of a site, in order; the files may change meanwhile.
  std::vector<FileId> files(SiteId site) const;
  // Whether the client has as many as it may.
  bool full(IpAddress address) const;
  // All that these wait for on this server, directly or by way of one another, and they themselves. No more
  // than kMostLed of them, and found among no more than kMostLooks waits.
  static constexpr std::size_t kMostLed = 256, kMostLooks = 100'000;
  std::set<Locker> leads_to(std::set<Locker> from) const;
  // Who holds what is in the way of `wanted`.
  static std::set<Locker> in_the_way(const ClientLocks& file, const HeldLock& wanted);

 private:
  friend class Transaction;
  // It has been stored; an empty one: there is none.
  void replace(FileId file, ClientLocks locks);
  void count(const ClientLocks& locks, std::int64_t by);

  std::map<FileId, ClientLocks> files_;
  std::set<FileId> with_waiters_;
  std::unordered_map<IpAddress, std::size_t> by_client_;
  Gauge &locks_, &waiting_;
  std::int64_t held_count_ = 0, waiting_count_ = 0;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_CLIENT_LOCK_CELLS_H
