// The values of cells: docs/formats/cells.md.
#include "dirserver/cells/cells_codec.h"

namespace slice::dirserver {
namespace {

// Flags of an attribute cell.
constexpr std::uint8_t kStriped = 1, kTruncating = 2, kExclusive = 4, kStored = 8, kGuessed = 16,
                       kAccess = 32, kDefaults = 64;
constexpr std::uint8_t kNoMask = 8;  // where a list's mask would stand

bool tells_stored(const AttributeCell& cell) {
  return cell.regular() && cell.stored;
}

void write_stored(CellWriter& out, const std::vector<StoredPart>& stored) {
  out.number(static_cast<std::uint16_t>(stored.size()));
  for (const StoredPart& part : stored) {
    out.number(part.server);
    out.number(part.bytes);
  }
}

std::vector<StoredPart> read_stored(CellReader& in) {
  std::vector<StoredPart> stored;
  for (unsigned left = in.number<std::uint16_t>(); left > 0 && in.ok(); --left) {
    StoredPart part;
    part.server = in.number<std::uint32_t>();
    part.bytes = in.number<std::uint64_t>();
    stored.push_back(part);
  }
  return stored;
}

void write_named(CellWriter& out, const std::vector<nfs3::NamedAccess>& named) {
  out.number(static_cast<std::uint16_t>(named.size()));
  for (const nfs3::NamedAccess& entry : named) {
    out.number(entry.id);
    out.number(entry.permissions);
  }
}

std::uint8_t read_permissions(CellReader& in) {
  const auto permissions = in.number<std::uint8_t>();
  if (permissions > 7) in.fail();
  return permissions;
}

std::vector<nfs3::NamedAccess> read_named(CellReader& in) {
  std::vector<nfs3::NamedAccess> named;
  for (unsigned left = in.number<std::uint16_t>(); left > 0 && in.ok(); --left) {
    nfs3::NamedAccess entry;
    entry.id = in.number<std::uint32_t>();
    entry.permissions = read_permissions(in);
    if (!named.empty() && named.back().id >= entry.id) in.fail();
    named.push_back(entry);
  }
  return named;
}

// What both kinds of lists have; `List`: nfs3::ExtendedAccess, nfs3::Acl.
template <class List>
void write_group_and_names(CellWriter& out, const List& list) {
  out.number(list.group);
  write_named(out, list.users);
  write_named(out, list.groups);
}

template <class List>
void read_group_and_names(CellReader& in, List& list) {
  list.group = read_permissions(in);
  list.users = read_named(in);
  list.groups = read_named(in);
}

nfs3::SharedAccess read_access(CellReader& in) {
  nfs3::ExtendedAccess access;
  read_group_and_names(in, access);
  return std::make_shared<const nfs3::ExtendedAccess>(std::move(access));
}

void write_defaults(CellWriter& out, const nfs3::Acl& acl) {
  out.number(acl.owner);
  out.number(acl.mask.value_or(kNoMask));
  out.number(acl.other);
  write_group_and_names(out, acl);
}

nfs3::SharedAcl read_defaults(CellReader& in) {
  nfs3::Acl acl;
  acl.owner = read_permissions(in);
  if (const auto mask = in.number<std::uint8_t>(); mask < kNoMask) {
    acl.mask = mask;
  } else if (mask > kNoMask) {
    in.fail();
  }
  acl.other = read_permissions(in);
  read_group_and_names(in, acl);
  if (!acl.mask && (!acl.users.empty() || !acl.groups.empty())) in.fail();
  return std::make_shared<const nfs3::Acl>(std::move(acl));
}

std::uint8_t flags_of(const AttributeCell& cell) {
  return static_cast<std::uint8_t>(
      (cell.striped ? kStriped : 0) | (cell.truncating ? kTruncating : 0) |
      (cell.exclusive_verifier ? kExclusive : 0) | (tells_stored(cell) ? kStored : 0) |
      (cell.regular() && cell.guessed ? kGuessed : 0) | (cell.access ? kAccess : 0) |
      (cell.directory() && cell.defaults ? kDefaults : 0));
}

}  // namespace

std::string encode(const AttributeCell& cell) {
  CellWriter out;
  out.number(flags_of(cell));
  out.target(cell.self);
  out.number(cell.mode);
  out.number(cell.nlink);
  out.number(cell.uid);
  out.number(cell.gid);
  out.number(cell.size);
  out.number(cell.rdev_major);
  out.number(cell.rdev_minor);
  out.time(cell.atime);
  out.time(cell.mtime);
  out.time(cell.ctime);
  out.number(cell.epoch.value);
  out.time(cell.mtime_set);
  if (cell.exclusive_verifier) out.number(load_be<std::uint64_t>(cell.exclusive_verifier->data()));
  if (cell.directory()) {
    out.cell(cell.parent);
    out.number(cell.entries);
    out.number(cell.policy.stripe_shift);
    out.number(cell.policy.copies);
    out.number(cell.policy.placement);
  }
  if (cell.self.type == nfs3::FileType::kSymlink) out.text(cell.symlink_target);
  if (tells_stored(cell)) write_stored(out, *cell.stored);
  if (cell.access) write_group_and_names(out, *cell.access);
  if (cell.directory() && cell.defaults) write_defaults(out, *cell.defaults);
  return out.take();
}

Result<AttributeCell> decode_attribute_cell(SiteId site, std::string_view value) {
  CellReader in(value);
  AttributeCell cell;
  auto flags = in.number<std::uint8_t>();
  cell.striped = (flags & kStriped) != 0;
  cell.truncating = (flags & kTruncating) != 0;
  cell.guessed = (flags & kGuessed) != 0;
  cell.self = in.target();
  cell.mode = in.number<std::uint32_t>();
  cell.nlink = in.number<std::uint32_t>();
  cell.uid = in.number<std::uint32_t>();
  cell.gid = in.number<std::uint32_t>();
  cell.size = in.number<std::uint64_t>();
  cell.rdev_major = in.number<std::uint32_t>();
  cell.rdev_minor = in.number<std::uint32_t>();
  cell.atime = in.time();
  cell.mtime = in.time();
  cell.ctime = in.time();
  cell.epoch.value = in.number<std::uint32_t>();
  cell.mtime_set = in.time();
  if ((flags & kExclusive) != 0) {
    cell.exclusive_verifier.emplace();
    store_be(cell.exclusive_verifier->data(), in.number<std::uint64_t>());
  }
  if (cell.directory()) {
    cell.parent = in.cell();
    cell.entries = in.number<std::uint64_t>();
    cell.policy.stripe_shift = in.number<std::uint8_t>();
    cell.policy.copies = in.number<std::uint8_t>();
    cell.policy.placement = in.number<std::uint8_t>();
  }
  if (cell.self.type == nfs3::FileType::kSymlink) cell.symlink_target = in.text();
  cell.stored.reset();
  if ((flags & kStored) != 0) cell.stored = read_stored(in);
  if ((flags & kAccess) != 0) cell.access = read_access(in);
  if ((flags & kDefaults) != 0) cell.defaults = read_defaults(in);
  if (cell.self.cell.site != site) return fail(Errc::kCorrupt, "attribute cell: it names another site");
  return in.finish(std::move(cell), "attribute cell");
}

std::string encode(const NameBucket& bucket) {
  CellWriter out;
  out.number(static_cast<std::uint8_t>(bucket.entries.size()));
  for (const NameEntry& entry : bucket.entries) {
    out.number(static_cast<std::uint8_t>(entry.slot));
    out.text(entry.name);
    out.target(entry.target);
  }
  return out.take();
}

Result<NameBucket> decode_name_bucket(std::string_view value) {
  CellReader in(value);
  NameBucket bucket;
  for (unsigned left = in.number<std::uint8_t>(); left > 0; --left) {
    NameEntry entry;
    entry.slot = in.number<std::uint8_t>();
    entry.name = in.text();
    entry.target = in.target();
    if (entry.slot >= kSlots || (!bucket.entries.empty() && bucket.entries.back().slot >= entry.slot)) {
      return fail(Errc::kCorrupt, "name cell: slots out of order");
    }
    bucket.entries.push_back(std::move(entry));
  }
  return in.finish(std::move(bucket), "name cell");
}

std::string encode(const DuplicateRecord& record) {
  CellWriter out(kCallVersion);
  out.call(record.call);
  out.number(static_cast<std::uint64_t>(record.at.ns));
  out.text(record.reply);
  return out.take();
}

Result<DuplicateRecord> decode_duplicate(std::string_view value) {
  CellReader in(value, kCallVersion);
  DuplicateRecord record;
  record.call = in.call();
  record.at.ns = static_cast<std::int64_t>(in.number<std::uint64_t>());
  record.reply = in.text();
  return in.finish(std::move(record), "duplicate-request record");
}

std::string encode(const TruncationRecord& record) {
  CellWriter out(kCallVersion);
  out.target(record.file);
  out.number(record.size);
  out.number(record.epoch.value);
  out.number(static_cast<std::uint8_t>(record.striped));
  out.call(record.call);
  out.number(record.before.size);
  out.time(record.before.mtime);
  out.time(record.before.ctime);
  out.time(record.changed);
  return out.take();
}

Result<TruncationRecord> decode_truncation(std::string_view value) {
  CellReader in(value, kCallVersion);
  TruncationRecord record;
  record.file = in.target();
  record.size = in.number<std::uint64_t>();
  record.epoch.value = in.number<std::uint32_t>();
  record.striped = in.number<std::uint8_t>() != 0;
  record.call = in.call();
  record.before.size = in.number<std::uint64_t>();
  record.before.mtime = in.time();
  record.before.ctime = in.time();
  record.changed = in.time();
  return in.finish(std::move(record), "truncation record");
}

std::string encode(const CutRecord& record) {
  CellWriter out(kCallVersion);
  out.transaction(record.id);
  out.call(record.call);
  out.address(record.client.address);
  out.number(record.client.port);
  rpc::XdrWriter credential;
  if (record.credential) rpc::encode_auth_sys(credential, *record.credential);
  constexpr std::size_t kFlavorAndLength = 8;
  out.text(as_text(credential.view().subspan(std::min(credential.size(), kFlavorAndLength))));
  out.number(record.directory.value);
  out.number(record.position.value);
  out.target(record.file);
  out.number(record.size);
  out.time(record.changed);
  return out.take();
}

Result<CutRecord> decode_cut(std::string_view value) {
  CellReader in(value, kCallVersion);
  CutRecord record;
  record.id = in.transaction();
  record.call = in.call();
  record.client.address = in.address();
  record.client.port = in.number<std::uint16_t>();
  if (std::string body = in.text(); !body.empty()) {
    auto credential = rpc::decode_auth_sys(as_bytes(body), rpc::kMostGroups);
    if (!credential) return fail(Errc::kCorrupt, "cut record: {}", credential.error().message);
    record.credential = std::move(*credential);
  }
  record.directory.value = in.number<std::uint64_t>();
  record.position.value = in.number<std::uint64_t>();
  record.file = in.target();
  record.size = in.number<std::uint64_t>();
  record.changed = in.time();
  return in.finish(std::move(record), "cut record");
}

std::string encode(const ReclaimRecord& record) {
  CellWriter out;
  out.target(record.file);
  out.number(static_cast<std::uint8_t>(record.striped));
  return out.take();
}

Result<ReclaimRecord> decode_reclaim(std::string_view value) {
  CellReader in(value);
  ReclaimRecord record;
  record.file = in.target();
  record.striped = in.number<std::uint8_t>() != 0;
  return in.finish(std::move(record), "reclaim record");
}

std::string encode(const PartCell& part) {
  CellWriter out;
  out.cell(part.directory);
  out.number(part.entries);
  out.number(part.subdirectories);
  return out.take();
}

Result<PartCell> decode_part(std::string_view value) {
  CellReader in(value);
  PartCell part;
  part.directory = in.cell();
  part.entries = in.number<std::uint64_t>();
  part.subdirectories = in.number<std::uint64_t>();
  return in.finish(part, "part of a directory");
}

std::string encode(const KnownPart& known) {
  CellWriter out;
  out.number(known.version);
  out.number(known.subdirectories);
  return out.take();
}

Result<KnownPart> decode_known_part(std::string_view value) {
  CellReader in(value);
  KnownPart known;
  known.version = in.number<std::uint64_t>();
  known.subdirectories = in.number<std::uint64_t>();
  return in.finish(known, "known part of a directory");
}

std::string encode(const OwedTouch& owed) {
  CellWriter out;
  out.cell(owed.directory);
  out.number(owed.version);
  return out.take();
}

Result<OwedTouch> decode_owed_touch(std::string_view value) {
  CellReader in(value);
  OwedTouch owed;
  owed.directory = in.cell();
  owed.version = in.number<std::uint64_t>();
  return in.finish(owed, "owed touch of a directory");
}

std::string encode(const IntentionRecord& record) {
  CellWriter out;
  out.transaction(record.id);
  out.number(static_cast<std::uint16_t>(record.participants.size()));
  for (SiteId site : record.participants) out.number(site.value);
  return out.take();
}

Result<IntentionRecord> decode_intention(std::string_view value) {
  CellReader in(value);
  IntentionRecord record;
  record.id = in.transaction();
  for (unsigned left = in.number<std::uint16_t>(); left > 0 && in.ok(); --left) {
    record.participants.push_back(SiteId{in.number<std::uint32_t>()});
  }
  return in.finish(std::move(record), "intention");
}

std::string encode_number(std::uint64_t number) {
  CellWriter out;
  out.number(number);
  return out.take();
}

Result<std::uint64_t> decode_number(std::string_view value) {
  CellReader in(value);
  auto number = in.number<std::uint64_t>();
  return in.finish(number, "number");
}

}  // namespace slice::dirserver
