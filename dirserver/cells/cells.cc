#include "dirserver/cells/cells.h"

#include <algorithm>
#include <utility>

#include "bpf/shared/limits.h"
#include "bpf/shared/nfs_offsets.h"

namespace slice::dirserver {

static_assert(SLICE_COOKIE_SITE_SHIFT == kPositionBits + kSlotBits, "proxies find the site in the cookie");

routing::FileHandle handle_of(const Target& target) {
  return {.type = target.type,
          .flags = target.flags,
          .stripe_shift = target.stripe_shift,
          .fileid = target.cell.fileid,
          .tree = target.tree,
          .directory_site = target.cell.site,
          .generation = target.cell.generation,
          .cell_key = target.cell_key,
          .hint = {}};
}

Target target_of(const routing::FileHandle& handle) {
  return {.cell = cell_of(handle),
          .tree = handle.tree,
          .type = handle.type,
          .flags = handle.flags,
          .stripe_shift = handle.stripe_shift,
          .cell_key = handle.cell_key};
}

QuotaOwners owners_of(const AttributeCell& cell) {
  return {cell.uid, cell.gid, cell.self.tree};
}

CellRef cell_of(const routing::FileHandle& handle) {
  return {handle.directory_site, handle.fileid, handle.generation};
}

namespace {

constexpr std::uint64_t kDirectorySize = 4096;
constexpr std::uint64_t kBlock = 4096, kSector = 512;

// Whole blocks: what a file without holes takes.
std::uint64_t whole(const AttributeCell& cell) {
  return cell.size > ~std::uint64_t{0} - kBlock ? cell.size : (cell.size + kBlock - 1) / kBlock * kBlock;
}

std::uint64_t sum_of(const std::vector<StoredPart>& stored) {
  std::uint64_t sum = 0;
  for (const StoredPart& part : stored) sum += std::min(part.bytes, ~std::uint64_t{0} - sum);
  return sum;
}

// rdev.specdata2 of a regular file (docs/formats/file-handle.md, "Room").
std::uint32_t site_and_times(const AttributeCell& cell) {
  return cell.self.cell.site.value | (cell.mtime_set >= cell.mtime ? SLICE_MTIME_SET : 0);
}

}  // namespace

// Never 0 where there may be bytes, which servers tell a second late: there are programs (tar among them)
// that take such a file for one hole, and do not read it. Copies count, as far as a file without holes takes.
std::uint64_t used_by(const AttributeCell& cell) {
  switch (cell.self.type) {
    case nfs3::FileType::kRegular:
      if (cell.size == 0 || !cell.stored) return whole(cell);
      return std::clamp(sum_of(*cell.stored), kSector, whole(cell));
    case nfs3::FileType::kDirectory:
      return kDirectorySize;
    default:
      return 0;
  }
}

nfs3::Attributes attributes_of(const AttributeCell& cell, VolumeId volume) {
  nfs3::Attributes out;
  out.type = cell.self.type;
  out.mode = cell.mode;
  out.nlink = cell.nlink;
  out.uid = cell.uid;
  out.gid = cell.gid;
  out.size = cell.directory() ? kDirectorySize : cell.size;
  out.used = used_by(cell);
  out.rdev_major = cell.regular() ? cell.epoch.value : cell.rdev_major;
  out.rdev_minor = cell.regular() ? site_and_times(cell) : cell.rdev_minor;
  out.fsid = volume.value;
  out.fileid = cell.self.cell.fileid;
  out.atime = cell.atime;
  out.mtime = cell.mtime;
  out.ctime = cell.ctime;
  return out;
}

bool AttributeCell::note_stored(StoredPart part) {
  if (!stored) return false;
  auto at =
      std::lower_bound(stored->begin(), stored->end(), part.server,
                       [](const StoredPart& each, std::uint32_t server) { return each.server < server; });
  if (at != stored->end() && at->server == part.server) {
    return std::exchange(at->bytes, part.bytes) != part.bytes;
  }
  if (part.bytes == 0 || stored->size() >= kMaxStoredParts) return false;
  stored->insert(at, part);
  return true;
}

void AttributeCell::cut(std::uint64_t to) {
  guessed = to > 0 && (guessed || to < size);
  size = to;
  ++epoch.value;
  if (size == 0) stored.emplace();
  if (!stored) return;
  const std::uint64_t sum = sum_of(*stored), left = whole(*this);
  if (sum <= left) return;
  // Who stores how much of the rest, they tell when they are written to.
  for (StoredPart& part : *stored) {
    part.bytes = static_cast<std::uint64_t>(static_cast<long double>(part.bytes) / sum * left);
  }
}

nfs3::WccAttributes wcc_of(const AttributeCell& cell) {
  return {.size = cell.directory() ? kDirectorySize : cell.size, .mtime = cell.mtime, .ctime = cell.ctime};
}

Position position_of(std::uint64_t name_hash) {
  // The upper bits: under name hashing the lower ones are the same for every name of a site.
  return Position{std::max<std::uint64_t>(name_hash >> (64 - kPositionBits), 1)};
}

std::uint64_t encode_cookie(const Cookie& cookie) {
  return std::uint64_t{cookie.site.value} << (kPositionBits + kSlotBits) |
         cookie.position.value << kSlotBits | cookie.slot;
}

Cookie decode_cookie(std::uint64_t cookie) {
  constexpr std::uint64_t position_mask = (std::uint64_t{1} << kPositionBits) - 1;
  return {SiteId{static_cast<std::uint32_t>(cookie >> (kPositionBits + kSlotBits))},
          Position{cookie >> kSlotBits & position_mask}, static_cast<std::uint32_t>(cookie & (kSlots - 1))};
}

const NameEntry* NameBucket::find(std::string_view name) const {
  auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

NameEntry* NameBucket::find(std::string_view name) {
  return const_cast<NameEntry*>(static_cast<const NameBucket*>(this)->find(name));
}

void NameBucket::erase(std::string_view name) {
  std::erase_if(entries, [&](const NameEntry& entry) { return entry.name == name; });
}

bool NameBucket::insert(std::string_view name, const Target& target) {
  std::uint32_t slot = 0;
  auto at = entries.begin();
  for (; at != entries.end() && at->slot == slot; ++at) ++slot;
  if (slot >= kSlots) return false;
  entries.insert(at, NameEntry{slot, std::string(name), target});
  return true;
}

std::size_t CallKeyHash::operator()(const CallKey& key) const {
  std::uint64_t mixed =
      (key.address.low() << 32 ^ key.address.high() * 0xff51afd7ed558ccdull ^ key.xid.value) *
      0x9e3779b97f4a7c15ull;
  mixed +=
      (std::uint64_t{key.caller.uid} << 32 | (key.caller.gid ^ key.caller.groups)) * 0xc2b2ae3d27d4eb4full;
  return static_cast<std::size_t>(mixed ^ (mixed >> 29) ^ (std::uint64_t{key.checksum} << 8) ^ key.procedure);
}

namespace {

std::string key_start(SiteId site, CellKind kind, std::size_t numbers) {
  std::string key(5 + 8 * numbers, '\0');
  auto* at = reinterpret_cast<std::uint8_t*>(key.data());
  store_be(at, site.value);
  at[4] = static_cast<std::uint8_t>(kind);
  return key;
}

template <class... Numbers>
std::string key_of(SiteId site, CellKind kind, Numbers... numbers) {
  std::string key = key_start(site, kind, sizeof...(numbers));
  auto* at = reinterpret_cast<std::uint8_t*>(key.data()) + 5;
  ((store_be(at, static_cast<std::uint64_t>(numbers)), at += 8), ...);
  return key;
}

}  // namespace

std::string attribute_key(SiteId site, FileId file) {
  return key_of(site, CellKind::kAttributes, file.value);
}

std::string name_key(SiteId site, FileId directory, Position position) {
  return key_of(site, CellKind::kName, directory.value, position.value);
}

std::string sequence_key(SiteId site) {
  return key_start(site, CellKind::kSequence, 0);
}
std::string duplicate_key(SiteId site, std::uint64_t order) {
  return key_of(site, CellKind::kDuplicate, order);
}
std::string truncation_key(SiteId site, FileId file) {
  return key_of(site, CellKind::kTruncation, file.value);
}
std::string client_locks_key(SiteId site, FileId file) {
  return key_of(site, CellKind::kClientLocks, file.value);
}
std::string cut_key(const TransactionId& id) {
  return key_of(id.site, CellKind::kCut, id.incarnation, id.sequence);
}
std::string reclaim_key(SiteId site, FileId file) {
  return key_of(site, CellKind::kReclaim, file.value);
}
std::string part_key(SiteId site, FileId directory) {
  return key_of(site, CellKind::kPart, directory.value);
}
std::string known_part_key(SiteId own_site, FileId directory, SiteId part_site) {
  return key_of(own_site, CellKind::kKnownPart, directory.value, part_site.value);
}
std::string owed_touch_key(SiteId site, FileId directory) {
  return key_of(site, CellKind::kOwedTouch, directory.value);
}
std::string prepared_key(SiteId site, const TransactionId& id) {
  return key_of(site, CellKind::kPrepared, id.incarnation, id.sequence, id.site.value);
}
std::string intention_key(const TransactionId& id) {
  return key_of(id.site, CellKind::kIntention, id.incarnation, id.sequence);
}
std::string format_key() {
  return key_start(SiteId{0xffffffff}, CellKind::kFormat, 0);
}

std::string format_text(const VolumeConfig& volume, std::uint32_t sites) {
  return fmt::format(
      "cells 1 volume={} policy={} hash={} sites={}", volume.id.value,
      volume.policy == VolumeConfig::NamePolicy::kNameHashing ? "name-hashing" : "mkdir-switching",
      volume.hash == VolumeConfig::NameHash::kMd5 ? "md5" : "siphash13", sites);
}

KeyRange range_of(SiteId site) {
  std::string begin(4, '\0'), end(4, '\0');
  store_be(reinterpret_cast<std::uint8_t*>(begin.data()), site.value);
  store_be(reinterpret_cast<std::uint8_t*>(end.data()), site.value + 1);
  return {std::move(begin), std::move(end)};
}

SiteId site_of_key(std::string_view key) {
  if (key.size() < 5) return SiteId{0xffffffff};
  return SiteId{load_be<std::uint32_t>(reinterpret_cast<const std::uint8_t*>(key.data()))};
}

CellKind kind_of_key(std::string_view key) {
  return static_cast<CellKind>(key[4]);
}

KeyRange range_of(SiteId site, CellKind kind) {
  std::string begin = key_start(site, kind, 0);
  std::string end = begin;
  ++end.back();
  return {std::move(begin), std::move(end)};
}

KeyRange range_of_directory(SiteId site, FileId directory) {
  std::string begin = key_of(site, CellKind::kName, directory.value);
  std::string end = key_of(site, CellKind::kName, directory.value + 1);
  return {std::move(begin), std::move(end)};
}

KeyRange range_of_known_parts(SiteId own_site, FileId directory) {
  std::string begin = key_of(own_site, CellKind::kKnownPart, directory.value);
  std::string end = key_of(own_site, CellKind::kKnownPart, directory.value + 1);
  return {std::move(begin), std::move(end)};
}

std::uint64_t last_number(std::string_view key) {
  if (key.size() < 13) return 0;
  return load_be<std::uint64_t>(reinterpret_cast<const std::uint8_t*>(key.data()) + key.size() - 8);
}

}  // namespace slice::dirserver
