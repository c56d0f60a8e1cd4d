// The types that arguments and results are made of (RFC 1813 section 2.5, 2.6).
#include <array>

#include "wire/nfs3.h"
#include "wire/nfs3_codec.h"

namespace slice::nfs3 {

std::string_view procedure_name(std::uint32_t procedure) {
  static constexpr std::array<std::string_view, kProcedureCount> kNames{
      "NULL",    "GETATTR",     "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",   "WRITE",
      "CREATE",  "MKDIR",       "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
      "READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT",   "GETACL", "SETACL"};
  return procedure < kNames.size() ? kNames[procedure] : "?";
}

namespace {

constexpr std::uint32_t kAclProcedures = 3;  // NULL, GETACL, SETACL
constexpr auto kFirstOfAcl = static_cast<std::uint32_t>(Procedure::kGetacl);

}  // namespace

WireProcedure on_the_wire(std::uint32_t procedure) {
  if (procedure < kFirstOfAcl) return {kProgram, procedure};
  return {kAclProgram, procedure - kFirstOfAcl + 1};
}

std::optional<std::uint32_t> of_acl_program(std::uint32_t number) {
  if (number >= kAclProcedures) return std::nullopt;
  return number == 0 ? 0 : kFirstOfAcl + number - 1;
}

bool decode(rpc::XdrReader& in, Time& out) {
  out.seconds = in.u32();
  out.nanoseconds = in.u32();
  return in.ok();
}

void encode(rpc::XdrWriter& out, Time time) {
  out.u32(time.seconds);
  out.u32(time.nanoseconds);
}

bool decode(rpc::XdrReader& in, Attributes& out) {
  out.type = decode_enum<FileType>(in, 1, 7);
  out.mode = in.u32();
  out.nlink = in.u32();
  out.uid = in.u32();
  out.gid = in.u32();
  out.size = in.u64();
  out.used = in.u64();
  out.rdev_major = in.u32();
  out.rdev_minor = in.u32();
  out.fsid = in.u64();
  out.fileid = FileId{in.u64()};
  decode(in, out.atime);
  decode(in, out.mtime);
  return decode(in, out.ctime);
}

void encode(rpc::XdrWriter& out, const Attributes& attributes) {
  out.u32(static_cast<std::uint32_t>(attributes.type));
  out.u32(attributes.mode);
  out.u32(attributes.nlink);
  out.u32(attributes.uid);
  out.u32(attributes.gid);
  out.u64(attributes.size);
  out.u64(attributes.used);
  out.u32(attributes.rdev_major);
  out.u32(attributes.rdev_minor);
  out.u64(attributes.fsid);
  out.u64(attributes.fileid.value);
  encode(out, attributes.atime);
  encode(out, attributes.mtime);
  encode(out, attributes.ctime);
}

bool decode(rpc::XdrReader& in, PostOpAttributes& out) {
  out.reset();
  if (in.boolean()) decode(in, out.emplace());
  if (!in.ok()) out.reset();
  return in.ok();
}

void encode(rpc::XdrWriter& out, const PostOpAttributes& attributes) {
  out.boolean(attributes.has_value());
  if (attributes) encode(out, *attributes);
}

bool decode(rpc::XdrReader& in, WccData& out) {
  out.before.reset();
  if (in.boolean()) {
    WccAttributes& before = out.before.emplace();
    before.size = in.u64();
    decode(in, before.mtime);
    decode(in, before.ctime);
  }
  return decode(in, out.after);
}

void encode(rpc::XdrWriter& out, const WccData& wcc) {
  out.boolean(wcc.before.has_value());
  if (wcc.before) {
    out.u64(wcc.before->size);
    encode(out, wcc.before->mtime);
    encode(out, wcc.before->ctime);
  }
  encode(out, wcc.after);
}

bool decode(rpc::XdrReader& in, SetAttributes& out) {
  using TimeHow = SetAttributes::TimeHow;
  out = SetAttributes{};
  if (in.boolean()) out.mode = in.u32();
  if (in.boolean()) out.uid = in.u32();
  if (in.boolean()) out.gid = in.u32();
  if (in.boolean()) out.size = in.u64();
  out.set_atime = decode_enum<TimeHow>(in, 0, 2);
  if (out.set_atime == TimeHow::kClientTime) decode(in, out.atime);
  out.set_mtime = decode_enum<TimeHow>(in, 0, 2);
  if (out.set_mtime == TimeHow::kClientTime) decode(in, out.mtime);
  return in.ok();
}

void encode(rpc::XdrWriter& out, const SetAttributes& attributes) {
  for (const auto& number : {attributes.mode, attributes.uid, attributes.gid}) {
    out.boolean(number.has_value());
    if (number) out.u32(*number);
  }
  out.boolean(attributes.size.has_value());
  if (attributes.size) out.u64(*attributes.size);
  out.u32(static_cast<std::uint32_t>(attributes.set_atime));
  if (attributes.set_atime == SetAttributes::TimeHow::kClientTime) encode(out, attributes.atime);
  out.u32(static_cast<std::uint32_t>(attributes.set_mtime));
  if (attributes.set_mtime == SetAttributes::TimeHow::kClientTime) encode(out, attributes.mtime);
}

bool decode_handle(rpc::XdrReader& in, HandleView& out) {
  out = in.opaque(kMaxHandle);
  return in.ok();
}

bool decode(rpc::XdrReader& in, DirOpArgs& out) {
  decode_handle(in, out.directory);
  out.name = in.text(kMaxNameOnWire);
  return in.ok();
}

void encode(rpc::XdrWriter& out, const DirOpArgs& args) {
  out.opaque(args.directory);
  out.text(args.name);
}

}  // namespace slice::nfs3
