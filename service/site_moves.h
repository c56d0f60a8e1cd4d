// SiteMoves: the moves program of a server that has sites, as their old owner and as their new one
// (docs/moves.md, wire/moves.h). What is decided of a move is in the record of the server's sites
// (service/ownership.h): until that says "given away" a move may end at any moment without harm, and after
// that it is finished, whoever dies. One loop.
#ifndef SLICE_SERVICE_SITE_MOVES_H
#define SLICE_SERVICE_SITE_MOVES_H

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "service/context.h"
#include "service/internal_program.h"
#include "service/ownership.h"
#include "service/site_data.h"
#include "service/site_gate.h"
#include "wire/object.h"

namespace slice::service {

class SiteMoves : public InternalProgram {
 public:
  // A move of which the manager has not told for so long is given up.
  static constexpr Duration kForgotten = std::chrono::seconds(60);

  // All outlive it. Without context.ownership every move is refused.
  SiteMoves(ServiceContext& context, wire::Role site_class, SiteGate& gate, SiteData& data);

  // Goes on with what moves of a run before have left to do.
  void start();
  // Ends when nothing of it goes on any more.
  Task<void> stop();
  // Servers that have, or will have, sites that are here by tables of this generation.
  wire::Also also(Generation known) const;
  // The server that has a site which this one has given away; nothing where it has not.
  std::optional<std::uint32_t> given_to(SiteId site) const;

 private:
  // As the old owner.
  struct Outgoing {
    wire::SiteMove move;
    wire::MoveSitesResult told;
    std::shared_ptr<LeavingSites> leaving;  // the present attempt; null: none
    std::uint64_t bytes_per_second = 0;
    bool paused = false;
    bool stop = false;
    MonoTime asked;                    // when the manager told of it last
    std::vector<OneShot<bool>> ended;  // who waits for its end
  };
  using Moving = std::shared_ptr<Outgoing>;
  wire::MoveSitesResult move(const wire::MoveSitesArgs& args);
  // What is told of a move that does not begin here; none: it may.
  std::optional<wire::MoveSitesResult> not_begun(const wire::SiteMove& move) const;
  Task<wire::AbortMoveResult> abort(wire::AbortMoveArgs args);
  Task<void> drive(Moving moving);
  Task<Status> attempt(Moving moving);
  Task<Status> copy_and_switch(Moving moving, std::shared_ptr<LeavingSites> leaving);
  // Nothing: requests under way did not end in time; everything is as before.
  Task<std::optional<Status>> switch_over(Moving moving, std::shared_ptr<LeavingSites> leaving,
                                          Duration patience);
  Task<Status> hand_over(Moving moving, std::shared_ptr<LeavingSites> leaving);
  Task<void> give(Moving moving);
  Task<void> finish(Moving moving);
  Task<bool> tell_taken(Moving moving, Duration patience);
  Task<Status> prepare_there(Moving moving, std::shared_ptr<LeavingSites> leaving);
  // What the server answers; an error: it does not.
  template <class Args>
  Task<Result<wire::MovesResult>> ask(std::uint32_t server, wire::MovesProcedure procedure, Args args);
  // The same, and any answer but kOk is an error.
  template <class Args>
  Task<Status> have(std::uint32_t server, wire::MovesProcedure procedure, Args args);
  bool wanted(const Outgoing& moving) const;
  Task<void> pause(const Outgoing& moving, Duration duration);

  // As the new owner.
  struct Incoming {
    wire::SiteMove move;
    std::uint64_t attempt = 0;
    enum class State { kClearing, kOpen, kOffered, kFailed, kGone } state = State::kClearing;
    std::string trouble;
  };
  using Coming = std::shared_ptr<Incoming>;
  wire::MovesResult prepare(const wire::PrepareSitesArgs& args);
  Task<wire::MovesResult> offer(wire::OfferSitesArgs args);
  Task<wire::MovesResult> take(wire::TakeSitesArgs args);
  wire::MovesResult withdraw(const wire::WithdrawSitesArgs& args);
  wire::MovesResult late_writes(const wire::LateWritesArgs& args);
  // Takes back what attempts up to the present one have offered, and gives back what came by them.
  Task<void> clear_for(Coming coming, Incoming::State then);
  std::uint64_t next_attempt();
  // The last attempt of the move that this server knows of, as its new owner.
  std::uint64_t last_attempt(wire::MoveId move) const;
  Coming coming(wire::MoveId move, std::uint64_t attempt) const;
  std::string refusal(const wire::SiteMove& move) const;

  ServiceContext& context_;
  const wire::Role site_class_;
  SiteGate& gate_;
  SiteData& data_;
  std::map<wire::MoveId, Moving> outgoing_;
  std::map<wire::MoveId, Coming> incoming_;
  std::uint64_t attempt_ = 0;  // the number of the last one
  bool stopping_ = false;
  unsigned running_ = 0;
  LogLimiter log_{1};
  Counter& given_total_;
  Counter& taken_total_;
  Counter& failed_total_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_SITE_MOVES_H
