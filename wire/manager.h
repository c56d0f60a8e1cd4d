// The manager program of slice-managerd: membership, tables, verifiers. Of several managers the one that
// leads (wire/leader.h) answers; from the others the answer to everything else is SYSTEM_ERR.
#ifndef SLICE_WIRE_MANAGER_H
#define SLICE_WIRE_MANAGER_H

#include <string>
#include <vector>

#include "common/ids.h"
#include "rpc/endpoint.h"
#include "wire/internal.h"
#include "wire/nfs3.h"

namespace slice::wire {

enum class ManagerProcedure : std::uint32_t {
  kNull = 0,
  kHeartbeat = 1,
  kDrawVerifier = 2,
  kGetTables = 3,
  kMembers = 4,
  kOfferTables = 5,
  kClaim = 6,
  kChangeServer = 7,
  kMoveSites = 8,  // this and the next two: wire/moves.h
  kMoves = 9,
  kChangeMoves = 10,
  kGetConfiguration = 11,  // this and the next: wire/configuration.h
  kGetState = 12,
  kLeader = 13,        // wire/leader.h
  kBackingClaim = 14,  // this and the next three: wire/backing.h
  kBackingMembers = 15,
  kBackingSpare = 16,
  kBackingSets = 17,
  kHoldAddress = 18,  // wire/address.h
  kStandby = 19,      // this and the next two: wire/failover.h
  kFailover = 20,
  kStandbys = 21,
  kBackingKeep = 22,  // this and the next: wire/backing.h
  kBackingAdopt = 23,
  kShareClients = 24,  // wire/share.h
  kQuotaReport = 25,   // this and the next two: wire/quota.h
  kChangeQuota = 26,
  kQuotaUsage = 27,
  kChangeTree = 28  // wire/trees.h
};

enum class Role : std::uint32_t {
  kDirectory = 0,
  kSmallFile = 1,
  kStorage = 2,
  kCoordinator = 3,
  kManager = 4,
  kProxy = 5,
  kRemoved = 6  // no member any more: what keeps its number from ever being another's
};
inline constexpr std::uint32_t kSiteClasses = 4;  // the first four roles have sites
// "directory", "small-file", "storage", "coordinator", "manager", "proxy", "removed"
std::string_view role_name(Role role);

// What a process knows of which server has which site.
enum class Holding : std::uint32_t {
  kNothing = 0,  // no tables; and nothing stored by other tables: it never served, or stores nothing
  kData = 1,     // no tables, but its data directory holds what it served by tables that are lost
  kTables = 2,   // the manager's, as it had them last
  kHints = 3     // a proxy: those of its pinned maps, which anybody may have changed by hand
};

// HEARTBEAT: every process, once a second. `server`: its index in the ensemble's configuration.
struct HeartbeatArgs {
  std::uint32_t server = 0;
  std::uint64_t pid = 0;
  std::uint64_t started_ns = 0;     // wall clock
  Generation generation;            // of the tables it has; 0: none
  std::uint64_t tables_digest = 0;  // digest() of them; 0: none
  Holding holding = Holding::kNothing;
  std::uint64_t record_digest = 0;  // digest() of the sites in its record; 0: it has none
  Verifier largest_seen;
  std::uint64_t free_bytes = 0, total_bytes = 0;  // of its data directory; 0 where it has none
  std::uint64_t objects = 0;    // of a directory server: files, directories, ... of its sites
  std::string state;            // "serving", "starting", "read-only: no space", ...; at most 255 bytes
  std::string detail;           // role's own line for status, e.g. the proxy's XDP mode; at most 255 bytes
  SettingsGeneration settings;  // that it goes by; 0: those of its own file
  std::uint64_t settings_digest = 0;  // digest() of them (wire/settings.h)
};
// As a part of other messages.
HeartbeatArgs decode_heartbeat(rpc::XdrReader& in);
struct HeartbeatResult {
  Generation generation;  // 0: the manager has no tables, and finds out which ones are in use
  Verifier largest_drawn;
  bool offer = false;           // the process is to offer its tables
  bool claim = false;           // and to claim what its record says
  SettingsGeneration settings;  // in force; 0: not known yet
};

struct DrawVerifierArgs {
  std::uint32_t server = 0;
};
struct DrawVerifierResult {
  Verifier verifier;
};  // larger than every one drawn before; durable

struct ServerEntry {
  std::uint32_t server = 0;
  Role role = Role::kDirectory;
  rpc::Endpoint endpoint;  // of a removed one: none
  std::string name;
  std::uint64_t weight = 0;  // its share of sites; 0: the bytes of its disk
  std::string host = {};     // what fails together: servers of one host, and of one rack; empty: not said
  std::string rack = {};
  bool drained = false;   // it is to have no sites
  Generation since = {};  // of the tables that had it first; 0: since the volume's birth
  // Of a storage server that was declared lost, with all that it had (docs/operations.md): drawn when that
  // was, so that every COMMIT after it is answered with a later verifier than that server ever gave. 0: no.
  Verifier lost = {};
  // Of a storage server that has none of the layout_sites: it was there, and stripes of files with a layout
  // may be (docs/block-maps.md).
  bool started = false;
};
// GET_TABLES: servers by index, and for each site class the server index of every site. A server that was
// removed stays as an entry of that role, with the name that it had.
struct Tables {
  Generation generation;
  std::vector<ServerEntry> servers;
  std::vector<std::uint32_t> sites[kSiteClasses];
  // Where files that have a layout (mirrored, block-mapped) have each storage site: moves of sites leave them
  // where they are. Empty: where `sites` has it.
  std::vector<std::uint32_t> layout_sites = {};
};
// The member with this name; null: there is none, or no more.
const ServerEntry* find_member(const Tables& tables, std::string_view name);
ServerEntry* find_member(Tables& tables, std::string_view name);
// Before a storage site is bound otherwise: files with a layout stay where the site was.
void keep_layout_sites(Tables& tables);
// Equal for equal tables, and else hardly ever.
std::uint64_t digest(const Tables& tables);

// The sites of its class that a server has by these tables, in order; none where they do not name it.
std::vector<std::uint32_t> sites_of(const Tables& tables, std::string_view server);
// The same of those that it has for files with a layout.
std::vector<std::uint32_t> layout_sites_of(const Tables& tables, std::string_view server);
// Of the sites of a server, in order; never 0.
std::uint64_t digest(const std::vector<std::uint32_t>& sites);

// A site in a server's record (service/ownership.h), and the generation of the tables since which it is
// there.
struct OwnedSite {
  std::uint32_t site = 0;
  Generation since;
  auto operator<=>(const OwnedSite&) const = default;
};
std::vector<std::uint32_t> numbers_of(const std::vector<OwnedSite>& sites);
// In order; as CLAIM and the record have them. decode fails the reader where they are too many or out of
// order.
void encode(rpc::XdrWriter& out, const std::vector<OwnedSite>& sites);
std::vector<OwnedSite> decode_owned_sites(rpc::XdrReader& in);
// CLAIM: what a server's record says, before it serves and where the manager asks; or that it has none, and
// whether its data directory is one that it served from.
struct ClaimArgs {
  std::uint32_t server = 0;
  bool has_record = false, has_data = false;
  std::uint64_t version = 0;     // of the record, which grows: an older one says nothing
  std::vector<OwnedSite> sites;  // in order
  // Of a storage server: the sites that it has for files with a layout, in order.
  std::vector<std::uint32_t> layout_sites = {};
};
enum class ClaimVerdict : std::uint32_t {
  kTaken = 0,  // the manager has noted durably that there is a record
  kGrant = 1,  // no record: the sites that it has by the tables of `generation` are to be in it
  kLost = 2    // it had a record, and has neither that nor its data any more: it must not serve
};
struct ClaimResult {
  ClaimVerdict verdict = ClaimVerdict::kTaken;
  Generation generation;
};

enum class ServerChange : std::uint32_t {
  kAdd = 0,     // one more member
  kSet = 1,     // of one of them what `fields` names
  kDrain = 2,   // it is to have no sites: a plan gives it none
  kUse = 3,     // it may have some again
  kRemove = 4,  // it is no member any more; kInvalid while it has anything
  kLose = 5     // of a storage server: its data is gone, for good; it is drained, too
};
// CHANGE_SERVER: by the name in `entry`, whose number does not count, and of the last four nothing else;
// what is asked for may be so already.
struct ChangeServerArgs {
  enum Field : std::uint32_t { kEndpoint = 1, kWeight = 2, kHost = 4, kRack = 8, kAll = 15 };
  ServerChange change = ServerChange::kAdd;
  ServerEntry entry;
  std::uint32_t fields =
      kEndpoint;  // what is said of it: kSet leaves the rest, kAdd of one that is there, too
};
struct ChangeServerResult {
  std::string refused;  // why nothing was changed; empty: it is so, durably
  ServerEntry entry;    // as the tables of `generation` have it
  Generation generation;
};

// OFFER_TABLES: the tables a process has, for a manager that has none, or older ones.
struct OfferTablesArgs {
  std::uint32_t server = 0;
  Tables tables;
};
struct OfferTablesResult {
  bool taken = false;  // it can use them; they need not be in force
};
struct Member {
  ServerEntry entry;
  HeartbeatArgs last;
  std::uint64_t age_ms = 0;  // of the last heartbeat
  bool alive = false;
};
// A heartbeat comes each second: who was not heard of for so long has missed one.
inline constexpr std::uint64_t kMissedHeartbeatMs = 2000;
struct MembersResult {
  Generation generation;
  SettingsGeneration settings;  // in force
  std::vector<Member> members;
};

// What tables in files have, which may be of a version before.
enum class TablesForm {
  kUnmoved,  // of before sites could be moved: without layout_sites
  kPlaces,   // of before servers had more than a role, an endpoint and a name
  kUnlost,   // of before servers could be declared lost
  kOfBirth,  // of before storage servers that came later had anything of files with a layout
  kNow       // as encode() writes them
};
bool decode(ByteView bytes, TablesForm form, Tables& out);

#define SLICE_WIRE_MANAGER_MESSAGES(X) \
  X(HeartbeatArgs)                     \
  X(HeartbeatResult)                   \
  X(DrawVerifierArgs)                  \
  X(DrawVerifierResult)                \
  X(Tables)                            \
  X(OfferTablesArgs)                   \
  X(OfferTablesResult) X(ClaimArgs) X(ClaimResult) X(ChangeServerArgs) X(ChangeServerResult) X(MembersResult)
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_MANAGER_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_MANAGER_H
