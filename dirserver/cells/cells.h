// Cells: what the directory server stores, and how it is laid out as keys and values. The specification is
// docs/formats/cells.md. Keys begin with the site, so that one store holds many sites and one site can be
// moved; all of a directory's names on a site lie together, in the order READDIR gives them.
#ifndef SLICE_DIRSERVER_CELLS_CELLS_H
#define SLICE_DIRSERVER_CELLS_CELLS_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "common/ids.h"
#include "common/loop.h"
#include "common/quota.h"
#include "common/result.h"
#include "routing/file_handle.h"
#include "rpc/auth.h"
#include "rpc/endpoint.h"
#include "service/caller_key.h"
#include "wire/nfs3_acl.h"

namespace slice::dirserver {

inline constexpr FileId kRootId{1};
inline constexpr SiteId kRootSite{0};

// Where an attribute cell is, and which life of it is meant.
struct CellRef {
  SiteId site;
  FileId fileid;
  std::uint32_t generation = 0;
  auto operator<=>(const CellRef&) const = default;
};

// What a name points to: everything a handle is minted from.
struct Target {
  CellRef cell;
  TreeId tree;
  nfs3::FileType type = nfs3::FileType::kRegular;
  std::uint8_t flags = 0;
  std::uint8_t stripe_shift = 16;
  std::uint64_t cell_key = 0;
  bool operator==(const Target&) const = default;
};
routing::FileHandle handle_of(const Target& target);
Target target_of(const routing::FileHandle& handle);
CellRef cell_of(const routing::FileHandle& handle);

// The authority's record of one file, directory, symbolic link or node.
// How new files in a directory are laid out; 0: as the volume says. New directories inherit it.
struct FilePolicy {
  std::uint8_t stripe_shift = 0;
  std::uint8_t copies = 0;
  std::uint8_t placement = 0;  // else 1 + Placement
  bool operator==(const FilePolicy&) const = default;
};
// Bytes of a regular file that a data server stores, as it told last.
struct StoredPart {
  std::uint32_t server = 0;
  std::uint64_t bytes = 0;
  bool operator==(const StoredPart&) const = default;
};
inline constexpr std::size_t kMaxStoredParts = 4096;
struct AttributeCell {
  Target self;
  std::uint32_t mode = 0;     // 07777
  nfs3::SharedAccess access;  // beside the mode; null: that says all
  std::uint32_t nlink = 1;
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t size = 0;
  std::uint32_t rdev_major = 0, rdev_minor = 0;  // of devices
  nfs3::Time atime, mtime, ctime;
  Epoch epoch;              // how often the size was set
  bool striped = false;     // storage nodes may hold bytes of it
  bool guessed = false;     // `stored`, of a file that was cut
  bool truncating = false;  // its bytes are being cut; a truncation record says how far
  // Set while an exclusively created file has not had its first SETATTR.
  std::optional<std::array<std::uint8_t, 8>> exclusive_verifier;
  nfs3::Time mtime_set;        // when mtime was last set by SETATTR: reports of earlier writes do not move it
  CellRef parent;              // of a directory: what ".." is
  std::uint64_t entries = 0;   // of a directory: its names on its own site, "." and ".." not counted
  FilePolicy policy;           // of a directory
  nfs3::SharedAcl defaults;    // of a directory: the list that what is made in it begins with; null: none
  std::string symlink_target;  // of a symbolic link
  // Of a regular file: by servers, in order. Nothing: it had bytes before servers told what they store.
  std::optional<std::vector<StoredPart>> stored = std::vector<StoredPart>{};

  // A server has told; whether that is new.
  bool note_stored(StoredPart part);
  // Sets the size, under a new epoch. All together store no more than it; of a file that is cut, and not
  // emptied, how much each does is a guess until it is emptied.
  void cut(std::uint64_t to);

  bool directory() const { return self.type == nfs3::FileType::kDirectory; }
  bool regular() const { return self.type == nfs3::FileType::kRegular; }
};
nfs3::Attributes attributes_of(const AttributeCell& cell, VolumeId volume);
QuotaOwners owners_of(const AttributeCell& cell);
// Bytes that it takes, as its attributes say.
std::uint64_t used_by(const AttributeCell& cell);
nfs3::WccAttributes wcc_of(const AttributeCell& cell);

// ---- names ----
// A name's position within its directory is 44 bits of the volume's hash of (directory, name). Names of one
// position share one bucket, each in a slot of its own, taken when it is inserted and never changed. So
// (site, position, slot) is a cookie that no insert, removal, restart or move changes.
inline constexpr unsigned kSlotBits = 4;
inline constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;
inline constexpr unsigned kPositionBits = 44;
struct Position {
  std::uint64_t value = 0;  // 1 .. 2^44 - 1
  auto operator<=>(const Position&) const = default;
};
Position position_of(std::uint64_t name_hash);

// Where a name is, or would be.
struct NamePlace {
  SiteId site;
  CellRef directory;
  Position position;
  std::string_view name;   // the caller's
  std::uint64_t hash = 0;  // of (directory, name), by the volume's hash
};

struct Cookie {
  SiteId site;
  Position position;
  std::uint32_t slot = 0;
  auto operator<=>(const Cookie&) const = default;
};
inline constexpr std::uint64_t kCookieOfDot = 1, kCookieOfDotDot = 2;  // below every entry's
std::uint64_t encode_cookie(const Cookie& cookie);
Cookie decode_cookie(std::uint64_t cookie);

struct NameEntry {
  std::uint32_t slot = 0;
  std::string name;
  Target target;
};
// The names of one position, by slot. Empty: there is no such cell.
struct NameBucket {
  std::vector<NameEntry> entries;
  const NameEntry* find(std::string_view name) const;
  NameEntry* find(std::string_view name);
  void erase(std::string_view name);
  // False where all slots are taken.
  bool insert(std::string_view name, const Target& target);
};

// ---- other records ----
// A client's call, as the duplicate-request cache knows it: the port is not part of it.
struct CallKey {
  IpAddress address;
  Xid xid;
  std::uint32_t procedure = 0;
  std::uint32_t checksum = 0;  // CRC-32C of the arguments
  service::CallerKey caller;   // in a record of before there was this: all zeros, which is nobody's
  auto operator<=>(const CallKey&) const = default;
};
struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const;
};
struct DuplicateRecord {
  CallKey call;
  WallTime at;
  std::string reply;  // the results as they were answered
};
// A truncation that is committed and not yet carried out everywhere.
struct TruncationRecord {
  Target file;
  std::uint64_t size = 0;
  Epoch epoch;
  bool striped = false;
  CallKey call;                // the SETATTR to answer when it is done
  nfs3::WccAttributes before;  // its pre-operation attributes
  nfs3::Time changed;          // the ctime it gave the file
};
// A file without names whose bytes are still to be freed.
struct ReclaimRecord {
  Target file;
  bool striped = false;
};
// The names of a directory on a site that is not the directory's own: name hashing alone has such. There is
// none where there are no names.
struct PartCell {
  CellRef directory;
  std::uint64_t entries = 0;
  std::uint64_t subdirectories = 0;
  bool operator==(const PartCell&) const = default;
};
// What a directory's own site knows of a part, in its nlink already.
struct KnownPart {
  std::uint64_t version = 0;  // a larger one is newer
  std::uint64_t subdirectories = 0;
};
// The directory's own site has not confirmed yet that it knows of a change of its names here.
struct OwedTouch {
  CellRef directory;
  std::uint64_t version = 0;  // of the number of subdirectories; 0: only its mtime is to move
};

// One change that touches several servers (across/initiator.h), by the site that it was begun on.
struct TransactionId {
  SiteId site;
  std::uint64_t incarnation = 0;  // of the process that began it; random
  std::uint64_t sequence = 0;
  auto operator<=>(const TransactionId&) const = default;
};
// Begun on this site, decided, and not yet known to be carried out by all of these sites' servers.
struct IntentionRecord {
  TransactionId id;
  std::vector<SiteId> participants;
};
// A CREATE that sets the size of a file that exists: decided, not yet answered (background/cuts.h).
struct CutRecord {
  TransactionId id;  // holds the name; its site is that of the record
  CallKey call;
  rpc::Endpoint client;
  std::optional<rpc::AuthSys> credential;
  FileId directory;
  Position position;
  Target file;
  std::uint64_t size = 0;
  nfs3::Time changed;  // the file's ctime when it was decided
};

// ---- keys ----
enum class CellKind : char {
  kAttributes = 'A',
  kCut = 'C',
  kDuplicate = 'D',
  kFormat = 'F',
  kIntention = 'I',
  kKnownPart = 'K',
  kClientLocks = 'L',
  kName = 'N',
  kOwedTouch = 'O',
  kPart = 'P',
  kReclaim = 'R',
  kSequence = 'S',
  kTruncation = 'T',
  kPrepared = 'W',
};
std::string attribute_key(SiteId site, FileId file);
std::string name_key(SiteId site, FileId directory, Position position);
std::string sequence_key(SiteId site);
std::string duplicate_key(SiteId site, std::uint64_t order);
std::string truncation_key(SiteId site, FileId file);
std::string client_locks_key(SiteId site, FileId file);
std::string cut_key(const TransactionId& id);
std::string reclaim_key(SiteId site, FileId file);
std::string part_key(SiteId site, FileId directory);
std::string known_part_key(SiteId own_site, FileId directory, SiteId part_site);
std::string owed_touch_key(SiteId site, FileId directory);
std::string prepared_key(SiteId site, const TransactionId& id);
std::string intention_key(const TransactionId& id);
std::string format_key();
// All keys of one kind on one site are in [begin, end).
struct KeyRange {
  std::string begin, end;
};
KeyRange range_of(SiteId site, CellKind kind);
KeyRange range_of_directory(SiteId site, FileId directory);
KeyRange range_of_known_parts(SiteId own_site, FileId directory);
// All keys of the site.
KeyRange range_of(SiteId site);
// The site that the key belongs to: for the format's, one that there is not.
SiteId site_of_key(std::string_view key);
// Of a key that is of a site.
CellKind kind_of_key(std::string_view key);
// The position in a name cell's key, the number at the end of any other.
std::uint64_t last_number(std::string_view key);

// What the format's key has: of a volume, what must not change in the life of a store, since where names are
// depends on it.
std::string format_text(const VolumeConfig& volume, std::uint32_t sites);

// ---- values: encode never fails; decode answers kCorrupt with what was wrong ----
std::string encode(const AttributeCell& cell);
std::string encode(const NameBucket& bucket);
std::string encode(const DuplicateRecord& record);
std::string encode(const TruncationRecord& record);
std::string encode(const CutRecord& record);
std::string encode(const ReclaimRecord& record);
std::string encode(const PartCell& part);
std::string encode(const KnownPart& known);
std::string encode(const OwedTouch& owed);
std::string encode(const IntentionRecord& record);
std::string encode_number(std::uint64_t number);
Result<AttributeCell> decode_attribute_cell(SiteId site, std::string_view value);
Result<NameBucket> decode_name_bucket(std::string_view value);
Result<DuplicateRecord> decode_duplicate(std::string_view value);
Result<TruncationRecord> decode_truncation(std::string_view value);
Result<CutRecord> decode_cut(std::string_view value);
Result<ReclaimRecord> decode_reclaim(std::string_view value);
Result<PartCell> decode_part(std::string_view value);
Result<KnownPart> decode_known_part(std::string_view value);
Result<OwedTouch> decode_owed_touch(std::string_view value);
Result<IntentionRecord> decode_intention(std::string_view value);
Result<std::uint64_t> decode_number(std::string_view value);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELLS_CELLS_H
