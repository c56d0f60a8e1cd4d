#include "wire/nlm4.h"

namespace slice::nlm4 {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

void encode_lock(XdrWriter& out, const Lock& lock) {
  out.text(lock.caller);
  out.opaque(lock.handle);
  out.opaque(lock.owner);
  out.u32(static_cast<std::uint32_t>(lock.svid));
  out.u64(lock.offset);
  out.u64(lock.length);
}
void decode_lock(XdrReader& in, Lock& out) {
  out.caller = in.text(kMaxString);
  out.handle = in.opaque(kMaxHandle);
  out.owner = in.opaque(kMaxObject);
  out.svid = static_cast<std::int32_t>(in.u32());
  out.offset = in.u64();
  out.length = in.u64();
}

}  // namespace

void encode(XdrWriter& out, const TestArgs& args) {
  out.opaque(args.cookie);
  out.boolean(args.exclusive);
  encode_lock(out, args.lock);
}
bool decode(ByteView bytes, TestArgs& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.exclusive = in.boolean();
  decode_lock(in, out.lock);
  return in.complete();
}

void encode(XdrWriter& out, const LockArgs& args) {
  out.opaque(args.cookie);
  out.boolean(args.block);
  out.boolean(args.exclusive);
  encode_lock(out, args.lock);
  out.boolean(args.reclaim);
  out.u32(static_cast<std::uint32_t>(args.state));
}
bool decode(ByteView bytes, LockArgs& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.block = in.boolean();
  out.exclusive = in.boolean();
  decode_lock(in, out.lock);
  out.reclaim = in.boolean();
  out.state = static_cast<std::int32_t>(in.u32());
  return in.complete();
}

void encode(XdrWriter& out, const CancelArgs& args) {
  out.opaque(args.cookie);
  out.boolean(args.block);
  out.boolean(args.exclusive);
  encode_lock(out, args.lock);
}
bool decode(ByteView bytes, CancelArgs& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.block = in.boolean();
  out.exclusive = in.boolean();
  decode_lock(in, out.lock);
  return in.complete();
}

void encode(XdrWriter& out, const UnlockArgs& args) {
  out.opaque(args.cookie);
  encode_lock(out, args.lock);
}
bool decode(ByteView bytes, UnlockArgs& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  decode_lock(in, out.lock);
  return in.complete();
}

void encode(XdrWriter& out, const ShareArgs& args) {
  out.opaque(args.cookie);
  out.text(args.caller);
  out.opaque(args.handle);
  out.opaque(args.owner);
  out.u32(args.mode);
  out.u32(args.access);
  out.boolean(args.reclaim);
}
bool decode(ByteView bytes, ShareArgs& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.caller = in.text(kMaxString);
  out.handle = in.opaque(kMaxHandle);
  out.owner = in.opaque(kMaxObject);
  out.mode = in.u32();
  out.access = in.u32();
  out.reclaim = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const FreeAllArgs& args) {
  out.text(args.name);
  out.u32(static_cast<std::uint32_t>(args.state));
}
bool decode(ByteView bytes, FreeAllArgs& out) {
  XdrReader in(bytes);
  out.name = in.text(kMaxString);
  out.state = static_cast<std::int32_t>(in.u32());
  return in.complete();
}

void encode(XdrWriter& out, const TestResult& result) {
  out.opaque(result.cookie);
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != Status::kDenied) return;
  out.boolean(result.holder.exclusive);
  out.u32(static_cast<std::uint32_t>(result.holder.svid));
  out.opaque(result.holder.owner);
  out.u64(result.holder.offset);
  out.u64(result.holder.length);
}
bool decode(ByteView bytes, TestResult& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.status = static_cast<Status>(in.u32());
  if (out.status == Status::kDenied) {
    out.holder.exclusive = in.boolean();
    out.holder.svid = static_cast<std::int32_t>(in.u32());
    out.holder.owner = in.opaque(kMaxObject);
    out.holder.offset = in.u64();
    out.holder.length = in.u64();
  }
  return in.complete();
}

void encode(XdrWriter& out, const Result& result) {
  out.opaque(result.cookie);
  out.u32(static_cast<std::uint32_t>(result.status));
}
bool decode(ByteView bytes, Result& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.status = static_cast<Status>(in.u32());
  return in.complete();
}

void encode(XdrWriter& out, const ShareResult& result) {
  out.opaque(result.cookie);
  out.u32(static_cast<std::uint32_t>(result.status));
  out.u32(static_cast<std::uint32_t>(result.sequence));
}
bool decode(ByteView bytes, ShareResult& out) {
  XdrReader in(bytes);
  out.cookie = in.opaque(kMaxObject);
  out.status = static_cast<Status>(in.u32());
  out.sequence = static_cast<std::int32_t>(in.u32());
  return in.complete();
}

}  // namespace slice::nlm4
