// Arguments of every procedure (RFC 1813 section 3.3).
#include "wire/nfs3.h"
#include "wire/nfs3_codec.h"

namespace slice::nfs3 {

using rpc::XdrReader;
using rpc::XdrWriter;

bool decode_arguments(ByteView bytes, HandleView& out) {
  XdrReader in(bytes);
  decode_handle(in, out);
  return in.complete();
}
void encode_arguments(XdrWriter& out, HandleView handle) {
  out.opaque(handle);
}

bool decode_arguments(ByteView bytes, SetattrArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.object);
  decode(in, out.attributes);
  out.guard.reset();
  if (in.boolean()) decode(in, out.guard.emplace());
  return in.complete();
}
void encode_arguments(XdrWriter& out, const SetattrArgs& args) {
  out.opaque(args.object);
  encode(out, args.attributes);
  out.boolean(args.guard.has_value());
  if (args.guard) encode(out, *args.guard);
}

bool decode_arguments(ByteView bytes, DirOpArgs& out) {
  XdrReader in(bytes);
  decode(in, out);
  return in.complete();
}
void encode_arguments(XdrWriter& out, const DirOpArgs& args) {
  encode(out, args);
}

bool decode_arguments(ByteView bytes, AccessArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.object);
  out.access = in.u32();
  return in.complete();
}
void encode_arguments(XdrWriter& out, const AccessArgs& args) {
  out.opaque(args.object);
  out.u32(args.access);
}

bool decode_arguments(ByteView bytes, ReadArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.file);
  out.offset = in.u64();
  out.count = in.u32();
  return in.complete();
}
void encode_arguments(XdrWriter& out, const ReadArgs& args) {
  out.opaque(args.file);
  out.u64(args.offset);
  out.u32(args.count);
}

// `count` says how many of the data's bytes to write: more than there are is malformed, but where there are
// none, which the ensemble's own clients say (storagenode/ops/write.cc); bytes beyond it are no part of the
// write.
bool decode_arguments(ByteView bytes, WriteArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.file);
  out.offset = in.u64();
  out.count = in.u32();
  out.stable = decode_enum<Stable>(in, 0, 2);
  out.data = in.opaque(kMaxTransfer);
  if (out.count > out.data.size() && !out.data.empty()) in.fail();
  if (!in.complete()) return false;
  out.data = out.data.first(std::min<std::size_t>(out.count, out.data.size()));
  return true;
}
void encode_arguments(XdrWriter& out, const WriteArgs& args) {
  out.opaque(args.file);
  out.u64(args.offset);
  out.u32(args.count);
  out.u32(static_cast<std::uint32_t>(args.stable));
  out.opaque(args.data);
}

bool decode_arguments(ByteView bytes, CreateArgs& out) {
  XdrReader in(bytes);
  decode(in, out.where);
  out.mode = decode_enum<CreateMode>(in, 0, 2);
  if (out.mode == CreateMode::kExclusive) {
    decode_fixed(in, out.verifier);
  } else {
    decode(in, out.attributes);
  }
  return in.complete();
}
void encode_arguments(XdrWriter& out, const CreateArgs& args) {
  encode(out, args.where);
  out.u32(static_cast<std::uint32_t>(args.mode));
  if (args.mode == CreateMode::kExclusive) {
    out.fixed(args.verifier);
  } else {
    encode(out, args.attributes);
  }
}

bool decode_arguments(ByteView bytes, MkdirArgs& out) {
  XdrReader in(bytes);
  decode(in, out.where);
  decode(in, out.attributes);
  return in.complete();
}
void encode_arguments(XdrWriter& out, const MkdirArgs& args) {
  encode(out, args.where);
  encode(out, args.attributes);
}

bool decode_arguments(ByteView bytes, SymlinkArgs& out) {
  XdrReader in(bytes);
  decode(in, out.where);
  decode(in, out.attributes);
  out.target = in.text(kMaxPath);
  return in.complete();
}
void encode_arguments(XdrWriter& out, const SymlinkArgs& args) {
  encode(out, args.where);
  encode(out, args.attributes);
  out.text(args.target);
}

namespace {
bool is_device(FileType type) {
  return type == FileType::kBlock || type == FileType::kCharacter;
}
bool is_pipe(FileType type) {
  return type == FileType::kSocket || type == FileType::kFifo;
}
}  // namespace

// Types that MKNOD cannot make have no body; the server answers them NFS3ERR_BADTYPE.
bool decode_arguments(ByteView bytes, MknodArgs& out) {
  XdrReader in(bytes);
  decode(in, out.where);
  out.type = decode_enum<FileType>(in, 1, 7);
  if (is_device(out.type) || is_pipe(out.type)) decode(in, out.attributes);
  if (is_device(out.type)) {
    out.rdev_major = in.u32();
    out.rdev_minor = in.u32();
  }
  return in.complete();
}
void encode_arguments(XdrWriter& out, const MknodArgs& args) {
  encode(out, args.where);
  out.u32(static_cast<std::uint32_t>(args.type));
  if (is_device(args.type) || is_pipe(args.type)) encode(out, args.attributes);
  if (is_device(args.type)) {
    out.u32(args.rdev_major);
    out.u32(args.rdev_minor);
  }
}

bool decode_arguments(ByteView bytes, RenameArgs& out) {
  XdrReader in(bytes);
  decode(in, out.from);
  decode(in, out.to);
  return in.complete();
}
void encode_arguments(XdrWriter& out, const RenameArgs& args) {
  encode(out, args.from);
  encode(out, args.to);
}

bool decode_arguments(ByteView bytes, LinkArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.file);
  decode(in, out.link);
  return in.complete();
}
void encode_arguments(XdrWriter& out, const LinkArgs& args) {
  out.opaque(args.file);
  encode(out, args.link);
}

bool decode_arguments(ByteView bytes, ReaddirArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.directory);
  out.cookie = in.u64();
  decode_fixed(in, out.verifier);
  out.count = in.u32();
  return in.complete();
}
void encode_arguments(XdrWriter& out, const ReaddirArgs& args) {
  out.opaque(args.directory);
  out.u64(args.cookie);
  out.fixed(args.verifier);
  out.u32(args.count);
}

bool decode_arguments(ByteView bytes, ReaddirplusArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.directory);
  out.cookie = in.u64();
  decode_fixed(in, out.verifier);
  out.dircount = in.u32();
  out.maxcount = in.u32();
  return in.complete();
}
void encode_arguments(XdrWriter& out, const ReaddirplusArgs& args) {
  out.opaque(args.directory);
  out.u64(args.cookie);
  out.fixed(args.verifier);
  out.u32(args.dircount);
  out.u32(args.maxcount);
}

bool decode_arguments(ByteView bytes, CommitArgs& out) {
  XdrReader in(bytes);
  decode_handle(in, out.file);
  out.offset = in.u64();
  out.count = in.u32();
  return in.complete();
}
void encode_arguments(XdrWriter& out, const CommitArgs& args) {
  out.opaque(args.file);
  out.u64(args.offset);
  out.u32(args.count);
}

}  // namespace slice::nfs3
