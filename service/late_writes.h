// LateWrites: WRITEs that may come by more than one way, and what they were answered: those that another
// server passed on, and those of mirrored files, which a proxy sends to another copy when one is silent. One
// that comes late, behind the answer that the client got by another way, would undo what was written since.
// Known again by the caller too, as another user of the same host may not write what this one may. Bounded;
// who holds the most gives way (service/fair_order.h). One loop.
#ifndef SLICE_SERVICE_LATE_WRITES_H
#define SLICE_SERVICE_LATE_WRITES_H

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "rpc/dispatcher.h"
#include "service/caller_key.h"
#include "service/fair_order.h"

namespace slice::service {

class LateWrites {
 public:
  static constexpr std::size_t kMaxEntries = 16384;  // answered

  // Client, its xid, CRC-32C of the arguments but for the handle's hint, caller.
  using Key = std::tuple<rpc::Endpoint, Xid, std::uint32_t, CallerKey>;

  struct Seen {
    // kComesBack: it is under way here, and was passed on by a server that this one has passed it on to.
    enum class State { kNew, kUnderWay, kComesBack, kAnswered } state = State::kNew;
    std::string_view reply;  // kAnswered; empty: with a failure. Valid until the next call of a method
    Key key{};               // for end() and forget(): made once, since it takes in all of the data
  };
  // kNew: the caller runs it now, and must end with end().
  Seen begin(const rpc::Call& call);
  // Answered with these results; none: with a failure. A client that was asked to come again does so with
  // another call, and this one may not have an effect any more.
  void end(const Key& key, std::string_view results);
  // Not answered: it may run again.
  void forget(const Key& key);

 private:
  using Order = FairOrder<Key>;
  struct Entry {
    unsigned relays = 0;
    std::optional<Order::Place> place;  // since it was answered
    std::string reply;
  };

  std::map<Key, Entry> entries_;
  Order order_;  // of those that are answered
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_LATE_WRITES_H
