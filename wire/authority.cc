#include "wire/authority.h"

#include <algorithm>

#include "common/config.h"
#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

void encode_time(XdrWriter& out, const std::optional<nfs3::Time>& time) {
  out.boolean(time.has_value());
  if (time) nfs3::encode(out, *time);
}

void decode_time(XdrReader& in, std::optional<nfs3::Time>& out) {
  out.reset();
  if (in.boolean()) nfs3::decode(in, out.emplace());
}

// Flags of a FetchResult. Without an access control list it is what it was before there were such, so that
// servers of that version know it.
constexpr std::uint32_t kStriped = 1, kWithAccess = 2;

void encode_named(XdrWriter& out, const std::vector<nfs3::NamedAccess>& named) {
  out.u32(static_cast<std::uint32_t>(named.size()));
  for (const nfs3::NamedAccess& entry : named) {
    out.u32(entry.id);
    out.u32(entry.permissions);
  }
}
void decode_named(XdrReader& in, std::vector<nfs3::NamedAccess>& out) {
  const std::uint32_t count = in.u32();
  if (count > nfs3::kMaxAclEntries) in.fail();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    nfs3::NamedAccess& entry = out.emplace_back();
    entry.id = in.u32();
    entry.permissions = static_cast<std::uint8_t>(in.u32());
  }
}

void encode_item(XdrWriter& out, const FetchResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != nfs3::Status::kOk) return;
  nfs3::encode(out, result.attributes);
  out.u32((result.striped ? kStriped : 0) | (result.access ? kWithAccess : 0));
  if (!result.access) return;
  out.u32(result.access->group);
  encode_named(out, result.access->users);
  encode_named(out, result.access->groups);
}
void decode_item(XdrReader& in, FetchResult& out) {
  out.status = static_cast<nfs3::Status>(in.u32());
  if (!in.ok() || out.status != nfs3::Status::kOk) return;
  nfs3::decode(in, out.attributes);
  const std::uint32_t flags = in.u32();
  if (flags > (kStriped | kWithAccess)) in.fail();
  out.striped = (flags & kStriped) != 0;
  out.access.reset();
  if ((flags & kWithAccess) == 0) return;
  nfs3::ExtendedAccess access;
  access.group = static_cast<std::uint8_t>(in.u32());
  decode_named(in, access.users);
  decode_named(in, access.groups);
  if (in.ok()) out.access = std::make_shared<const nfs3::ExtendedAccess>(std::move(access));
}

void encode_item(XdrWriter& out, const FileMerge& merge) {
  out.opaque(merge.handle);
  out.u32(merge.epoch.value);
  out.u64(merge.size);
  encode_time(out, merge.mtime);
  encode_time(out, merge.atime);
  out.boolean(merge.stored.has_value());
  if (merge.stored) out.u64(*merge.stored);
}
void decode_item(XdrReader& in, FileMerge& out) {
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.epoch = Epoch{in.u32()};
  out.size = in.u64();
  decode_time(in, out.mtime);
  decode_time(in, out.atime);
  out.stored.reset();
  if (in.boolean()) out.stored = in.u64();
}

template <class Item>
void decode_items(XdrReader& in, std::vector<Item>& out) {
  std::uint32_t count = in.u32();
  if (count > kMaxMerges) in.fail();
  out.clear();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) decode_item(in, out.emplace_back());
}

}  // namespace

void encode(XdrWriter& out, const FetchArgs& args) {
  out.opaque(args.handle);
  out.boolean(args.with_striped);
}
bool decode(ByteView bytes, FetchArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.with_striped = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const FetchResult& result) {
  encode_item(out, result);
}
bool decode(ByteView bytes, FetchResult& out) {
  XdrReader in(bytes);
  decode_item(in, out);
  return in.complete();
}

void encode(XdrWriter& out, const MergeArgs& args) {
  out.u32(static_cast<std::uint32_t>(args.files.size()));
  for (const FileMerge& merge : args.files) encode_item(out, merge);
  out.u32(args.teller);
}
bool decode(ByteView bytes, MergeArgs& out) {
  XdrReader in(bytes);
  decode_items(in, out.files);
  out.teller = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const MergeResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != nfs3::Status::kOk) return;
  out.u32(static_cast<std::uint32_t>(result.files.size()));
  for (const FetchResult& file : result.files) encode(out, file);
}
bool decode(ByteView bytes, MergeResult& out) {
  XdrReader in(bytes);
  out.status = static_cast<nfs3::Status>(in.u32());
  if (in.ok() && out.status == nfs3::Status::kOk) decode_items(in, out.files);
  return in.complete();
}

void encode(XdrWriter& out, const PolicyArgs& args) {
  out.opaque(args.handle);
  out.u32(args.fields);
  out.u32(args.policy.stripe_shift);
  out.u32(args.policy.copies);
  out.u32(args.policy.placement);
  out.boolean(args.fewer_copies);
}
bool decode(ByteView bytes, PolicyArgs& out) {
  XdrReader in(bytes);
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.fields = in.u32();
  out.policy.stripe_shift = in.u32();
  out.policy.copies = in.u32();
  out.policy.placement = in.u32();
  out.fewer_copies = in.boolean();
  if (out.fields > kPolicyAll || out.policy.placement > kPlacementNames.size()) in.fail();
  return in.complete();
}

void encode(XdrWriter& out, const PolicyResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  out.u32(result.policy.stripe_shift);
  out.u32(result.policy.copies);
  out.u32(result.policy.placement);
}
bool decode(ByteView bytes, PolicyResult& out) {
  XdrReader in(bytes);
  out.status = static_cast<nfs3::Status>(in.u32());
  out.policy.stripe_shift = in.u32();
  out.policy.copies = in.u32();
  out.policy.placement = in.u32();
  if (out.policy.placement > kPlacementNames.size()) in.fail();
  return in.complete();
}

void encode(XdrWriter& out, const HandlesArgs& args) {
  const std::size_t count = encode_count(out, args.files, kMaxHandles);
  for (std::size_t i = 0; i < count; ++i) out.u64(args.files[i].value);
}
bool decode(ByteView bytes, HandlesArgs& out) {
  XdrReader in(bytes);
  out.files.clear();
  const std::uint32_t count = decode_count(in, kMaxHandles);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) out.files.push_back(FileId{in.u64()});
  return in.complete();
}

void encode(XdrWriter& out, const HandlesResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  const std::size_t count = encode_count(out, result.files, kMaxHandles);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& file = result.files[i];
    out.boolean(file.has_value());
    if (!file) continue;
    out.fixed(file->handle);
    out.u64(file->size);
  }
}
bool decode(ByteView bytes, HandlesResult& out) {
  XdrReader in(bytes);
  out.status = static_cast<nfs3::Status>(in.u32());
  out.files.clear();
  const std::uint32_t count = decode_count(in, kMaxHandles);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    auto& file = out.files.emplace_back();
    if (!in.boolean()) continue;
    ByteView bytes_of = in.fixed(kHandleSize);
    if (in.ok()) std::copy(bytes_of.begin(), bytes_of.end(), file.emplace().handle.begin());
    const std::uint64_t size = in.u64();
    if (in.ok()) file->size = size;
  }
  return in.complete();
}

}  // namespace slice::wire
