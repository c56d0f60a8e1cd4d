#include "wire/nfs3_acl.h"

#include <algorithm>
#include <utility>

#include "wire/codec.h"

namespace slice::nfs3 {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

// Tags of entries; in a default list with kOfDefault.
constexpr std::uint32_t kUserObject = 1, kUser = 2, kGroupObject = 4, kGroup = 8, kMask = 0x10, kOther = 0x20;
constexpr std::uint32_t kOfDefault = 0x1000;
constexpr std::uint8_t kAllPermissions = 7;
constexpr std::uint32_t kNobody = ~std::uint32_t{0};

struct Entry {
  std::uint32_t tag = 0, id = 0, permissions = 0;
};

// By id; false where one is there twice or is nobody's.
bool put_in_order(std::vector<NamedAccess>& named) {
  std::sort(named.begin(), named.end());
  auto twice = std::adjacent_find(named.begin(), named.end(), [](auto& a, auto& b) { return a.id == b.id; });
  return twice == named.end() && (named.empty() || named.back().id != kNobody);
}

// Section 23.1.3: one entry each of owner, group and others, at most one mask, and one where somebody is
// named.
std::optional<Acl> made_of(const std::vector<Entry>& entries) {
  Acl acl;
  std::uint32_t seen = 0;
  for (const Entry& entry : entries) {
    if (entry.permissions > kAllPermissions) return std::nullopt;
    const auto permissions = static_cast<std::uint8_t>(entry.permissions);
    const bool named = entry.tag == kUser || entry.tag == kGroup;
    if (!named && (seen & entry.tag) != 0) return std::nullopt;
    seen |= entry.tag;
    switch (entry.tag) {
      case kUserObject:
        acl.owner = permissions;
        break;
      case kGroupObject:
        acl.group = permissions;
        break;
      case kOther:
        acl.other = permissions;
        break;
      case kMask:
        acl.mask = permissions;
        break;
      case kUser:
        acl.users.push_back({entry.id, permissions});
        break;
      case kGroup:
        acl.groups.push_back({entry.id, permissions});
        break;
      default:
        return std::nullopt;
    }
  }
  constexpr std::uint32_t needed = kUserObject | kGroupObject | kOther;
  if ((seen & needed) != needed || !put_in_order(acl.users) || !put_in_order(acl.groups)) return std::nullopt;
  const bool names = !acl.users.empty() || !acl.groups.empty();
  if (names && !acl.mask) return std::nullopt;
  // Every list has a mask in this protocol: where it takes nothing away, and nobody is named, there was none.
  if (!names && acl.mask == acl.group) acl.mask.reset();
  return acl;
}

// Nothing where there are no entries; `valid` becomes false where they are no list. Only their number may be
// there.
std::optional<Acl> decode_acl(XdrReader& in, std::uint32_t flag, bool& valid) {
  const std::uint32_t said = in.u32(), count = in.u32();
  if (said > kMaxAclEntries || count > said || in.left() / 12 < count) in.fail();
  std::vector<Entry> entries;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Entry& entry = entries.emplace_back();
    entry.tag = in.u32() & ~flag;
    entry.id = in.u32();
    entry.permissions = in.u32();
  }
  if (entries.empty()) return std::nullopt;
  auto acl = made_of(entries);
  valid = valid && acl && count == said;
  return acl;
}

void encode_entry(XdrWriter& out, std::uint32_t tag, NamedAccess entry) {
  out.u32(tag);
  out.u32(entry.id);
  out.u32(entry.permissions);
}

void encode_named(XdrWriter& out, std::uint32_t tag, const std::vector<NamedAccess>& named) {
  for (const NamedAccess& entry : named) encode_entry(out, tag, entry);
}

struct Owners {
  std::uint32_t uid = 0, gid = 0;
};

// `with_entries`: else their number alone.
void encode_acl(XdrWriter& out, const std::optional<Acl>& acl, std::uint32_t flag, bool with_entries,
                Owners owners) {
  constexpr std::uint32_t kUnnamed = 4;
  const auto count =
      acl ? static_cast<std::uint32_t>(kUnnamed + acl->users.size() + acl->groups.size()) : std::uint32_t{0};
  out.u32(count);
  out.u32(with_entries ? count : 0);
  if (!acl || !with_entries) return;
  encode_entry(out, kUserObject | flag, {owners.uid, acl->owner});
  encode_named(out, kUser | flag, acl->users);
  encode_entry(out, kGroupObject | flag, {owners.gid, acl->group});
  encode_named(out, kGroup | flag, acl->groups);
  encode_entry(out, kMask | flag, {0, acl->mask.value_or(acl->group)});
  encode_entry(out, kOther | flag, {0, acl->other});
}

}  // namespace

Acl acl_of(std::uint32_t mode, const ExtendedAccess* access) {
  const auto bits = [mode](unsigned shift) {
    return static_cast<std::uint8_t>(mode >> shift & kAllPermissions);
  };
  Acl acl{.owner = bits(6), .group = bits(3), .other = bits(0), .mask = {}, .users = {}, .groups = {}};
  if (access == nullptr) return acl;
  acl.mask = acl.group;
  acl.group = access->group;
  acl.users = access->users;
  acl.groups = access->groups;
  return acl;
}

std::uint32_t mode_of(const Acl& acl) {
  return static_cast<std::uint32_t>(acl.owner) << 6 |
         static_cast<std::uint32_t>(acl.mask.value_or(acl.group)) << 3 | acl.other;
}

SharedAccess beyond_mode(const Acl& acl) {
  if (!acl.mask) return nullptr;
  return std::make_shared<const ExtendedAccess>(ExtendedAccess{acl.group, acl.users, acl.groups});
}

SharedAccess inherit(const Acl& defaults, std::uint32_t& mode) {
  constexpr std::uint32_t kPermissions = 0777;
  Acl acl = defaults;
  const auto narrow = [mode](std::uint8_t& permissions, unsigned shift) {
    permissions = static_cast<std::uint8_t>(permissions & mode >> shift);
  };
  narrow(acl.owner, 6);
  narrow(acl.mask ? *acl.mask : acl.group, 3);
  narrow(acl.other, 0);
  mode = (mode & ~kPermissions) | mode_of(acl);
  return beyond_mode(acl);
}

bool decode_arguments(ByteView bytes, GetaclArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.object);
  out.mask = in.u32();
  return in.complete();
}
void encode_arguments(XdrWriter& out, const GetaclArgs& args) {
  out.opaque(args.object);
  out.u32(args.mask);
}

bool decode_arguments(ByteView bytes, SetaclArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.object);
  out.mask = in.u32();
  out.valid = true;
  out.access = decode_acl(in, 0, out.valid);
  out.defaults = decode_acl(in, kOfDefault, out.valid);
  // Linux' clients leave room for a list of four entries where they send none, and all of the room is sent.
  return in.ok();
}
void encode_arguments(XdrWriter& out, const SetaclArgs& args) {
  out.opaque(args.object);
  out.u32(args.mask);
  encode_acl(out, args.access, 0, true, {});
  encode_acl(out, args.defaults, kOfDefault, true, {});
}

void encode_result(XdrWriter& out, const GetaclOk& ok) {
  wire::encode_status(out, Status::kOk);
  encode(out, ok.attributes);
  out.u32(ok.mask);
  const Owners owners = ok.attributes ? Owners{ok.attributes->uid, ok.attributes->gid} : Owners{};
  encode_acl(out, ok.access, 0, (ok.mask & kAclAccess) != 0, owners);
  encode_acl(out, ok.defaults, kOfDefault, (ok.mask & kAclDefault) != 0, owners);
}
bool decode_result(XdrReader& in, Status& status, GetaclOk& out) {
  const bool ok = wire::decode_status(in, status);
  decode(in, out.attributes);
  if (!ok) return in.complete();
  out.mask = in.u32();
  bool valid = true;
  out.access = decode_acl(in, 0, valid);
  out.defaults = decode_acl(in, kOfDefault, valid);
  return in.complete() && valid;
}

void encode_result(XdrWriter& out, const SetaclOk& ok) {
  wire::encode_status(out, Status::kOk);
  encode(out, ok.attributes);
}
bool decode_result(XdrReader& in, Status& status, SetaclOk& out) {
  wire::decode_status(in, status);
  decode(in, out.attributes);
  return in.complete();
}

}  // namespace slice::nfs3
