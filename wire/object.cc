#include "wire/object.h"

#include <algorithm>

#include "rpc/xdr.h"
#include "wire/codec.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

constexpr std::uint32_t kMaxExtents = 1024;
constexpr std::uint32_t kMaxObjects = 4096;
constexpr std::uint32_t kMaxAlso = 4096;  // servers
constexpr std::uint32_t kMaxRuns = 4096;

void encode_name(XdrWriter& out, const ObjectName& name) {
  out.u32(name.volume.value);
  out.u64(name.fileid.value);
  out.u32(static_cast<std::uint32_t>(name.kind));
}

ObjectName decode_name(XdrReader& in) {
  ObjectName name;
  name.volume = VolumeId{in.u32()};
  name.fileid = FileId{in.u64()};
  std::uint32_t kind = in.u32();
  if (kind > static_cast<std::uint32_t>(ObjectKind::kStore)) {
    in.fail();
    return {};
  }
  name.kind = static_cast<ObjectKind>(kind);
  return name;
}

}  // namespace

void encode(XdrWriter& out, const ObjectReadArgs& args) {
  encode_name(out, args.object);
  out.u64(args.offset);
  out.u32(args.count);
}
bool decode(ByteView bytes, ObjectReadArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  out.offset = in.u64();
  out.count = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const ObjectReadResult& result) {
  encode_status(out, result.status);
  if (result.status != nfs3::Status::kOk) return;
  out.boolean(result.eof);
  out.opaque(result.data);
}
bool decode(ByteView bytes, ObjectReadResult& out) {
  XdrReader in(bytes);
  if (decode_status(in, out.status)) {
    out.eof = in.boolean();
    out.data = in.opaque(nfs3::kMaxTransfer);
  }
  return in.complete();
}

void encode(XdrWriter& out, const ObjectWriteArgs& args) {
  encode_name(out, args.object);
  out.u64(args.offset);
  out.boolean(args.sync);
  out.opaque(args.data);
}
bool decode(ByteView bytes, ObjectWriteArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  out.offset = in.u64();
  out.sync = in.boolean();
  out.data = in.opaque(nfs3::kMaxTransfer);
  return in.complete();
}

void encode(XdrWriter& out, const ObjectWriteResult& result) {
  encode_status(out, result.status);
  if (result.status == nfs3::Status::kOk) out.u64(result.verifier.value);
}
bool decode(ByteView bytes, ObjectWriteResult& out) {
  XdrReader in(bytes);
  if (decode_status(in, out.status)) out.verifier = Verifier{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ObjectTruncateArgs& args) {
  encode_name(out, args.object);
  out.u64(args.size);
  out.u32(args.epoch.value);
  out.u64(args.known.value);
}
bool decode(ByteView bytes, ObjectTruncateArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  out.size = in.u64();
  out.epoch = Epoch{in.u32()};
  out.known = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ObjectRemoveArgs& args) {
  encode_name(out, args.object);
  out.u64(args.known.value);
}
bool decode(ByteView bytes, ObjectRemoveArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  out.known = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ObjectStatArgs& args) {
  encode_name(out, args.object);
}
bool decode(ByteView bytes, ObjectStatArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  return in.complete();
}

void encode(XdrWriter& out, const ObjectStatResult& result) {
  encode_status(out, result.status);
  if (result.status != nfs3::Status::kOk) return;
  out.u64(result.end);
  out.u64(result.allocated);
  out.u32(result.epoch.value);
  std::size_t count = std::min<std::size_t>(result.extents.size(), kMaxExtents);
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    out.u64(result.extents[i].offset);
    out.u64(result.extents[i].length);
    out.u64(result.extents[i].place);
  }
}
bool decode(ByteView bytes, ObjectStatResult& out) {
  XdrReader in(bytes);
  out.extents.clear();
  if (!decode_status(in, out.status)) return in.complete();
  out.end = in.u64();
  out.allocated = in.u64();
  out.epoch = Epoch{in.u32()};
  std::uint32_t count = in.u32();
  if (count > kMaxExtents) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    ObjectExtent extent;
    extent.offset = in.u64();
    extent.length = in.u64();
    extent.place = in.u64();
    out.extents.push_back(extent);
  }
  return in.complete();
}

void encode(XdrWriter& out, const ObjectListArgs& args) {
  encode_name(out, args.after);
  out.u32(args.limit);
}
bool decode(ByteView bytes, ObjectListArgs& out) {
  XdrReader in(bytes);
  out.after = decode_name(in);
  out.limit = in.u32();
  return in.complete();
}

void encode(XdrWriter& out, const ObjectListResult& result) {
  encode_status(out, result.status);
  if (result.status != nfs3::Status::kOk) return;
  std::size_t count = std::min<std::size_t>(result.objects.size(), kMaxObjects);
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) encode_name(out, result.objects[i]);
  out.boolean(result.end && count == result.objects.size());
}
bool decode(ByteView bytes, ObjectListResult& out) {
  XdrReader in(bytes);
  out.objects.clear();
  if (!decode_status(in, out.status)) return in.complete();
  std::uint32_t count = in.u32();
  if (count > kMaxObjects) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) out.objects.push_back(decode_name(in));
  out.end = in.boolean();
  return in.complete();
}

void encode(XdrWriter& out, const ObjectCommitArgs& args) {
  encode_name(out, args.object);
  out.u64(args.largest_seen.value);
  out.u64(args.known.value);
}
bool decode(ByteView bytes, ObjectCommitArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  out.largest_seen = Verifier{in.u64()};
  out.known = Generation{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ObjectCommitResult& result) {
  encode_status(out, result.status);
  if (result.status != nfs3::Status::kOk) return;
  out.u64(result.verifier.value);
  out.u64(result.end);
  nfs3::encode(out, result.mtime);
  out.u32(result.epoch.value);
  encode_numbers(out, result.also, kMaxAlso);
}
bool decode(ByteView bytes, ObjectCommitResult& out) {
  XdrReader in(bytes);
  if (decode_status(in, out.status)) {
    out.verifier = Verifier{in.u64()};
    out.end = in.u64();
    nfs3::decode(in, out.mtime);
    out.epoch = Epoch{in.u32()};
    out.also = decode_numbers(in, kMaxAlso);
  }
  return in.complete();
}

void encode(XdrWriter& out, const ObjectStatusResult& result) {
  encode_status(out, result.status);
  if (result.status == nfs3::Status::kOk) encode_numbers(out, result.also, kMaxAlso);
}
bool decode(ByteView bytes, ObjectStatusResult& out) {
  XdrReader in(bytes);
  out.also.clear();
  if (decode_status(in, out.status)) out.also = decode_numbers(in, kMaxAlso);
  return in.complete();
}

void encode(XdrWriter& out, const PlaceArgs& args) {
  out.u64(args.move);
  out.u64(args.attempt);
  out.opaque(args.handle);
  out.u64(args.number);
  out.u32(args.epoch.value);
  out.u64(args.offset);
  nfs3::encode(out, args.mtime);
  out.opaque(args.data);
}
bool decode(ByteView bytes, PlaceArgs& out) {
  XdrReader in(bytes);
  out.move = in.u64();
  out.attempt = in.u64();
  out.handle = in.opaque(nfs3::kMaxHandle);
  out.number = in.u64();
  out.epoch = Epoch{in.u32()};
  out.offset = in.u64();
  nfs3::decode(in, out.mtime);
  out.data = in.opaque(nfs3::kMaxTransfer);
  return in.complete();
}

void encode(XdrWriter& out, const PlaceFileArgs& args) {
  out.u64(args.move);
  out.u64(args.attempt);
  out.u64(args.number);
  out.u64(args.file.value);
  out.u32(static_cast<std::uint32_t>(args.what));
  out.u32(args.epoch.value);
  out.u64(args.offset);
  nfs3::encode(out, args.mtime);
  out.opaque(args.data);
}
bool decode(ByteView bytes, PlaceFileArgs& out) {
  XdrReader in(bytes);
  out.move = in.u64();
  out.attempt = in.u64();
  out.number = in.u64();
  out.file = FileId{in.u64()};
  const std::uint32_t what = in.u32();
  if (what > static_cast<std::uint32_t>(PlaceFileArgs::What::kRemoved)) in.fail();
  out.what = static_cast<PlaceFileArgs::What>(what);
  out.epoch = Epoch{in.u32()};
  out.offset = in.u64();
  nfs3::decode(in, out.mtime);
  out.data = in.opaque(nfs3::kMaxTransfer);
  return in.complete();
}

void encode(XdrWriter& out, const PlaceResult& result) {
  encode_status(out, result.status);
  out.u64(result.number);
  out.u64(result.verifier.value);
}
bool decode(ByteView bytes, PlaceResult& out) {
  XdrReader in(bytes);
  decode_status(in, out.status);
  out.number = in.u64();
  out.verifier = Verifier{in.u64()};
  return in.complete();
}

void encode(XdrWriter& out, const ObjectImageArgs& args) {
  encode_name(out, args.object);
  out.u64(args.offset);
}
bool decode(ByteView bytes, ObjectImageArgs& out) {
  XdrReader in(bytes);
  out.object = decode_name(in);
  out.offset = in.u64();
  return in.complete();
}

void encode(XdrWriter& out, const ObjectImageResult& result) {
  encode_status(out, result.status);
  if (result.status != nfs3::Status::kOk) return;
  out.u64(result.end);
  out.u32(result.epoch.value);
  nfs3::encode(out, result.mtime);
  out.u32(static_cast<std::uint32_t>(result.runs.size()));
  for (const ObjectRun& run : result.runs) {
    out.u64(run.offset);
    out.text(run.data);
  }
  out.u64(result.next);
}
bool decode(ByteView bytes, ObjectImageResult& out) {
  XdrReader in(bytes);
  out = {};
  if (!decode_status(in, out.status)) return in.complete();
  out.end = in.u64();
  out.epoch = Epoch{in.u32()};
  nfs3::decode(in, out.mtime);
  decode_list(in, kMaxRuns, out.runs, [](XdrReader& each) {
    ObjectRun run{.offset = each.u64(), .data = {}};
    run.data = std::string(each.text(kMaxImageBytes));
    return run;
  });
  out.next = in.u64();
  return in.complete();
}

}  // namespace slice::wire
