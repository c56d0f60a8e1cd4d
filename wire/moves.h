// Moves of sites between servers of one class (docs/moves.md): what an operator asks of slice-managerd, and
// the moves program, by which the manager has the old owner move sites, and the old owner the new one.
#ifndef SLICE_WIRE_MOVES_H
#define SLICE_WIRE_MOVES_H

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/ids.h"
#include "wire/internal.h"
#include "wire/manager.h"
#include "wire/nfs3.h"

namespace slice::wire {

using MoveId = Id<struct MoveIdTag, std::uint64_t>;  // from 1, never used twice
// So many sites go in one move: what the old owner has is walked through once for all of them.
inline constexpr std::size_t kMaxSitesOfMove = 64;

enum class MovesProcedure : std::uint32_t {
  kNull = 0,
  kMove = 1,      // the manager to the old owner
  kAbort = 2,     // likewise
  kPrepare = 3,   // the old owner to the new one, as those below
  kOffer = 4,     //
  kTake = 5,      //
  kWithdraw = 6,  // the manager as well
  kLateWrites = 7
};

inline constexpr std::array kClassesOfSites{Role::kDirectory, Role::kSmallFile, Role::kStorage,
                                            Role::kCoordinator};
static_assert(kClassesOfSites.size() == kSiteClasses);

// Of sites in order.
inline bool has_site(const std::vector<std::uint32_t>& sites, std::uint32_t site) {
  return std::binary_search(sites.begin(), sites.end(), site);
}

// Sites of one class from one server to another; both by index.
struct SiteMove {
  MoveId id;
  Role site_class = Role::kStorage;
  std::uint32_t from = 0, to = 0;
  Generation begun;                  // of the manager's tables then: those after it alone may show the move
  std::vector<std::uint32_t> sites;  // in order
  bool has(std::uint32_t site) const { return has_site(sites, site); }
  bool operator==(const SiteMove&) const = default;
};

// How far a move is. Until kGiven the sites are the old owner's, and it may be given up.
enum class MovePhase : std::uint32_t {
  kWaiting = 0,    // it was not begun, or is paused
  kPreparing = 1,  // the new owner gives back what it has of the sites from an earlier time
  kCopying = 2,    // what is written goes to both, and what was there is copied
  kGiven = 3,      // the sites are the new owner's; the old one frees what it had
  kDone = 4,
  kAborted = 5
};
std::string_view phase_name(MovePhase phase);

// MOVE: is told again and again until it is kDone. The receiver does it, and forgets it where it is told for
// a minute no more, unless the sites are given away.
struct MoveSitesArgs {
  SiteMove move;
  std::uint64_t bytes_per_second = 0;  // of what is copied; 0: no limit
  bool paused = false;                 // it does not go on copying; what was begun stays
};
struct MoveSitesResult {
  MovePhase phase = MovePhase::kWaiting;
  std::uint64_t copied_bytes = 0;    // by this try
  std::uint64_t expected_bytes = 0;  // to be copied by it, about
  std::uint32_t tries = 0;           // that came to nothing before
  std::uint64_t pause_us = 0;        // for which requests were held at the switch
  std::string trouble;               // why the last try came to nothing; at most 255 bytes
};

// ABORT: the old owner leaves off. kGiven: it is too late.
struct AbortMoveArgs {
  SiteMove move;
};
struct AbortMoveResult {
  MovePhase phase = MovePhase::kAborted;
  std::uint64_t attempt = 0;  // kAborted: no attempt up to this one is made any more
};

// PREPARE: what the receiver has of the sites is to be given back, and then `attempt` may write them.
// Attempts of a move have numbers that grow. Asked again until it is answered kOk; kJukebox: it is under way;
// kStale: a later one was prepared.
struct PrepareSitesArgs {
  SiteMove move;
  std::uint64_t attempt = 0;
};
// OFFER: all that came by this attempt is made durable; `final`: that is all there is, and the receiver
// records that the sites are offered to it. Nothing more comes by the attempt.
// The receiver adopts the sender's write verifier where that is larger: else a COMMIT there could be answered
// with the one under which the sender had acknowledged writes before it lost them.
struct OfferSitesArgs {
  MoveId move;
  std::uint64_t attempt = 0;
  bool final = false;
  Verifier verifier = {};
};
// TAKE: the old owner has given the sites away: they are the receiver's.
struct TakeSitesArgs {
  SiteMove move;
};
// WITHDRAW: nothing comes of the move's attempts up to this one. The receiver gives back what it has of the
// sites, which are not its own; kOk when that is done.
struct WithdrawSitesArgs {
  SiteMove move;
  std::uint64_t attempt = 0;
};
struct MovesResult {
  nfs3::Status status = nfs3::Status::kOk;
  std::uint64_t attempt = 0;  // kStale: the last one that was prepared
  std::string trouble;        // at most 255 bytes
};

// LATE_WRITES: WRITEs of these sites that the old owner has answered lately (service/late_writes.h).
struct LateWrite {
  rpc::Endpoint client;
  std::uint32_t xid = 0;
  std::uint64_t fingerprint = 0;
  std::uint32_t site = 0;
  nfs3::Status status = nfs3::Status::kOk;
  std::string reply;  // at most 255 bytes
};
struct LateWritesArgs {
  MoveId move;
  std::uint64_t attempt = 0;
  std::vector<LateWrite> writes;  // at most kMaxLateWrites
};
inline constexpr std::size_t kMaxLateWrites = 4096;

// ---- the manager's procedures MOVE_SITES, MOVES and CHANGE_MOVES ----

// MOVE_SITES: sites of one class to the server with this index; those that are there stay.
struct StartMovesArgs {
  Role site_class = Role::kStorage;
  std::uint32_t to = 0;
  std::vector<std::uint32_t> sites;
};
struct StartMovesResult {
  std::string refused;        // why nothing was begun; empty: it is, durably
  bool later = false;         // refused: asked again it may be begun
  std::vector<MoveId> moves;  // none: all of them are there
};

struct MoveState {
  SiteMove move;
  MoveSitesResult last;              // as the old owner has told
  bool aborting = false;             // it is given up
  std::uint64_t began_ns = 0;        // wall clock
  std::uint64_t ended_ns = 0;        // 0: it has not
  std::uint64_t bytes_a_second = 0;  // copied in the last seconds
};
struct MoveSettings {
  bool paused = false;
  std::uint64_t bytes_per_second = 0;  // of all moves together; 0: no limit
  bool operator==(const MoveSettings&) const = default;
};
inline constexpr std::uint64_t kDefaultMoveRate = 64 << 20;
// MOVES: those that have not ended, the oldest first, and behind them the last that have.
struct MovesListResult {
  MoveSettings settings;
  std::vector<MoveState> moves;
};

// CHANGE_MOVES: what is named; durable when answered.
struct ChangeMovesArgs {
  enum Field : std::uint32_t { kPaused = 1, kRate = 2, kAbort = 4 };
  std::uint32_t fields = 0;
  MoveSettings settings;
  MoveId abort;
};
struct ChangeMovesResult {
  std::string refused;  // empty: it is so
  MoveSettings settings;
};

// clang-format off
#define SLICE_WIRE_MOVES_MESSAGES(X) \
  X(MoveSitesArgs) \
  X(MoveSitesResult) \
  X(AbortMoveArgs) \
  X(AbortMoveResult) \
  X(PrepareSitesArgs) \
  X(OfferSitesArgs) \
  X(TakeSitesArgs) \
  X(WithdrawSitesArgs) \
  X(MovesResult) \
  X(LateWritesArgs) \
  X(StartMovesArgs) \
  X(StartMovesResult) \
  X(MovesListResult) \
  X(ChangeMovesArgs) \
  X(ChangeMovesResult)
// clang-format on
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_MOVES_MESSAGES(X)
#undef X

// As the manager's state has them.
void encode_move(rpc::XdrWriter& out, const SiteMove& move);
SiteMove decode_move(rpc::XdrReader& in);

}  // namespace slice::wire

#endif  // SLICE_WIRE_MOVES_H
