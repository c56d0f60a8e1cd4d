// LockGrants: changes of clients' locks, and what they bring with them: who waited and has the lock now is
// told so, by the proxy with the virtual address (wire/locks.h), until it is known whether the client wants
// it. A lock that was given is had, and durably, before its client hears of it, so a restart, a failover or a
// move of the site loses neither it nor that its client is still to be told. One loop.
#ifndef SLICE_DIRSERVER_BACKGROUND_LOCK_GRANTS_H
#define SLICE_DIRSERVER_BACKGROUND_LOCK_GRANTS_H

#include <map>
#include <set>

#include "common/log.h"
#include "dirserver/store/cell_store.h"
#include "service/context.h"
#include "wire/locks.h"

namespace slice::dirserver {

class LockGrants {
 public:
  // A client whose lock manager is not found for so long, and that does not ask again itself, has given up.
  // (Clients ask again every 30 s.)
  static constexpr Duration kFound = std::chrono::seconds(70);

  // Both must outlive this.
  LockGrants(service::ServiceContext& context, CellStore& cells);

  // The file's locks are these from now on, with whatever else the transaction does: to be called without
  // anything awaited since they were read. Who waits, and need not any more, is given the lock. Errors are
  // Transaction::commit()'s; then nothing has changed.
  Result<storage::LogPosition> commit(const CellRef& file, ClientLocks locks, Transaction& transaction);
  // The site is here: loads the locks of its files, and goes on telling clients. kCorrupt.
  Status recover(SiteId site);
  // Whether no call can reach the client any more that tells it of a lock of this owner on some of these
  // bytes which it had and has given back. It would take that for what it waits for by then, if it waited for
  // the same bytes again: so before it is answered that they are given back, and before it is told to wait.
  // `after_start`: also of calls of the run before.
  bool quiet(SiteId site, FileId file, const Locker& owner, const ByteRange& range, bool after_start) const;
  // Nobody is told of anything any more; what is under way ends within its time-outs.
  void stop() { stopping_ = true; }

 private:
  // Of one lock that was given: who is to be told, for as long as its site stays.
  struct Telling {
    CellRef file;
    Locker owner;
    ByteRange range;
    Stay stay;
    auto operator<=>(const Telling&) const = default;
  };
  void tell_untold(const CellRef& file, bool maybe_sent);
  // What is still to be told; null where that is over.
  const AwaitedLock* due(const Telling& telling) const;
  static Task<void> tell(LockGrants& self, Telling telling, bool maybe_sent);
  Task<wire::GrantResult> tell_client(const AwaitedLock& wanted);
  // The same call again and again until it is known what became of it, or it can become nothing any more.
  Task<wire::GrantResult> ask_holder(rpc::Endpoint proxy, wire::GrantArgs args);
  // The proxy that has the virtual address, and its run; none: no proxy says that it has.
  struct Holder {
    rpc::Endpoint proxy;
    std::uint64_t run = 0;
  };
  Task<Holder> find_holder();
  // The client has it, or does not want it.
  Task<void> settle(const Telling& telling, bool wanted);

  service::ServiceContext& context_;
  CellStore& cells_;
  bool stopping_ = false;
  std::set<Telling> telling_;
  std::set<Telling> doubtful_;  // the client may have them or not, and is told no more
  std::map<SiteId, MonoTime>
      came_;  // when sites came here: whom an earlier owner tells something is not known
  std::uint64_t cookie_ = 0;
  LogLimiter log_{1};
  Counter &granted_, &told_, &unwanted_, &unanswered_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_BACKGROUND_LOCK_GRANTS_H
