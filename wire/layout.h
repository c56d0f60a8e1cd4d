// What a coordinator and the storage nodes say to each other of files that have a layout: which copies of
// mirrored ones miss what (docs/mirrors.md), and where the stripes of block-mapped ones are
// (docs/block-maps.md). The coordinator's procedures SESSION, END_SESSION, LAYOUT, MISSED, MAP, MOVE, RECEIVE
// and SPREAD; the object program's RECALL, FORWARD, COPY, DISCARD and LEAVING.
#ifndef SLICE_WIRE_LAYOUT_H
#define SLICE_WIRE_LAYOUT_H

#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "rpc/auth.h"
#include "wire/internal.h"
#include "wire/nfs3.h"

namespace slice::wire {

inline constexpr std::uint64_t kAllStripes = ~std::uint64_t{0};
inline constexpr std::size_t kMaxStripeRanges = 256;  // of one server
inline constexpr std::size_t kMaxMissing = 256;       // servers of one file
inline constexpr std::size_t kMaxOrdersSince = 256;   // likewise
inline constexpr std::size_t kMaxMissedSince = 64;    // of one server

// Stripes [first, end).
struct StripeRange {
  std::uint64_t first = 0, end = 0;
  auto operator<=>(const StripeRange&) const = default;
};
// Of a version since which something holds: it is not known yet, since some node may act by the layout of
// before.
inline constexpr std::uint64_t kNotYet = ~std::uint64_t{0};
// Stripes that a server has missed since a version, at the latest: as in OrdersSince.
struct MissedSince {
  StripeRange stripes;
  std::uint64_t version = 0;
  auto operator<=>(const MissedSince&) const = default;
};
// What one server misses of a file.
struct Missing {
  std::uint32_t server = 0;          // index in the configuration
  bool joining = false;              // it gets every write again, and is not read until all was copied
  std::vector<StripeRange> stripes;  // in order, apart
  // As stripes were added, the oldest first. Of a stripe that is in several the largest version counts; one
  // that is in none was missed before its coordinator's start.
  std::vector<MissedSince> since;
};
// A piece of a file's block map: the sites of kStripesOfPiece stripes from number * kStripesOfPiece on,
// storage sites or listed ones (wire/listed_site.h). None: each is where the hash has it, since it is not
// placed yet, or, of a file that is not block-mapped, since none was moved.
inline constexpr std::uint64_t kStripesOfPiece = 256;
struct MapPiece {
  std::uint64_t number = 0;
  std::vector<std::uint32_t> sites;  // none, or kStripesOfPiece
  bool operator==(const MapPiece&) const = default;
};
constexpr std::uint64_t piece_of(std::uint64_t stripe) {
  return stripe / kStripesOfPiece;
}
// A stripe that is on its way to another site. All writes of it go to the servers of both sites; it is read,
// and its writes are ordered, at the old one until `switched`, then at the new one.
struct Moving {
  std::uint64_t stripe = 0;
  std::uint32_t site = 0;  // the new one, as in a piece
  bool switched = false;
};
// Since which version a server may order a file's writes, which it might not for a while before: its copy was
// made whole, or a stripe moved there. Whoever has been told this version, or a later one, was so when no
// other server ordered them any more.
struct OrdersSince {
  std::uint32_t server = 0;
  std::uint64_t version = 0;
};
// Versions are of the coordinator, and grow. A layout that has `version` holds as long as the file's
// `changed` is not beyond it.
struct FileLayout {
  std::uint64_t version = 0;
  std::uint64_t changed = 0;
  std::vector<Missing> missing;
  std::vector<OrdersSince> orders_since;  // each server once
  std::uint64_t others_order_since = 0;   // of all other servers, at the latest
  std::optional<Moving> moving;
  MapPiece piece;  // that was asked for
  // Writes may go by it, too. Else its stripes are about to get their places: it is for reads, and for who
  // gets writes from the one that orders them.
  bool settled = true;
};

// SESSION: while it lasts, the node may use layouts that it was given; the coordinator tells it of changes,
// or waits until the session has ended. Asked again and again, with the session's number (0: a new one).
struct SessionArgs {
  std::uint32_t server = 0;
  std::uint64_t session = 0;
  std::uint64_t free_bytes = 0;  // of the node's disk, above its reserve
};
struct SessionResult {
  nfs3::Status status = nfs3::Status::kOk;
  std::uint64_t session = 0;       // another one than asked for: all layouts of before are void
  std::uint32_t milliseconds = 0;  // from when the node asked
  std::uint64_t version = 0;       // of layouts that are given now
};

// END_SESSION: the node uses no layout any more that it was given in this session, since its process ends; it
// begins another when it is there again. Nothing happens where the session is another by now. `durable`: what
// it was ever told to write of files with a layout is durable there; that comes later, or never.
struct EndSessionArgs {
  std::uint32_t server = 0;
  std::uint64_t session = 0;
  bool durable = false;
};

// LAYOUT: with the piece of the block map that `stripe` is in; `place`: it is going to be written, so the
// piece gets its sites now, where it has none yet, and what is answered is settled.
struct LayoutArgs {
  ByteView handle;
  std::uint64_t stripe = 0;
  bool place = false;
};
// kJukebox: the receiver has not the file's site, or is about to give it away. Nobody passes the call on,
// since layouts go by the session with who gave them: the node is to ask `owner`, with whom it has one.
struct LayoutResult {
  nfs3::Status status = nfs3::Status::kOk;
  FileLayout layout;
  std::uint32_t owner = 0;  // kJukebox: who has the site, as far as the receiver knows
};

// MISSED: the server has not got a write of these stripes that others have. Answered kOk when that is durable
// and no node reads them there any more; kJukebox: no other copy is whole.
struct MissedArgs {
  ByteView handle;
  std::uint32_t server = 0;
  StripeRange stripes;
};

// MAP: the same piece for who may use it as a hint alone: a proxy, an operator. All its sites are listed
// ones, also those of a mirrored file that has no record; no sites where a block-mapped one has no places
// yet.
struct MapArgs {
  ByteView handle;
  std::uint64_t stripe = 0;
};
struct MapResult {
  nfs3::Status status = nfs3::Status::kOk;
  MapPiece piece;
};

// MOVE: a stripe of a file that has a layout to another site, while it is used. Answered when it is there.
// kJukebox: not now (a server is away, another stripe of the file is being moved); then it is where it was.
// kStale: the file is being removed.
struct MoveArgs {
  ByteView handle;
  std::uint64_t stripe = 0;
  std::uint32_t site = 0;  // as in a piece
};

// EMPTIED: whether a storage server that is drained has nothing any more of files of the receiver's that have
// a layout, and will get nothing (docs/block-maps.md). `known`: tables that say that it is drained. kOk: so
// it is, until it is not drained any more; kJukebox: not yet; kInval: it is not drained.
struct EmptiedArgs {
  std::uint32_t server = 0;
  Generation known;
};
struct EmptiedResult {
  nfs3::Status status = nfs3::Status::kOk;
  std::uint64_t record = 0;  // kOk: which sites that was found of; another number when some have come since
  std::string left;          // kJukebox: what there is still to do
};

// SPREAD: the receiver is to even out, in the background, on which storage servers files of its are that have
// a layout (docs/block-maps.md); without shares, no more. kOk: that is durable. kJukebox: it has older tables
// than `known`, by which the shares were found.
struct ServerShare {
  std::uint32_t server = 0;
  std::uint64_t weight = 0;  // its part of all weights; 0: what it has stays
};
struct SpreadArgs {
  Generation known;
  std::vector<ServerShare> shares;
};

// SPREADING, without arguments: how far the receiver is with what SPREAD asked for last.
enum class SpreadPhase : std::uint32_t {
  kNever = 0,     // it was asked for nothing since it started, nor had to go on with anything
  kWaiting = 1,   // for newer tables, or for servers: it begins again
  kCounting = 2,  // what every server has
  kMoving = 3,
  kDone = 4,
  kGivenUp = 5  // SPREAD without shares came
};
std::string_view phase_name(SpreadPhase phase);

struct SpreadingResult {
  SpreadPhase phase = SpreadPhase::kNever;
  std::uint64_t moved_bytes = 0;     // since it was asked for, or the receiver started with it
  std::uint64_t left_bytes = 0;      // kMoving: that are to go still
  std::uint64_t failed_stripes = 0;  // that could not be moved, likewise
  std::uint64_t bytes_a_second = 0;  // moved in the last seconds
  std::uint64_t began_ns = 0;        // wall clock: when it was asked for, or the receiver started with it
  std::uint64_t ended_ns = 0;        // 0: it has not
  std::string trouble;               // why it waits, if that is known; at most 255 bytes
  bool operator==(const SpreadingResult&) const = default;
};

// RECALL: layouts of the file with a version below `version` that this coordinator gave are void. With
// `sites`: of all files of these coordinator sites.
struct RecallArgs {
  FileId file;
  std::uint64_t version = 0;
  std::uint32_t coordinator = 0;     // the sender
  std::vector<std::uint32_t> sites;  // in order
};

// FORWARD: a write of a mirrored file, from the copy that orders them, which sends one of a stripe after
// another. Done only under the same truncation epoch, and if its number is greater than those before: a late
// second copy of a call must not undo a newer one. kNotSync: it is not; the receiver's are in the answer.
// kStale: `version` is too old, or the receiver misses this stripe.
struct ForwardArgs {
  ByteView handle;
  std::uint64_t version = 0;
  std::uint64_t number = 0;
  Epoch epoch;
  std::uint64_t offset = 0;
  nfs3::Time mtime;
  bool sync = false;
  ByteView data;
  std::uint32_t hole = 0;  // without data: so many zeros, whose space may be given back
};
struct ForwardResult {
  nfs3::Status status = nfs3::Status::kOk;
  Epoch epoch;
  std::uint64_t number = 0;  // the greatest one of the stripe
  Verifier verifier;
};

// COPY: have the server `to` write this stripe as the receiver has it. kStale as above.
struct CopyArgs {
  ByteView handle;
  std::uint64_t version = 0;
  std::uint64_t stripe = 0;
  std::uint32_t to = 0;
};

// DISCARD: gives back what the receiver has of this stripe, which is not there, by the layout `version`.
// kStale: it is, or `version` is too old.
struct DiscardArgs {
  ByteView handle;
  std::uint64_t version = 0;
  std::uint64_t stripe = 0;
};

// LEAVING: the process of this storage node ends. The receiver asks it for nothing more until it answers a
// probe again.
struct LeavingArgs {
  std::uint32_t server = 0;
};

// RECEIVE: what the old owner of coordinator sites has of them, for the new one (docs/moves.md). Those of an
// attempt have numbers from 1 on and come one after another; one that comes again changes nothing. Answered
// when it is taken; OFFER of the moves program makes it durable. kStale: the attempt is over there.
struct MovedIntention {
  std::uint64_t number = 0;  // the old owner's
  std::string record;        // docs/formats/intention-log.md
  bool operator==(const MovedIntention&) const = default;
};
struct MovedPiece {
  FileId file;
  MapPiece piece;  // without sites: there is none any more
  bool operator==(const MovedPiece&) const = default;
};
inline constexpr std::size_t kMaxMovedIntentions = 1024, kMaxMovedPieces = 256, kMaxMovedNumbers = 16384;
struct ReceiveArgs {
  std::uint64_t move = 0;
  std::uint64_t attempt = 0;
  std::uint64_t number = 0;
  std::vector<MovedIntention> begun;
  std::vector<std::uint64_t> ended;  // of those that were sent before
  std::vector<MovedPiece> pieces;
  std::vector<std::uint64_t> removed;  // files that are gone: no write places stripes of them
  std::uint64_t version = 0;           // of layouts that were given; 0: more comes
};

// The results of a WRITE (WRITE3resfail) that was not done, since its sender might have sent it before the
// node ordered the stripe's writes: it may send it again, with this stamp. NFS3ERR_JUKEBOX, and behind the
// failure's body coordinator and version. Members of the ensemble alone get it.
void encode_sent_too_early(rpc::XdrWriter& results, rpc::LayoutStamp stamp);
// Nothing where the results are others.
std::optional<rpc::LayoutStamp> decode_sent_too_early(ByteView results);

// clang-format off
#define SLICE_WIRE_LAYOUT_MESSAGES(X) \
  X(SessionArgs) \
  X(SessionResult) \
  X(EndSessionArgs) \
  X(LayoutArgs) \
  X(LayoutResult) \
  X(MissedArgs) \
  X(RecallArgs) \
  X(ForwardArgs) \
  X(ForwardResult) \
  X(CopyArgs) \
  X(MapArgs) \
  X(MapResult) \
  X(MoveArgs) \
  X(EmptiedArgs) \
  X(EmptiedResult) \
  X(SpreadArgs) \
  X(SpreadingResult) \
  X(ReceiveArgs) \
  X(DiscardArgs) \
  X(LeavingArgs)
// clang-format on
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_LAYOUT_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_LAYOUT_H
