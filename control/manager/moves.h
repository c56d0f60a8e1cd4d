// Moves: what slice-managerd does of moves of sites (docs/moves.md): it begins them where an operator asks,
// has the old owners carry them out, some at a time, and publishes the tables when one of them has given its
// sites away. What it knows of a move beyond the state's record it learns anew from the old owner, so it may
// die at any moment. One loop.
#ifndef SLICE_CONTROL_MANAGER_MOVES_H
#define SLICE_CONTROL_MANAGER_MOVES_H

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "control/manager/state.h"
#include "service/byte_rate.h"
#include "service/context.h"
#include "wire/moves.h"

namespace slice::manager {

class Moves {
 public:
  static constexpr std::size_t kAtOnce = 8;       // moves that copy, one of an old owner
  static constexpr std::size_t kRemembered = 64;  // moves that have ended
  static constexpr Duration kInterval = std::chrono::milliseconds(200);

  struct Hooks {
    const ManagerState& state;
    ChangeState change;
    // The tables of this generation have these sites at their new owner.
    std::function<void(const wire::SiteMove& move, Generation generation)> moved;
    std::function<bool(std::uint32_t server)> alive;
    // The state is not known yet.
    std::function<bool()> surveys;
  };
  Moves(service::ServiceContext& context, Hooks hooks);

  // Works on what the state has, until stop().
  void run();
  void stop() { stopped_ = true; }

  Task<wire::StartMovesResult> start(wire::StartMovesArgs args);
  Task<wire::ChangeMovesResult> change(wire::ChangeMovesArgs args);
  wire::MovesListResult list() const;
  // A move goes on that this server gives sites by, or gets some.
  bool concerns(std::uint32_t server) const;

 private:
  struct Seen {
    wire::MoveSitesResult last;
    service::ByteRate rate;
    bool busy = false;
  };
  const MoveRecord* find(wire::MoveId id) const;
  // As its old owner has told.
  bool given(wire::MoveId id) const;
  // Of those that wait or copy: the first of each old owner.
  std::set<wire::MoveId> active() const;
  Status begin(const wire::StartMovesArgs& args, ManagerState& next, std::vector<wire::MoveId>& begun) const;
  // One look at all of them; and another one after kInterval.
  void work();
  Task<void> step(wire::MoveId id, std::uint64_t bytes_per_second, bool paused);
  Task<void> carry_on(MoveRecord record, std::uint64_t bytes_per_second, bool paused);
  Task<void> give_up(MoveRecord record);
  // A lost server's sites: there is nothing to copy. Does the old owner's part.
  Task<void> grant(MoveRecord record);
  Task<Status> offer_nothing(wire::SiteMove move);
  bool lost(std::uint32_t server) const { return hooks_.state.tables.servers[server].lost.value != 0; }
  // Where the state cannot be kept, it is asked for again the next time.
  Task<void> set_aborting(wire::MoveId id, bool aborting);
  // False: the state cannot be kept; it is tried again.
  Task<bool> publish(wire::SiteMove move);
  Task<void> end(MoveRecord record, wire::MovePhase phase);
  void note(Seen& seen, const wire::MoveSitesResult& result);
  rpc::Endpoint endpoint_of(std::uint32_t server) const;

  service::ServiceContext& context_;
  Hooks hooks_;
  std::map<wire::MoveId, Seen> seen_;
  std::deque<wire::MoveState> ended_;
  bool stopped_ = false;
  LogLimiter log_{1};
  Counter &begun_, &done_, &aborted_, &under_way_;
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_MOVES_H
