// NFSv3 (RFC 1813): its types, and the arguments and results of every procedure. decode_*: false where the
// bytes do not fit the type (lengths are bounded by the standard's limits); views point into the input.
// encode_*: append.
#ifndef SLICE_WIRE_NFS3_H
#define SLICE_WIRE_NFS3_H

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/loop.h"
#include "rpc/xdr.h"
#include "wire/nfs_status.h"

namespace slice::nfs3 {

inline constexpr std::uint32_t kProgram = 100003;
inline constexpr std::uint32_t kVersion = 3;            // of NFS and of NFSACL
inline constexpr std::uint32_t kAclProgram = 100227;    // NFSACL (wire/nfs3_acl.h)
inline constexpr std::size_t kMaxHandle = 64;           // NFS3_FHSIZE
inline constexpr std::size_t kMaxName = 255;            // ours (PATHCONF name_max); longer is NAMETOOLONG
inline constexpr std::size_t kMaxNameOnWire = 4096;     // longer than this does not decode
inline constexpr std::size_t kMaxPath = 4095;           // symbolic link text
inline constexpr std::uint32_t kMaxTransfer = 1 << 20;  // rtmax, wtmax over TCP
inline constexpr std::uint32_t kMaxUdpTransfer = 32 << 10;
inline constexpr std::size_t kCookieVerifierSize = 8;

enum class Procedure : std::uint32_t {
  kNull = 0,
  kGetattr = 1,
  kSetattr = 2,
  kLookup = 3,
  kAccess = 4,
  kReadlink = 5,
  kRead = 6,
  kWrite = 7,
  kCreate = 8,
  kMkdir = 9,
  kSymlink = 10,
  kMknod = 11,
  kRemove = 12,
  kRmdir = 13,
  kRename = 14,
  kLink = 15,
  kReaddir = 16,
  kReaddirplus = 17,
  kFsstat = 18,
  kFsinfo = 19,
  kPathconf = 20,
  kCommit = 21,
  // Those of NFSACL, which clients call beside NFS, at the same port: within Slice they have the numbers
  // behind.
  kGetacl = 22,
  kSetacl = 23,
};
inline constexpr std::uint32_t kProcedureCount = 24;
std::string_view procedure_name(std::uint32_t procedure);  // "READDIRPLUS"; "?" above 23

// How a procedure is called: of which program, by which number of its own.
struct WireProcedure {
  std::uint32_t program = kProgram;
  std::uint32_t number = 0;
};
WireProcedure on_the_wire(std::uint32_t procedure);
// The number within Slice of a procedure of NFSACL; nothing where it has none of that number.
std::optional<std::uint32_t> of_acl_program(std::uint32_t number);

enum class FileType : std::uint32_t {
  kRegular = 1,
  kDirectory = 2,
  kBlock = 3,
  kCharacter = 4,
  kSymlink = 5,
  kSocket = 6,
  kFifo = 7
};
enum class Stable : std::uint32_t { kUnstable = 0, kDataSync = 1, kFileSync = 2 };

struct Time {
  std::uint32_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  constexpr auto operator<=>(const Time&) const = default;
};
constexpr Time time_of(WallTime wall) {
  return {static_cast<std::uint32_t>(wall.ns / 1'000'000'000),
          static_cast<std::uint32_t>(wall.ns % 1'000'000'000)};
}
// `now`, or just after `old` where the clock has not passed that: clients compare times for equality.
constexpr Time later(Time now, Time old) {
  if (now > old) return now;
  if (old.nanoseconds + 1 < 1'000'000'000) return {old.seconds, old.nanoseconds + 1};
  return {old.seconds + 1, 0};
}
bool decode(rpc::XdrReader& in, Time& out);
void encode(rpc::XdrWriter& out, Time time);

struct Attributes {  // fattr3, 84 bytes on the wire
  FileType type = FileType::kRegular;
  std::uint32_t mode = 0;
  std::uint32_t nlink = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::uint64_t used = 0;
  std::uint32_t rdev_major = 0;  // specdata1; of a regular file: its truncation epoch (docs/architecture.md)
  std::uint32_t rdev_minor = 0;
  std::uint64_t fsid = 0;
  FileId fileid;
  Time atime, mtime, ctime;
};
inline constexpr std::size_t kAttributesSize = 84;
bool decode(rpc::XdrReader& in, Attributes& out);
void encode(rpc::XdrWriter& out, const Attributes& attributes);

using PostOpAttributes = std::optional<Attributes>;
bool decode(rpc::XdrReader& in, PostOpAttributes& out);
void encode(rpc::XdrWriter& out, const PostOpAttributes& attributes);

struct WccAttributes {  // what a client compares to keep its cache
  std::uint64_t size = 0;
  Time mtime, ctime;
};
struct WccData {
  std::optional<WccAttributes> before;  // absent unless taken atomically with the operation
  PostOpAttributes after;
};
bool decode(rpc::XdrReader& in, WccData& out);
void encode(rpc::XdrWriter& out, const WccData& wcc);

struct SetAttributes {  // sattr3
  enum class TimeHow : std::uint32_t { kDontChange = 0, kServerTime = 1, kClientTime = 2 };
  std::optional<std::uint32_t> mode, uid, gid;
  std::optional<std::uint64_t> size;
  TimeHow set_atime = TimeHow::kDontChange, set_mtime = TimeHow::kDontChange;
  Time atime, mtime;
};
bool decode(rpc::XdrReader& in, SetAttributes& out);
void encode(rpc::XdrWriter& out, const SetAttributes& attributes);

// A handle as it came: not yet checked (routing/file_handle.h opens it).
using HandleView = ByteView;
bool decode_handle(rpc::XdrReader& in, HandleView& out);  // at most kMaxHandle bytes

struct DirOpArgs {  // diropargs3
  HandleView directory;
  std::string_view name;
};
bool decode(rpc::XdrReader& in, DirOpArgs& out);
void encode(rpc::XdrWriter& out, const DirOpArgs& args);

// ---- arguments; GETATTR, READLINK, FSSTAT, FSINFO, PATHCONF take a handle alone ----
struct SetattrArgs {
  HandleView object;
  SetAttributes attributes;
  std::optional<Time> guard;
};
using LookupArgs = DirOpArgs;
struct AccessArgs {
  HandleView object;
  std::uint32_t access = 0;
};
inline constexpr std::uint32_t kAccessRead = 1, kAccessLookup = 2, kAccessModify = 4, kAccessExtend = 8,
                               kAccessDelete = 16, kAccessExecute = 32;
struct ReadArgs {
  HandleView file;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
};
struct WriteArgs {
  HandleView file;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  Stable stable = Stable::kUnstable;
  ByteView data;
};
enum class CreateMode : std::uint32_t { kUnchecked = 0, kGuarded = 1, kExclusive = 2 };
struct CreateArgs {
  DirOpArgs where;
  CreateMode mode = CreateMode::kUnchecked;
  SetAttributes attributes;
  std::array<std::uint8_t, 8> verifier{};
};
struct MkdirArgs {
  DirOpArgs where;
  SetAttributes attributes;
};
struct SymlinkArgs {
  DirOpArgs where;
  SetAttributes attributes;
  std::string_view target;
};
struct MknodArgs {
  DirOpArgs where;
  FileType type = FileType::kFifo;
  SetAttributes attributes;
  std::uint32_t rdev_major = 0, rdev_minor = 0;
};
using RemoveArgs = DirOpArgs;
using RmdirArgs = DirOpArgs;
struct RenameArgs {
  DirOpArgs from, to;
};
struct LinkArgs {
  HandleView file;
  DirOpArgs link;
};
struct ReaddirArgs {
  HandleView directory;
  std::uint64_t cookie = 0;
  std::array<std::uint8_t, 8> verifier{};
  std::uint32_t count = 0;
};
struct ReaddirplusArgs {
  HandleView directory;
  std::uint64_t cookie = 0;
  std::array<std::uint8_t, 8> verifier{};
  std::uint32_t dircount = 0, maxcount = 0;
};
struct CommitArgs {
  HandleView file;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
};

// Each decodes a procedure's whole arguments: false also where bytes are left over.
bool decode_arguments(ByteView bytes, HandleView& out);
bool decode_arguments(ByteView bytes, SetattrArgs& out);
bool decode_arguments(ByteView bytes, DirOpArgs& out);
bool decode_arguments(ByteView bytes, AccessArgs& out);
bool decode_arguments(ByteView bytes, ReadArgs& out);
bool decode_arguments(ByteView bytes, WriteArgs& out);
bool decode_arguments(ByteView bytes, CreateArgs& out);
bool decode_arguments(ByteView bytes, MkdirArgs& out);
bool decode_arguments(ByteView bytes, SymlinkArgs& out);
bool decode_arguments(ByteView bytes, MknodArgs& out);
bool decode_arguments(ByteView bytes, RenameArgs& out);
bool decode_arguments(ByteView bytes, LinkArgs& out);
bool decode_arguments(ByteView bytes, ReaddirArgs& out);
bool decode_arguments(ByteView bytes, ReaddirplusArgs& out);
bool decode_arguments(ByteView bytes, CommitArgs& out);
// And the other way, for clients and tests: encode_arguments(writer, args) for each of the types above.
void encode_arguments(rpc::XdrWriter& out, HandleView handle);
void encode_arguments(rpc::XdrWriter& out, const SetattrArgs& args);
void encode_arguments(rpc::XdrWriter& out, const DirOpArgs& args);
void encode_arguments(rpc::XdrWriter& out, const AccessArgs& args);
void encode_arguments(rpc::XdrWriter& out, const ReadArgs& args);
void encode_arguments(rpc::XdrWriter& out, const WriteArgs& args);
void encode_arguments(rpc::XdrWriter& out, const CreateArgs& args);
void encode_arguments(rpc::XdrWriter& out, const MkdirArgs& args);
void encode_arguments(rpc::XdrWriter& out, const SymlinkArgs& args);
void encode_arguments(rpc::XdrWriter& out, const MknodArgs& args);
void encode_arguments(rpc::XdrWriter& out, const RenameArgs& args);
void encode_arguments(rpc::XdrWriter& out, const LinkArgs& args);
void encode_arguments(rpc::XdrWriter& out, const ReaddirArgs& args);
void encode_arguments(rpc::XdrWriter& out, const ReaddirplusArgs& args);
void encode_arguments(rpc::XdrWriter& out, const CommitArgs& args);

// ---- results of success; the failure forms are fixed by the procedure, see encode_failure ----
struct GetattrOk {
  Attributes attributes;
};
struct LookupOk {
  HandleView object;
  PostOpAttributes attributes, directory;
};
struct AccessOk {
  PostOpAttributes attributes;
  std::uint32_t access = 0;
};
struct ReadlinkOk {
  PostOpAttributes attributes;
  std::string_view target;
};
// READ's data is written in place by the server (XdrWriter::reserve_opaque), so this is for clients and
// proxies.
struct ReadOk {
  PostOpAttributes attributes;
  std::uint32_t count = 0;
  bool eof = false;
  ByteView data;
};
struct WriteOk {
  WccData wcc;
  std::uint32_t count = 0;
  Stable committed = Stable::kUnstable;
  Verifier verifier;
};
struct CreatedOk {
  std::optional<HandleView> object;
  PostOpAttributes attributes;
  WccData directory;
};  // CREATE, MKDIR, SYMLINK, MKNOD
struct RenameResult {
  WccData from, to;
};
struct LinkResult {
  PostOpAttributes attributes;
  WccData directory;
};
struct FsstatOk {
  PostOpAttributes attributes;
  std::uint64_t total_bytes = 0, free_bytes = 0, available_bytes = 0, total_files = 0, free_files = 0,
                available_files = 0;
  std::uint32_t invariant_seconds = 0;
};
struct FsinfoOk {
  PostOpAttributes attributes;
  std::uint32_t rtmax = kMaxTransfer, rtpref = kMaxTransfer, rtmult = 4096, wtmax = kMaxTransfer,
                wtpref = kMaxTransfer, wtmult = 4096, dtpref = 65536;
  std::uint64_t max_file_size = (std::uint64_t{1} << 63) - 1;
  Time time_delta{0, 1};
  std::uint32_t properties = 0x1b;
};
struct PathconfOk {
  PostOpAttributes attributes;
  std::uint32_t link_max = 65000, name_max = kMaxName;
  bool no_trunc = true, chown_restricted = true, case_insensitive = false, case_preserving = true;
};
struct CommitOk {
  WccData wcc;
  Verifier verifier;
};

// Status word and body of a success.
void encode_result(rpc::XdrWriter& out, const GetattrOk& ok);
void encode_result(rpc::XdrWriter& out, const LookupOk& ok);
void encode_result(rpc::XdrWriter& out, const AccessOk& ok);
void encode_result(rpc::XdrWriter& out, const ReadlinkOk& ok);
void encode_result(rpc::XdrWriter& out, const ReadOk& ok);
void encode_result(rpc::XdrWriter& out, const WriteOk& ok);
void encode_result(rpc::XdrWriter& out, const CreatedOk& ok);
void encode_result(rpc::XdrWriter& out, const FsstatOk& ok);
void encode_result(rpc::XdrWriter& out, const FsinfoOk& ok);
void encode_result(rpc::XdrWriter& out, const PathconfOk& ok);
void encode_result(rpc::XdrWriter& out, const CommitOk& ok);
// SETATTR, REMOVE, RMDIR (wcc), RENAME and LINK have the same body for success and failure.
void encode_result(rpc::XdrWriter& out, Status status, const WccData& wcc);
void encode_result(rpc::XdrWriter& out, Status status, const RenameResult& result);
void encode_result(rpc::XdrWriter& out, Status status, const LinkResult& result);
// A failure of any procedure: the status and the failure body that its procedure has, with what attributes
// are known: `attributes` for post_op_attr forms, `wcc` for wcc_data forms (CREATE and its like: the
// directory's).
void encode_failure(rpc::XdrWriter& out, Procedure procedure, Status status,
                    const PostOpAttributes& attributes = std::nullopt, const WccData& wcc = {});

// Decoders of whole results for clients, proxies and tests: the status; `out` is filled for kOk only,
// `wcc`-like bodies always. False also where bytes are left over. READDIR and READDIRPLUS:
// wire/nfs3_readdir.h.
bool decode_result(rpc::XdrReader& in, Status& status, GetattrOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, LookupOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, AccessOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, ReadlinkOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, ReadOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, WriteOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, CreatedOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, WccData& out);
bool decode_result(rpc::XdrReader& in, Status& status, RenameResult& out);
bool decode_result(rpc::XdrReader& in, Status& status, LinkResult& out);
bool decode_result(rpc::XdrReader& in, Status& status, FsstatOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, FsinfoOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, PathconfOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, CommitOk& out);

}  // namespace slice::nfs3

#endif  // SLICE_WIRE_NFS3_H
