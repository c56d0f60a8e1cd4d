// DuplicateCache: what non-idempotent calls were answered, so that a retransmission gets the very same reply,
// also after a crash: the reply is stored in the batch of the change itself. Failures are kept in memory
// only: done again after a crash they change nothing that was acknowledged. With a site that moves they go
// along. Bounded by entries, bytes and age; who holds the most gives way (dirserver/store/fair_order.h). A
// call is known again by its caller too: what another user of the host was answered is not his. One loop.
#ifndef SLICE_DIRSERVER_STORE_DUPLICATE_CACHE_H
#define SLICE_DIRSERVER_STORE_DUPLICATE_CACHE_H

#include <tsl/robin_map.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "common/task.h"
#include "dirserver/store/cell_store.h"
#include "dirserver/store/fair_order.h"
#include "rpc/dispatcher.h"

namespace slice::dirserver {

CallKey key_of(const rpc::Call& call);

class DuplicateCache {
 public:
  struct Options {
    std::size_t max_entries = 65536;   // answered
    std::size_t max_bytes = 64 << 20;  // of replies
    // Longer than clients go on sending one call. Since it was answered, or loaded: clocks of two hosts, or
    // one that was set, say nothing.
    Duration max_age = std::chrono::minutes(15);
    // So many records that are not needed any more are erased together: in their order and next to one
    // another they cost the store a fraction. Until then they are more than the bounds say.
    std::size_t erased_together = 64;
  };
  DuplicateCache(Loop& loop, Metrics& metrics, Options options);
  DuplicateCache(Loop& loop, Metrics& metrics) : DuplicateCache(loop, metrics, Options{}) {}

  // These sites are here: loads what their records say, before anything of them is served. kCorrupt. Of a
  // site that was expected it goes by what has arrived.
  Status load(const CellStore& cells, const std::vector<SiteId>& sites);
  // The site went, and its records with it.
  void release(SiteId site);

  // A site is about to come, and its records before it, so that it takes no time when it is here: arrive() is
  // told of each that is put into the store, or without a value erased. kCorrupt: load() could not read it.
  void expect(SiteId site);
  Status arrive(const std::string& key, const std::optional<std::string>& value);
  // It does not come.
  void expect_no_more(SiteId site) { arriving_.erase(site.value); }

  struct Seen {
    enum class State { kNew, kInProgress, kAnswered } state = State::kNew;
    std::string_view reply;  // kAnswered; valid until the next call of a method
  };
  // kNew: the caller runs it now, and must end with finish(). `site`: by which it came here.
  Seen begin(const CallKey& call, SiteId site);
  // Puts the call's reply into the transaction that makes its change durable, as a record of `site`.
  void record(const CallKey& call, std::string_view reply, SiteId site, Transaction& transaction);
  // Of one that is in progress: ends with finish(). Then begin() says what became of it.
  Task<void> over(CallKey call);
  // The call has been answered with `reply`; an empty one: it was not, and may run again.
  void finish(const CallKey& call, std::string_view reply);

  // Records of the calls of these sites that have been answered and have none, for who is to have them.
  struct Unrecorded {
    std::string key, value;
  };
  std::vector<Unrecorded> unrecorded(const std::vector<std::uint32_t>& sites);

  std::size_t entries() const { return entries_.size(); }

 private:
  using Order = FairOrder<CallKey>;
  struct Entry {
    SiteId site;
    std::string reply;
    std::string key;                    // of its record; empty: it has none
    std::optional<Order::Place> place;  // since it was answered; none: it is under way
    std::uint64_t releases = 0;         // of its site, when it was answered
  };
  struct Loaded {
    std::string key;
    DuplicateRecord record;
  };
  // Records of a site that comes; once it is here, those that are not among the entries yet.
  struct Arriving {
    bool here = false;
    std::map<std::uint64_t, Loaded> records;  // by their number
    tsl::robin_map<CallKey, std::uint64_t, CallKeyHash> numbers;
  };
  // Among the entries, where it replaces an older one.
  void add(Loaded loaded);
  // The same for what has arrived: of this call; of so many, which each call that is answered does for.
  void bring(const CallKey& call);
  void bring_some();
  // Its site has gone since it was answered: it is as though it was forgotten.
  bool released(const Entry& entry) const;
  std::uint64_t releases_of(SiteId site) const;
  // Forgets what is too much or too old. Its records are erased with the next change.
  void evict();
  void erase_records(Transaction& transaction);
  void forget(const CallKey& call);
  Entry* find(const CallKey& call);
  void answered(const CallKey& call, Entry& entry);

  Loop& loop_;
  Options options_;
  tsl::robin_map<CallKey, std::unique_ptr<Entry>, CallKeyHash> entries_;
  Order order_;  // of those that are answered
  std::unordered_map<CallKey, std::vector<OneShot<bool>>, CallKeyHash> waiting_;  // in over()
  std::vector<std::string> evicted_records_;
  std::uint64_t next_order_ = 1;
  std::map<std::uint32_t, Arriving> arriving_;                 // by site
  std::unordered_map<std::uint32_t, std::uint64_t> releases_;  // by site: how often it has gone

  Counter& replayed_;
  Counter& early_;
  Counter& size_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_DUPLICATE_CACHE_H
