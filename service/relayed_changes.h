// RelayedChanges: changes that this server passes on to the owner of their site, and for a while what they
// were answered. A copy of one that comes late is answered with that, and not passed on: the owner may have
// died or given the site away meanwhile, and not know any more that it has refused the call before; carried
// out then, it would undo what its client has done since. WRITEs are known otherwise (late_writes.h). One
// loop.
#ifndef SLICE_SERVICE_RELAYED_CHANGES_H
#define SLICE_SERVICE_RELAYED_CHANGES_H

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "common/task.h"
#include "rpc/dispatcher.h"
#include "rpc/endpoint.h"
#include "service/caller_key.h"

namespace slice::service {

class RelayedChanges {
 public:
  static constexpr Duration kLife = std::chrono::seconds(10);  // of an answer; longer than datagrams stray
  static constexpr std::size_t kAnswers = 4096;

  explicit RelayedChanges(Loop& loop) : loop_(loop) {}

  struct Key {
    rpc::Endpoint client;
    Xid xid;
    std::uint32_t procedure = 0, checksum = 0;  // of the arguments
    CallerKey caller;  // what another user of the client's host was answered is not his
    auto operator<=>(const Key&) const = default;
  };
  struct Seen {
    enum class State { kNew, kUnderWay, kAnswered } state = State::kNew;
    std::string_view results;  // kAnswered: valid until the next call of a method
  };
  static Key key_of(const rpc::Call& call);
  bool empty() const { return known_.empty(); }
  // Whether it is known: asked before the call is carried out here, too, since its site may have come
  // meanwhile. kNew: it is not.
  Seen look(const rpc::Call& call);
  // It is passed on now; to be ended with end() or forget().
  void begin(const Key& key) { known_[key] = {}; }
  void end(const Key& key, std::string_view results);
  // Not answered: it may be passed on again.
  void forget(const Key& key);
  // Of one that is under way: ends with end() or forget(). Then look() says what became of it.
  Task<void> over(Key key);

 private:
  struct Answered {
    MonoTime at;
    Key key;
  };
  struct Known {
    std::optional<std::string> results;  // none: it is under way
    std::vector<OneShot<bool>> waiters;  // in over()
  };
  // Not under way any more.
  void tell(std::vector<OneShot<bool>> waiters);

  Loop& loop_;
  std::map<Key, Known> known_;
  std::deque<Answered> answered_;  // the oldest first
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_RELAYED_CHANGES_H
