// Backing sets (docs/backing.md): what a directory server, small-file server or coordinator keeps lies as
// files on two or three storage nodes, in place of its own host's disk. The backing program of storage nodes,
// and the manager's procedures BACKING_CLAIM, BACKING_MEMBERS, BACKING_SPARE, BACKING_SETS, BACKING_KEEP and
// BACKING_ADOPT.
//
// An owner is one run of such a server. It has the set's epoch, which the manager gave to it alone, and a
// session with each member; a node takes nothing from any other, ever again, once it knows of a later epoch.
#ifndef SLICE_WIRE_BACKING_H
#define SLICE_WIRE_BACKING_H

#include <chrono>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/loop.h"
#include "rpc/xdr.h"
#include "wire/internal.h"

namespace slice::wire {

enum class BackingProcedure : std::uint32_t {
  kNull = 0,
  kAttach = 1,
  kRenew = 2,
  kLetGo = 3,
  kChange = 4,
  kRead = 5,
  kList = 6,
  kDigest = 7
};

// From a RENEW that a node answered: from when its owner sent it for that one, from when it came for the
// node. So the owner's end is first (reconfiguration, "Fencing").
inline constexpr Duration kBackingSession = std::chrono::seconds(3);
inline constexpr std::size_t kMaxBackingPath = 255;                // bytes of a path below the set's folder
inline constexpr std::size_t kMaxBackingChanges = 1024;            // of one CHANGE
inline constexpr std::size_t kMaxBackingBytes = (1 << 20) + 8192;  // of one WRITE or READ
inline constexpr std::uint64_t kBackingPiece = 1 << 20;            // bytes that one digest is of
inline constexpr std::size_t kMaxBackingDigests = 4096;            // of one answer
inline constexpr std::size_t kMaxBackingListed = 1024;             // of one answer
inline constexpr std::size_t kMaxBackingMembers = 3;

enum class BackingStatus : std::uint32_t {
  kOk = 0,
  kStale = 1,    // another owner has the set: a later epoch, or another run of this one
  kHeld = 2,     // a former owner's session is not over
  kNoSpace = 3,  //
  kIo = 4,       // the node's disk fails, or what it keeps of the set is damaged
  kNotFound = 5,
  kGap = 6,      // changes before these have not come, or came to an earlier run of the node
  kLeaving = 7,  // not carried out: the node's process ends, and whoever has other members goes on with them
};
// For logs and errors: "stale", ...
std::string_view backing_status_name(BackingStatus status);

// Whose call it is.
struct BackingOwner {
  std::uint32_t server = 0;  // whose set: its number among the members, which is never another's
  BackingEpoch epoch;
  std::uint64_t instance = 0;  // one run of it; random
  bool operator==(const BackingOwner&) const = default;
};

// ATTACH: the first call of an owner, to each node of the set. From when it is answered kOk the node takes
// calls from this owner alone, durably; what former ones had written is durable. Again by the same owner:
// as RENEW, and the numbers of changes go on. A node that was started again needs one before all else.
struct BackingAttachArgs {
  BackingOwner owner;
  std::uint64_t former = 0;  // that run of the server is known to have ended; 0: none is
  // What is here of the set counts for nothing, and goes. Nothing where the owner was attached to this run of
  // the node before.
  bool empty = false;
  // The owner's changes up to this number are not for this node, which takes those behind it (also where it
  // had carried out some of the owner's, but not as many). For who comes into a set, or comes back.
  std::uint64_t begins_behind = 0;
};
struct BackingAttachResult {
  BackingStatus status = BackingStatus::kOk;
  std::uint32_t wait_ms = 0;  // kHeld: until the session is over
  BackingEpoch known;         // the largest epoch that the node knows of, before this call; 0: no such set
  // What the node has is what the owner of `changed` had written up to its change of that number, neither
  // more nor less; with 0 nobody can say. So two nodes with the same two numbers have the same bytes. That of
  // a former owner until this one's first change; after `empty`: this one's epoch and 0.
  BackingEpoch changed;
  std::uint64_t applied = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0;  // of its disk, less its reserve
};

// RENEW, LET_GO: without more. After LET_GO the owner is none any more, and all it wrote is durable.
struct BackingOwnerArgs {
  BackingOwner owner;
};
struct BackingStatusResult {
  BackingStatus status = BackingStatus::kOk;
};

enum class BackingOp : std::uint32_t {
  kWrite = 0,       // `bytes` at `offset`; extends the file, and makes it where there is none
  kTruncate = 1,    // to `length`; makes it where there is none
  kPunch = 2,       // [offset, offset + length) gives its space back; nothing where there is none
  kCreate = 3,      // an empty file where there is none
  kRemove = 4,      // nothing where there is none
  kRename = 5,      // to the path in `bytes`, in place of what is there; nothing where there is none
  kSync = 6,        // durable when the call is answered: the file; nothing where there is none
  kSyncFolder = 7,  // which names are in this folder ("": the set's own)
};
// What an owner does with its files, in its order. Paths are relative, of parts of letters, digits, '.', '_'
// and '-' that do not begin with '.', and never leave the set's folder.
struct BackingChange {
  BackingOp op = BackingOp::kWrite;
  std::string path;
  std::uint64_t offset = 0, length = 0;
  ByteView bytes;
};
// CHANGE: the owner's calls are numbered from 1; a node carries them out in that order, each once, however
// often and in whatever order they come. Answered when all is carried out, and what it says to sync is
// durable; where something fails the rest of the call is not carried out, and the number is not used up.
//
// After a call that is `whole` the node knows what it has: (the owner's epoch, the call's number). After one
// that is not it does not know, whatever was before. So the owner says it to members, and to others from
// their first call on that finds them filled.
struct BackingChangeArgs {
  BackingOwner owner;
  std::uint64_t number = 0;  // not 0
  bool whole = false;        // all that the set had before this call is on the node that gets it
  std::vector<BackingChange> changes;
};
struct BackingChangeResult {
  BackingStatus status = BackingStatus::kOk;
  std::uint64_t applied = 0;  // the last call that was carried out
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

// READ, LIST and DIGEST are answered when the owner's change `after` is carried out. READ and LIST of an
// owner of epoch 0, which is nobody, are answered with what there is at the moment: for who stands by.
struct BackingReadArgs {
  BackingOwner owner;
  std::string path;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint64_t after = 0;
};
struct BackingReadResult {
  BackingStatus status = BackingStatus::kOk;
  ByteView bytes;  // fewer only at the file's end
};

struct BackingListArgs {
  BackingOwner owner;
  std::string behind;  // the path after which it goes on; empty: from the first
  std::uint64_t after = 0;
};
struct BackingFile {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;  // bytes of disk
};
struct BackingListResult {
  BackingStatus status = BackingStatus::kOk;
  std::vector<BackingFile> files;  // in the order of their paths
  bool end = false;                // these are the last
};

// DIGEST: of each kBackingPiece bytes of a file from `first` on, so many pieces at most.
struct BackingDigestArgs {
  BackingOwner owner;
  std::string path;
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  std::uint64_t after = 0;
};
struct BackingDigestResult {
  BackingStatus status = BackingStatus::kOk;
  std::uint64_t size = 0;              // of the file
  std::vector<std::uint32_t> digests;  // CRC32C; fewer only at the file's end
};

// ---- the manager ----

// A server's set, as the manager keeps it.
struct BackingSet {
  std::uint32_t server = 0;
  BackingEpoch epoch;
  std::uint64_t instance = 0;          // of the owner of that epoch
  std::uint32_t copies = 0;            // that it is to have
  std::uint64_t change = 0;            // of the members, by that owner; 0: they are as it has found them
  std::vector<std::uint32_t> members;  // storage servers with a whole copy, each once; never none
  bool operator==(const BackingSet&) const = default;
};

// BACKING_CLAIM: a run of a server begins, and is to be the owner of its set; the first has the set made. The
// answer is durable, and every epoch is given once. `former`: as in ATTACH; where the set's owner is another
// run, which is alive as far as the manager hears, the claim is refused.
struct BackingClaimArgs {
  std::uint32_t server = 0;
  std::uint64_t instance = 0;
  std::uint64_t former = 0;
  std::uint32_t copies = 0;
};
struct BackingClaimResult {
  std::string refused;  // why there is no epoch; empty: there is one
  bool made = false;    // there was no set before
  BackingSet set;
};
// BACKING_MEMBERS: the owner of the present epoch says who has a whole copy from now on; durable when it is
// answered. Refused from anybody else: who has asked is the owner no more where the epoch has changed. Its
// changes are numbered from 1, each attempt anew: one that comes late changes nothing.
struct BackingMembersArgs {
  BackingOwner owner;
  std::uint64_t change = 0;
  std::vector<std::uint32_t> members;
};
struct BackingMembersResult {
  std::string refused;
  BackingSet set;  // as it is
};
// BACKING_SPARE: a storage server that could have one more copy of this set: not drained, on a host that has
// none, and of those the one with the fewest copies of any set.
struct BackingSpareArgs {
  std::uint32_t server = 0;
};
struct BackingSpareResult {
  bool found = false;
  std::uint32_t storage = 0;
};
struct BackingSetsResult {
  std::vector<BackingSet> sets;  // by server
};
// BACKING_KEEP: the owner says of itself what the manager should know, while it is sure to be the owner.
// Where the manager's state was lost, or is an older one, it takes it over.
struct BackingKeepArgs {
  BackingSet set;
};
struct BackingKeepResult {
  std::string refused;  // empty: the manager has it so
};
// BACKING_ADOPT: an operator says which storage servers have all of a set that the manager does not know, and
// whose owner is no more.
struct BackingAdoptArgs {
  std::uint32_t server = 0;
  std::vector<std::uint32_t> members;
};
using BackingAdoptResult = BackingKeepResult;

// The file of this name in each set: who its members are, as its owner has told the manager. So a manager
// whose state was lost finds out (docs/backing.md). A file of storage/durable_file.h; format:
// docs/formats/backing.md.
inline constexpr std::string_view kBackingMembersFile = "set.members";
inline constexpr std::string_view kBackingMembersNew = "set.members.new";  // before it is renamed
struct BackingMembersFile {
  BackingSet set;
};

// As a part of other messages.
void encode(rpc::XdrWriter& out, const BackingChange& change);
// Likewise, and of the manager's state.
void encode(rpc::XdrWriter& out, const BackingSet& set);
BackingSet decode_backing_set(rpc::XdrReader& in);

// clang-format off
#define SLICE_WIRE_BACKING_MESSAGES(X) \
  X(BackingAttachArgs) \
  X(BackingAttachResult) \
  X(BackingOwnerArgs) \
  X(BackingStatusResult) \
  X(BackingChangeArgs) \
  X(BackingChangeResult) \
  X(BackingReadArgs) \
  X(BackingReadResult) \
  X(BackingListArgs) \
  X(BackingListResult) \
  X(BackingDigestArgs) \
  X(BackingDigestResult) \
  X(BackingClaimArgs) \
  X(BackingClaimResult) \
  X(BackingMembersArgs) \
  X(BackingMembersResult) \
  X(BackingSpareArgs) \
  X(BackingSpareResult) \
  X(BackingSetsResult) \
  X(BackingKeepArgs) \
  X(BackingKeepResult) \
  X(BackingAdoptArgs) \
  X(BackingMembersFile)
// clang-format on
// What is decoded may hold views of `bytes`.
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_BACKING_MESSAGES(X)
#undef X

// Whether a node would take this path; "" is one only as a folder.
bool is_backing_path(std::string_view path);

}  // namespace slice::wire

#endif  // SLICE_WIRE_BACKING_H
