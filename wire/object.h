// The object program of the data servers: what managers ask of the bytes of a file. slice-stored serves all
// of it but PLACE_FILE and IMAGE; slice-smallfiled serves TRUNCATE, REMOVE, COMMIT, STAT, LIST, PLACE_FILE
// and IMAGE for the bytes below the threshold.
#ifndef SLICE_WIRE_OBJECT_H
#define SLICE_WIRE_OBJECT_H

#include <string>
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
  kDiscard = 11,
  kPlace = 12,
  kPlaceFile = 13,
  kImage = 14,
  kLeaving = 15  // as those of layouts
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
// Other servers that have to be asked behind the one that answers, since sites have moved or are moving from
// it to them, which the tables do not show by which the caller chose whom to ask (`known`, their generation).
// Of COMMIT, TRUNCATE and REMOVE. A small-file server names the one that it has given the file's site to, and
// has done nothing itself then: it is done when one of them names nobody.
using Also = std::vector<std::uint32_t>;

// Cuts to `size` and adopts `epoch`; nothing happens where the object's epoch is `epoch` or newer. Durable
// when answered. Also remembered for an object that does not exist on this server (so that a late write of an
// older epoch cannot come back).
struct ObjectTruncateArgs {
  ObjectName object;
  std::uint64_t size = 0;
  Epoch epoch;
  Generation known = {};
};
struct ObjectRemoveArgs {
  ObjectName object;
  Generation known = {};
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
  Generation known = {};
};
struct ObjectCommitResult {
  nfs3::Status status = nfs3::Status::kOk;
  Verifier verifier;
  std::uint64_t end = 0;
  nfs3::Time mtime;
  Epoch epoch;
  Also also = {};
};
// Of TRUNCATE and REMOVE.
struct ObjectStatusResult {
  nfs3::Status status = nfs3::Status::kOk;
  Also also = {};
};

// PLACE: bytes of one stripe on a site that moves (wire/moves.h), from its old owner, which sends one write
// of a stripe after another. Done only under the same truncation epoch, and if its number is greater than
// those before; kNotSync: it is not. kStale: the attempt is over. kNoEnt: the file was removed.
struct PlaceArgs {
  std::uint64_t move = 0, attempt = 0;
  ByteView handle;
  std::uint64_t number = 0;
  Epoch epoch;
  std::uint64_t offset = 0;
  nfs3::Time mtime;
  ByteView data;
};
// PLACE_FILE: the same of a file of a small-file server, which is of one site as a whole: bytes of it, or its
// truncation or removal.
struct PlaceFileArgs {
  enum class What : std::uint32_t { kBytes = 0, kCut = 1, kRemoved = 2 };
  std::uint64_t move = 0, attempt = 0;
  std::uint64_t number = 0;
  FileId file;
  What what = What::kBytes;
  Epoch epoch;               // after it
  std::uint64_t offset = 0;  // kCut: the new size
  nfs3::Time mtime;
  ByteView data;  // of kBytes. None: nothing is written, and the file ends at `offset` at the least
};
// Of both.
struct PlaceResult {
  nfs3::Status status = nfs3::Status::kOk;
  std::uint64_t number = 0;  // the greatest one of the stripe, or of the file
  Verifier verifier;
};

// IMAGE: what a small-file server has of a file, for a backup: its bytes from `offset` on by runs without
// holes, as many as fit, as they were at one moment.
inline constexpr std::size_t kMaxImageBytes = 2 << 20;
struct ObjectImageArgs {
  ObjectName object;
  std::uint64_t offset = 0;
};
struct ObjectRun {
  std::uint64_t offset = 0;
  std::string data;
  bool operator==(const ObjectRun&) const = default;
};
struct ObjectImageResult {
  nfs3::Status status = nfs3::Status::kOk;  // kNoEnt: nothing of it is here
  std::uint64_t end = 0;
  Epoch epoch;
  nfs3::Time mtime;
  std::vector<ObjectRun> runs;
  std::uint64_t next = 0;  // where the rest begins; 0: that is all
};

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
  X(ObjectStatusResult) \
  X(PlaceArgs) \
  X(PlaceFileArgs) \
  X(PlaceResult) \
  X(ObjectImageArgs) \
  X(ObjectImageResult)
// clang-format on
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_OBJECT_MESSAGES(X)
#undef X

}  // namespace slice::wire

#endif  // SLICE_WIRE_OBJECT_H
