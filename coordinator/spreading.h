// Spreading: evens out on which storage servers files with a layout are, in the background, where an operator
// asks for it (docs/block-maps.md). What is asked for is on the disk until it is done, or given up
// (spread_record.h): a coordinator that dies goes on with it. One loop.
#ifndef SLICE_COORDINATOR_SPREADING_H
#define SLICE_COORDINATOR_SPREADING_H

#include <optional>
#include <string>

#include "coordinator/balance.h"
#include "coordinator/layouts.h"
#include "coordinator/ops/move.h"
#include "coordinator/pieces.h"
#include "service/byte_rate.h"

namespace slice::coordinator {

class Spreading {
 public:
  static constexpr Duration kPause =
      std::chrono::seconds(5);  // where not everything can be read, until it tries again

  struct Parts {
    FileGate& gate;
    BlockMaps& maps;
    Sessions& sessions;
    Layouts& layouts;
    MoveOperation& move;
  };
  // All outlive it.
  Spreading(service::ServiceContext& context, Parts parts, std::uint64_t bytes_per_second);

  // Goes on with what was asked for before a start. Errors: as read_spread().
  Task<Status> start();
  // The coordinator program's SPREAD: from now on by these shares; without any, no more. Durable when it ends
  // well. kJukebox: by tables that are not here yet, or it stops; kIo, kNoSpc: it cannot be recorded.
  Task<nfs3::Status> begin(wire::SpreadArgs args);
  void stop();
  bool goes_on() const { return wanted_.has_value(); }
  // The coordinator program's SPREADING.
  wire::SpreadingResult state() const;
  // For status: what it does; empty: nothing.
  std::string detail() const;

 private:
  // Until it is done, or given up.
  Task<void> work();
  // Evens out once, by these shares. An error: not everything could be read.
  Task<Status> pass(std::vector<wire::ServerShare> shares);
  Task<void> done(std::uint64_t asked);
  // Something else was asked for meanwhile, or it stops.
  bool leaves_off(std::uint64_t asked) const { return stopping_ || asked != asked_; }
  // Calls `visit` for every piece once, of one without a record where its first stripe is.
  Task<Status> each_piece(Pieces::Visit visit);
  std::vector<Balance::Stripe> stripes_of(const routing::FileHandle& handle, const wire::MapPiece& piece,
                                          std::uint64_t end) const;
  Task<void> spread(routing::FileHandle handle, wire::MapPiece piece, std::uint64_t end, Balance& balance,
                    std::uint64_t asked);
  // What is asked for begins, or begins again, and ends.
  void show_begun();
  void show_ended(wire::SpreadPhase phase);
  void show(std::uint64_t left);
  void note(bool moved, std::uint64_t bytes);

  service::ServiceContext& context_;
  Parts parts_;
  const std::uint64_t bytes_per_second_;
  Pieces pieces_;
  AsyncMutex recording_;
  std::optional<wire::SpreadArgs> wanted_;  // as it is recorded
  std::uint64_t asked_ = 0;                 // how often
  bool working_ = false, stopping_ = false;
  wire::SpreadingResult shown_;
  service::ByteRate rate_;
  Counter& moved_;
  Counter& moved_bytes_;
  Counter& failed_;
  Counter& left_gauge_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_SPREADING_H
