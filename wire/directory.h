// The directory program: what directory servers ask of one another. Cells travel as they are stored
// (docs/formats/cells.md): this header does not look into them.
#ifndef SLICE_WIRE_DIRECTORY_H
#define SLICE_WIRE_DIRECTORY_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "wire/internal.h"
#include "wire/moves.h"
#include "wire/nfs3.h"

namespace slice::wire {

enum class DirectoryProcedure : std::uint32_t {
  kNull = 0,
  kLock = 1,
  kPrepare = 2,
  kFinish = 3,
  kOutcome = 4,
  kRead = 5,
  kTouch = 6,
  kRevoke = 7,
  kList = 8,
  kOwner = 9,
  kCells = 10
};

enum class PeerStatus : std::uint32_t {
  kOk = 0,
  kRefused = 1,      // LOCK: an older change holds it; PREPARE: the locks are gone. Begin again
  kMisdirected = 2,  // this server does not own the site; by OWNER it tells who does
  kFailed = 3,       // the store could not be read or written
  kStale = 4,        // there is no such cell
};

struct TransactionName {
  SiteId site;
  std::uint64_t incarnation = 0;
  std::uint64_t sequence = 0;
};
struct CellName {
  SiteId site;
  FileId file;
  std::uint32_t generation = 0;
};

// LOCK: takes the locks, waiting for younger owners, and answers what they protect. Asked again by the same
// owner it answers anew.
struct LockItem {
  enum class Kind : std::uint32_t {
    kCell = 0,  // value: the attribute cell; empty: there is none
    // value: its target; empty: there is no such name; kPositionFull: nor is there room for it. `cell` is the
    // directory, its site the name's
    kName = 1,
    kPart = 2,    // value: a PartNames
    kRename = 3,  // the volume's lock of directory renames; at the server of site 0
    kNew = 4,     // value: a fileID of the site `cell` for a new cell, 8 bytes; empty: it takes none now
  };
  Kind kind = Kind::kCell;
  bool exclusive = false;
  CellName cell;
  std::uint64_t position = 0;  // of a name
  std::string name;
};
inline constexpr std::string_view kPositionFull = "full";
// A set of sites: those that a server had when it answered. Sites move, so that answers of several servers
// need not be of all sites.
struct SiteSet {
  std::vector<bool> has;  // by site; those behind are not in it
  void add(SiteId site);
  void add(const SiteSet& other);
  bool contains(SiteId site) const { return site.value < has.size() && has[site.value]; }
};
// How many names of the directory are on these sites, which are all that the server has.
struct PartNames {
  std::uint64_t entries = 0;
  SiteSet sites;
};
std::string encode_value(const PartNames& names);
bool decode_value(std::string_view value, PartNames& out);
struct LockArgs {
  TransactionName id;
  std::uint64_t age = 0;
  std::vector<LockItem> items;
};
struct LockResult {
  PeerStatus status = PeerStatus::kOk;
  // kOk. Of the process that gave the locks: another one than before has lost those it gave.
  std::uint64_t incarnation = 0;
  std::vector<std::string> values;  // one an item
};

// PREPARE: notes durably what this server's sites are to do. kOk is a promise to do it when told so.
struct PreparedPart {
  SiteId site;
  std::string record;
};
struct PrepareArgs {
  TransactionName id;
  std::vector<PreparedPart> parts;
};
// FINISH: does it, or forgets it, and gives the locks back; durable when answered. `site`: the one that takes
// part: what was promised for it may have moved since.
struct FinishArgs {
  TransactionName id;
  bool commit = false;
  SiteId site;
};
struct PeerResult {
  PeerStatus status = PeerStatus::kOk;
};

// OUTCOME: asked at the site where the change was begun.
enum class TransactionOutcome : std::uint32_t { kRunning = 0, kCommitted = 1, kAborted = 2 };
struct OutcomeArgs {
  TransactionName id;
};
struct OutcomeResult {
  PeerStatus status = PeerStatus::kOk;
  TransactionOutcome outcome = TransactionOutcome::kRunning;
};

// READ: an attribute cell, as it is when nothing is about to change it. `lease`: of a directory: until the
// caller is told otherwise (REVOKE, LOCK) or kLease has passed since it asked, nobody but its own site's
// server changes who may do what in it.
inline constexpr std::uint32_t kLeaseMilliseconds = 2000;
struct CellReadArgs {
  CellName cell;
  bool lease = false;
};
struct CellResult {
  PeerStatus status = PeerStatus::kOk;
  std::string cell;
};

// TOUCH: names of the directory changed on another site. Answers the directory's cell as a lease.
struct TouchArgs {
  CellName directory;
  SiteId part;
  std::uint64_t version = 0;  // 0: nothing is said of subdirectories
  std::uint64_t subdirectories = 0;
};
// REVOKE: a lease ends.
struct RevokeArgs {
  FileId directory;
};

// LIST: names of the directory on this server's sites, behind the cookie, in the order of cookies.
struct ListArgs {
  CellName directory;
  std::uint64_t after = 0;
  std::uint32_t bytes = 0;  // of names and what comes with them, about
  bool attributes = false;
};
struct ListedName {
  FileId file;
  std::string name;
  std::uint64_t cookie = 0;
  std::string handle;  // empty: none
  nfs3::PostOpAttributes attributes;
};
struct ListResult {
  PeerStatus status = PeerStatus::kOk;
  bool end = false;  // no name of this server is behind these
  SiteSet sites;     // that were looked at
  std::vector<ListedName> names;
};

// OWNER: asked of a server that answered kMisdirected: who has the site, as far as it knows.
struct OwnerArgs {
  SiteId site;
};
struct OwnerResult {
  PeerStatus status = PeerStatus::kOk;
  std::uint32_t server = 0;
};

// CELLS: the next change of what a moving site's new owner has of it (docs/moves.md), by the old one. The
// changes of an attempt are numbered from 1: one that comes twice is done once.
struct CellChange {
  std::string key;
  std::optional<std::string> value;  // none: there is none any more
};
inline constexpr std::size_t kMaxCellChanges = 4096;
struct CellsArgs {
  MoveId move;
  std::uint64_t attempt = 0, number = 0;
  std::vector<CellChange> changes;  // at most kMaxCellChanges
};

// clang-format off
#define SLICE_WIRE_DIRECTORY_MESSAGES(X) \
  X(LockArgs) \
  X(LockResult) \
  X(PrepareArgs) \
  X(FinishArgs) \
  X(PeerResult) \
  X(OutcomeArgs) \
  X(OutcomeResult) \
  X(CellReadArgs) \
  X(CellResult) \
  X(TouchArgs) \
  X(RevokeArgs) \
  X(ListArgs) \
  X(ListResult) \
  X(OwnerArgs) \
  X(OwnerResult) \
  X(CellsArgs)
// clang-format on
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_DIRECTORY_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_DIRECTORY_H
