// The object program of the data servers: what managers ask of the bytes of a file. slice-stored serves all
// of it; slice-smallfiled serves TRUNCATE, REMOVE, COMMIT and STAT for the bytes below the threshold.
#ifndef SLICE_WIRE_OBJECT_H
#define SLICE_WIRE_OBJECT_H

#include <vector>

#include "common/ids.h"
#include "wire/internal.h"
#include "wire/nfs3.h"

namespace slice::wire {

enum class ObjectProcedure : std::uint32_t {
  kNull = 0,
  kRead = 1,
  kWrite = 2,
  kTruncate = 3,
  kRemove = 4,
  kStat = 5,
  kList = 6,
  kCommit = 7,
  kRecall = 8,  // this and those below, of files with a layout: wire/layout.h
  kForward = 9,
  kCopy = 10,
  kDiscard = 11
};

// Objects are named by (volume, fileID, kind).
enum class ObjectKind : std::uint32_t { kFile = 0, kZone = 1, kLog = 2, kStore = 3 };
struct ObjectName {
  VolumeId volume;
  FileId fileid;
  ObjectKind kind = ObjectKind::kFile;
  auto operator<=>(const ObjectName&) const = default;
};

struct ObjectReadArgs {
  ObjectName object;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
};
struct ObjectReadResult {
  nfs3::Status status = nfs3::Status::kOk;
  bool eof = false;
  ByteView data;
};
struct ObjectWriteArgs {
  ObjectName object;
  std::uint64_t offset = 0;
  bool sync = false;
  ByteView data;
};
struct ObjectWriteResult {
  nfs3::Status status = nfs3::Status::kOk;
  Verifier verifier;
};
// Cuts to `size` and adopts `epoch`; nothing happens where the object's epoch is `epoch` or newer. Durable
// when answered. Also remembered for an object that does not exist on this server (so that a late write of an
// older epoch cannot come back).
struct ObjectTruncateArgs {
  ObjectName object;
  std::uint64_t size = 0;
  Epoch epoch;
};
struct ObjectRemoveArgs {
  ObjectName object;
};  // kOk also where there is none; durable when answered
struct ObjectStatArgs {
  ObjectName object;
};
struct ObjectExtent {
  std::uint64_t offset = 0, length = 0;
  std::uint64_t place = 0;
};  // place: where it lies in the server's own store (zone offset), for `slicectl where`
struct ObjectStatResult {
  nfs3::Status status = nfs3::Status::kOk;  // kNoEnt where this server holds no byte of it
  std::uint64_t end = 0;                    // one past the last byte written here
  std::uint64_t allocated = 0;              // bytes of disk it takes
  Epoch epoch;
  std::vector<ObjectExtent> extents;  // at most 1024
};
struct ObjectListArgs {
  ObjectName after;
  std::uint32_t limit = 1000;
};  // names greater than `after`, in order
struct ObjectListResult {
  nfs3::Status status = nfs3::Status::kOk;
  std::vector<ObjectName> objects;
  bool end = true;
};
// Makes every unstable write of the object that was answered durable. `largest_seen`: the caller's largest
// verifier, which the server adopts where it is larger than its own.
struct ObjectCommitArgs {
  ObjectName object;
  Verifier largest_seen;
};
struct ObjectCommitResult {
  nfs3::Status status = nfs3::Status::kOk;
  Verifier verifier;
  std::uint64_t end = 0;
  nfs3::Time mtime;
  Epoch epoch;
};
struct ObjectStatusResult {
  nfs3::Status status = nfs3::Status::kOk;
};  // of TRUNCATE and REMOVE

// clang-format off
#define SLICE_WIRE_OBJECT_MESSAGES(X) \
  X(ObjectReadArgs) \
  X(ObjectReadResult) \
  X(ObjectWriteArgs) \
  X(ObjectWriteResult) \
  X(ObjectTruncateArgs) \
  X(ObjectRemoveArgs) \
  X(ObjectStatArgs) \
  X(ObjectStatResult) \
  X(ObjectListArgs) \
  X(ObjectListResult) \
  X(ObjectCommitArgs) \
  X(ObjectCommitResult) \
  X(ObjectStatusResult)
// clang-format on
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_OBJECT_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_OBJECT_H
