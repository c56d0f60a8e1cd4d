#include "wire/backing.h"

#include "wire/codec.h"

namespace slice::wire {
namespace {

using rpc::XdrReader;
using rpc::XdrWriter;

constexpr std::uint32_t kMaxBackingSets = 1024;
constexpr std::uint32_t kMembersFileMagic = 0x534c424d;  // "SLBM"
constexpr std::uint32_t kMembersFileFormat = 1;

void encode_owner(XdrWriter& out, const BackingOwner& owner) {
  out.u32(owner.server);
  out.u64(owner.epoch.value);
  out.u64(owner.instance);
}

BackingOwner decode_owner(XdrReader& in) {
  BackingOwner owner{.server = in.u32()};
  owner.epoch = BackingEpoch{in.u64()};
  owner.instance = in.u64();
  return owner;
}

void encode_status_of(XdrWriter& out, BackingStatus status) {
  out.u32(static_cast<std::uint32_t>(status));
}

BackingStatus decode_status_of(XdrReader& in) {
  return decode_enum(in, BackingStatus::kLeaving);
}

// A file's path; nothing else is decoded.
std::string decode_path(XdrReader& in) {
  std::string path(in.text(kMaxBackingPath));
  if (in.ok() && !is_backing_path(path)) in.fail();
  return path;
}

BackingChange decode_change(XdrReader& in) {
  BackingChange change{.op = decode_enum(in, BackingOp::kSyncFolder)};
  change.path = std::string(in.text(kMaxBackingPath));
  const bool folder = change.op == BackingOp::kSyncFolder && change.path.empty();
  if (in.ok() && !folder && !is_backing_path(change.path)) in.fail();
  change.offset = in.u64();
  change.length = in.u64();
  change.bytes = in.opaque(kMaxBackingBytes);
  if (change.op == BackingOp::kRename && in.ok() && !is_backing_path(as_text(change.bytes))) in.fail();
  if (change.offset + std::max<std::uint64_t>(change.length, change.bytes.size()) < change.offset) in.fail();
  return change;
}

std::vector<std::uint32_t> decode_members(XdrReader& in) {
  std::vector<std::uint32_t> members = decode_numbers(in, kMaxBackingMembers);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (std::count(members.begin(), members.end(), members[i]) > 1) in.fail();
  }
  if (members.empty()) in.fail();
  return members;
}

bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace

std::string_view backing_status_name(BackingStatus status) {
  switch (status) {
    case BackingStatus::kOk:
      return "ok";
    case BackingStatus::kStale:
      return "stale";
    case BackingStatus::kHeld:
      return "held";
    case BackingStatus::kNoSpace:
      return "no space";
    case BackingStatus::kIo:
      return "I/O error";
    case BackingStatus::kNotFound:
      return "not found";
    case BackingStatus::kGap:
      return "gap";
    case BackingStatus::kLeaving:
      return "leaving";
  }
  return "?";
}

bool is_backing_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxBackingPath) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (!is_part(path.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

void encode(XdrWriter& out, const BackingSet& set) {
  out.u32(set.server);
  out.u64(set.epoch.value);
  out.u64(set.instance);
  out.u32(set.copies);
  out.u64(set.change);
  encode_numbers(out, set.members, kMaxBackingMembers);
}

BackingSet decode_backing_set(XdrReader& in) {
  BackingSet set{.server = in.u32()};
  set.epoch = BackingEpoch{in.u64()};
  set.instance = in.u64();
  set.copies = in.u32();
  if (set.copies < 1 || set.copies > kMaxBackingMembers) in.fail();
  set.change = in.u64();
  set.members = decode_members(in);
  return set;
}

void encode(XdrWriter& out, const BackingChange& change) {
  out.u32(static_cast<std::uint32_t>(change.op));
  out.text(change.path);
  out.u64(change.offset);
  out.u64(change.length);
  out.opaque(change.bytes);
}

void encode(XdrWriter& out, const BackingAttachArgs& args) {
  encode_owner(out, args.owner);
  out.u64(args.former);
  out.boolean(args.empty);
  out.u64(args.begins_behind);
}

bool decode(ByteView bytes, BackingAttachArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  out.former = in.u64();
  out.empty = in.boolean();
  out.begins_behind = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const BackingAttachResult& result) {
  encode_status_of(out, result.status);
  out.u32(result.wait_ms);
  out.u64(result.known.value);
  out.u64(result.changed.value);
  out.u64(result.applied);
  out.u64(result.free_bytes);
  out.u64(result.total_bytes);
}

bool decode(ByteView bytes, BackingAttachResult& out) {
  XdrReader in(bytes);
  out.status = decode_status_of(in);
  out.wait_ms = in.u32();
  out.known = BackingEpoch{in.u64()};
  out.changed = BackingEpoch{in.u64()};
  out.applied = in.u64();
  out.free_bytes = in.u64();
  out.total_bytes = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const BackingOwnerArgs& args) {
  encode_owner(out, args.owner);
}

bool decode(ByteView bytes, BackingOwnerArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingStatusResult& result) {
  encode_status_of(out, result.status);
}

bool decode(ByteView bytes, BackingStatusResult& out) {
  XdrReader in(bytes);
  out.status = decode_status_of(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingChangeArgs& args) {
  encode_owner(out, args.owner);
  out.u64(args.number);
  out.boolean(args.whole);
  const std::size_t count = encode_count(out, args.changes, kMaxBackingChanges);
  for (std::size_t i = 0; i < count; ++i) encode(out, args.changes[i]);
}

bool decode(ByteView bytes, BackingChangeArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  out.number = in.u64();
  if (out.number == 0) in.fail();
  out.whole = in.boolean();
  decode_list(in, kMaxBackingChanges, out.changes, decode_change);
  return in.complete();
}

void encode(XdrWriter& out, const BackingChangeResult& result) {
  encode_status_of(out, result.status);
  out.u64(result.applied);
  out.u64(result.free_bytes);
  out.u64(result.total_bytes);
}

bool decode(ByteView bytes, BackingChangeResult& out) {
  XdrReader in(bytes);
  out.status = decode_status_of(in);
  out.applied = in.u64();
  out.free_bytes = in.u64();
  out.total_bytes = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const BackingReadArgs& args) {
  encode_owner(out, args.owner);
  out.text(args.path);
  out.u64(args.offset);
  out.u32(args.length);
  out.u64(args.after);
}

bool decode(ByteView bytes, BackingReadArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  out.path = decode_path(in);
  out.offset = in.u64();
  out.length = in.u32();
  if (out.length > kMaxBackingBytes || out.offset + out.length < out.offset) in.fail();
  out.after = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const BackingReadResult& result) {
  encode_status_of(out, result.status);
  out.opaque(result.bytes);
}

bool decode(ByteView bytes, BackingReadResult& out) {
  XdrReader in(bytes);
  out.status = decode_status_of(in);
  out.bytes = in.opaque(kMaxBackingBytes);
  return in.complete();
}

void encode(XdrWriter& out, const BackingListArgs& args) {
  encode_owner(out, args.owner);
  out.text(args.behind);
  out.u64(args.after);
}

bool decode(ByteView bytes, BackingListArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  out.behind = std::string(in.text(kMaxBackingPath));
  out.after = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const BackingListResult& result) {
  encode_status_of(out, result.status);
  const std::size_t count = encode_count(out, result.files, kMaxBackingListed);
  for (std::size_t i = 0; i < count; ++i) {
    out.text(result.files[i].path);
    out.u64(result.files[i].size);
    out.u64(result.files[i].allocated);
  }
  out.boolean(result.end);
}

bool decode(ByteView bytes, BackingListResult& out) {
  XdrReader in(bytes);
  out.status = decode_status_of(in);
  decode_list(in, kMaxBackingListed, out.files, [](XdrReader& each) {
    BackingFile file{.path = decode_path(each)};
    file.size = each.u64();
    file.allocated = each.u64();
    return file;
  });
  out.end = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const BackingDigestArgs& args) {
  encode_owner(out, args.owner);
  out.text(args.path);
  out.u64(args.first);
  out.u32(args.count);
  out.u64(args.after);
}

bool decode(ByteView bytes, BackingDigestArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  out.path = decode_path(in);
  out.first = in.u64();
  out.count = in.u32();
  if (out.count > kMaxBackingDigests || out.first > ~std::uint64_t{0} / kBackingPiece - kMaxBackingDigests) {
    in.fail();
  }
  out.after = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const BackingDigestResult& result) {
  encode_status_of(out, result.status);
  out.u64(result.size);
  encode_numbers(out, result.digests, kMaxBackingDigests);
}

bool decode(ByteView bytes, BackingDigestResult& out) {
  XdrReader in(bytes);
  out.status = decode_status_of(in);
  out.size = in.u64();
  out.digests = decode_numbers(in, kMaxBackingDigests);
  return in.complete();
}

void encode(XdrWriter& out, const BackingClaimArgs& args) {
  out.u32(args.server);
  out.u64(args.instance);
  out.u64(args.former);
  out.u32(args.copies);
}

bool decode(ByteView bytes, BackingClaimArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.instance = in.u64();
  out.former = in.u64();
  out.copies = in.u32();
  if (out.copies < 1 || out.copies > kMaxBackingMembers || out.instance == 0) in.fail();
  return in.complete();
}

// A set that is not there, since the answer is a refusal, has no members.
void encode(XdrWriter& out, const BackingClaimResult& result) {
  out.text(bounded(result.refused));
  out.boolean(result.made);
  if (result.refused.empty()) encode(out, result.set);
}

bool decode(ByteView bytes, BackingClaimResult& out) {
  XdrReader in(bytes);
  out = {};
  out.refused = std::string(in.text(kMaxText));
  out.made = in.boolean();
  if (in.ok() && out.refused.empty()) out.set = decode_backing_set(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingMembersArgs& args) {
  encode_owner(out, args.owner);
  out.u64(args.change);
  encode_numbers(out, args.members, kMaxBackingMembers);
}

bool decode(ByteView bytes, BackingMembersArgs& out) {
  XdrReader in(bytes);
  out.owner = decode_owner(in);
  out.change = in.u64();
  out.members = decode_members(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingMembersResult& result) {
  out.text(bounded(result.refused));
  if (result.refused.empty()) encode(out, result.set);
}

bool decode(ByteView bytes, BackingMembersResult& out) {
  XdrReader in(bytes);
  out = {};
  out.refused = std::string(in.text(kMaxText));
  if (in.ok() && out.refused.empty()) out.set = decode_backing_set(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingSpareArgs& args) {
  out.u32(args.server);
}

bool decode(ByteView bytes, BackingSpareArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const BackingSpareResult& result) {
  out.boolean(result.found);
  out.u32(result.storage);
}

bool decode(ByteView bytes, BackingSpareResult& out) {
  XdrReader in(bytes);
  out.found = in.boolean();
  out.storage = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const BackingSetsResult& result) {
  const std::size_t count = encode_count(out, result.sets, kMaxBackingSets);
  for (std::size_t i = 0; i < count; ++i) encode(out, result.sets[i]);
}

bool decode(ByteView bytes, BackingSetsResult& out) {
  XdrReader in(bytes);
  decode_list(in, kMaxBackingSets, out.sets, decode_backing_set);
  return in.complete();
}

void encode(XdrWriter& out, const BackingKeepArgs& args) {
  encode(out, args.set);
}

bool decode(ByteView bytes, BackingKeepArgs& out) {
  XdrReader in(bytes);
  out.set = decode_backing_set(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingKeepResult& result) {
  out.text(bounded(result.refused));
}

bool decode(ByteView bytes, BackingKeepResult& out) {
  XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxText));
  return in.complete();
}

void encode(XdrWriter& out, const BackingAdoptArgs& args) {
  out.u32(args.server);
  encode_numbers(out, args.members, kMaxBackingMembers);
}

bool decode(ByteView bytes, BackingAdoptArgs& out) {
  XdrReader in(bytes);
  out.server = in.u32();
  out.members = decode_members(in);
  return in.complete();
}

void encode(XdrWriter& out, const BackingMembersFile& file) {
  out.u32(kMembersFileMagic);
  out.u32(kMembersFileFormat);
  encode(out, file.set);
}

bool decode(ByteView bytes, BackingMembersFile& out) {
  XdrReader in(bytes);
  const std::uint32_t magic = in.u32(), format = in.u32();
  if (magic != kMembersFileMagic || format != kMembersFileFormat) in.fail();
  out.set = decode_backing_set(in);
  return in.complete();
}

}  // namespace slice::wire
