// Intentions: the changes over several servers that this server has begun, as far as others may ask for them:
// which still run, and which were decided and not yet carried out by everybody. The decision is the intention
// record in the batch of the change itself; what has none was given up (presumed abort). One loop.
#ifndef SLICE_DIRSERVER_ACROSS_INTENTIONS_H
#define SLICE_DIRSERVER_ACROSS_INTENTIONS_H

#include <map>
#include <vector>

#include "common/log.h"
#include "dirserver/across/peers.h"
#include "dirserver/store/cell_store.h"

namespace slice::dirserver {

class Intentions {
 public:
  Intentions(service::ServiceContext& context, CellStore& cells, Peers& peers);

  // A new change, begun on one of this server's sites. It runs until given_up() or decided().
  TransactionId begin(SiteId site);
  // `contacted`: sites of the servers that were asked for anything; they are told once, by the way.
  void given_up(const TransactionId& id, const std::vector<SiteId>& contacted);

  // The record is durable: has it carried out by its participants, however long that takes, and then erases
  // it. `released`: sites of servers that only gave locks; they are told once. Ends when each participant was
  // told once: true where all have carried it out.
  // Nothing to do where there are no participants.
  Task<bool> decided(IntentionRecord record, std::vector<SiteId> released);

  wire::TransactionOutcome outcome(const TransactionId& id) const;

  // The site is here: goes on with those from before. kCorrupt.
  Status recover(SiteId site);
  // The site went, and its intentions with it.
  void release(SiteId site);
  void stop() { stopping_ = true; }

 private:
  enum class State { kRunning, kDecided };

  Task<bool> tell_all(TransactionId id, std::vector<SiteId> sites, bool commit);
  Task<bool> tell(TransactionId id, SiteId site, bool commit);
  Task<void> tell_until_done(IntentionRecord record);
  Task<void> erase(IntentionRecord record, Stay stay);

  service::ServiceContext& context_;
  CellStore& cells_;
  Peers& peers_;
  std::uint64_t incarnation_;
  std::uint64_t next_ = 1;
  std::map<TransactionId, State> states_;
  bool stopping_ = false;
  LogLimiter log_{2};
  Counter& begun_;
  Counter& decided_;
  Counter& given_up_;
  Counter& retries_;
  Counter& open_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_INTENTIONS_H
