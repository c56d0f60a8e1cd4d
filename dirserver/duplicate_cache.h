// DuplicateCache: what non-idempotent calls were answered, so that a retransmission gets the very same reply,
// also after a crash: the reply is stored in the batch of the change itself. A second copy of a call that is
// still under way is dropped. Failures are kept in memory only: done again after a crash they change nothing
// that was acknowledged. Bounded by entries, bytes and age. One loop.
#ifndef SLICE_DIRSERVER_DUPLICATE_CACHE_H
#define SLICE_DIRSERVER_DUPLICATE_CACHE_H

#include <tsl/robin_map.h>

#include <deque>
#include <memory>
#include <string>

#include "common/loop.h"
#include "common/metrics.h"
#include "dirserver/cell_store.h"
#include "rpc/dispatcher.h"

namespace slice::dirserver {

CallKey key_of(const rpc::Call& call);

class DuplicateCache {
 public:
  struct Options {
    std::size_t max_entries = 65536;
    std::size_t max_bytes = 64 << 20;             // of replies
    Duration max_age = std::chrono::minutes(15);  // longer than clients go on sending one call
    // So many records that are not needed any more are erased together: in their order and next to one
    // another they cost the store a fraction. Until then they are more than the bounds say.
    std::size_t erased_together = 64;
  };
  DuplicateCache(Loop& loop, Metrics& metrics, Options options);
  DuplicateCache(Loop& loop, Metrics& metrics) : DuplicateCache(loop, metrics, Options{}) {}

  // Loads what the sites' records say; before anything is served. kCorrupt.
  Status load(CellStore& cells, std::uint32_t sites);

  struct Seen {
    enum class State { kNew, kInProgress, kAnswered } state = State::kNew;
    std::string_view reply;  // kAnswered; valid until the next call of a method
  };
  // kNew: the caller runs it now, and must end with finish().
  Seen begin(const CallKey& call);
  // Puts the call's reply into the transaction that makes its change durable, as a record of `site`.
  void record(const CallKey& call, std::string_view reply, SiteId site, Transaction& transaction);
  // The call has been answered with `reply`; an empty one: it was not, and may run again.
  void finish(const CallKey& call, std::string_view reply);

  std::size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    bool answered = false;
    std::string reply;
    std::string key;          // of its record; empty: it has none
    std::uint64_t order = 0;  // that of its newest place in order_
  };
  struct Place {
    std::uint64_t order;
    CallKey call;
    WallTime at;
  };
  // Forgets the oldest while a bound is passed. Their records are erased with `transaction`, if there is one;
  // those of others wait for the next.
  void evict(Transaction* transaction);
  Entry* find(const CallKey& call);
  void append(const CallKey& call, Entry& entry, std::uint64_t order, WallTime at);

  Loop& loop_;
  Options options_;
  tsl::robin_map<CallKey, std::unique_ptr<Entry>, CallKeyHash> entries_;
  std::deque<Place> order_;  // oldest first; a place whose entry has a newer one is void
  std::vector<std::string> evicted_records_;
  std::uint64_t next_order_ = 1;
  std::size_t bytes_ = 0;

  Counter& replayed_;
  Counter& dropped_;
  Counter& size_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_DUPLICATE_CACHE_H
