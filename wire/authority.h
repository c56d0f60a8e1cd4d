// The authority program of slice-dird: what data servers and proxies ask about a file's attributes and tell
// of them.
#ifndef SLICE_WIRE_AUTHORITY_H
#define SLICE_WIRE_AUTHORITY_H

#include <array>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "wire/internal.h"
#include "wire/nfs3_acl.h"

namespace slice::wire {

enum class AuthorityProcedure : std::uint32_t {
  kNull = 0,
  kFetch = 1,
  kMerge = 2,
  kPolicy = 3,
  kHandles = 4,
  kRoom = 5  // wire/quota.h
};

// FETCH: the attributes of a file. Waits while a truncation of the file is under way.
// with_striped: the caller, a storage node, is about to hold its first bytes of the file; the authority has
// noted that durably when it answers kOk.
struct FetchArgs {
  ByteView handle;
  bool with_striped = false;
};
struct FetchResult {
  nfs3::Status status = nfs3::Status::kOk;
  nfs3::Attributes attributes;  // kOk only; rdev_major of a regular file is its truncation epoch
  bool striped = false;
  nfs3::SharedAccess access;
};

// In both, a handle of generation 0 (which no file has) stands for whatever generation the file has: a proxy
// that did not see the file's handle mints one from its fileID and site. FileIDs are never reused.
//
// MERGE: what happened to files' bytes elsewhere. Size grows to the maximum unless `epoch` is older than
// the file's; times move forward only. Durable when answered. Answers each file's attributes as they are
// then.
struct FileMerge {
  ByteView handle;
  Epoch epoch;
  std::uint64_t size = 0;                  // 0: no statement
  std::optional<nfs3::Time> mtime, atime;  // a moved mtime moves ctime as well
  // Bytes that the teller stores of the file now, holes not counted; nothing unless `epoch` is the file's.
  std::optional<std::uint64_t> stored = {};
};
constexpr std::size_t kMaxMerges = 64;  // in one call
struct MergeArgs {
  std::vector<FileMerge> files;
  std::uint32_t teller = 0;  // the server that tells, and whose `stored` these are
};
struct MergeResult {
  // kJukebox: not this server's files, one of them at least; none was merged. Else kOk, or that the store
  // failed.
  nfs3::Status status = nfs3::Status::kOk;
  std::vector<FetchResult>
      files;  // kOk only: one each, in the order of the call. kJukebox: to be told again later
};

// POLICY: how new files in a directory are laid out, and those of new directories in it. First puts in force
// the fields that `fields` names and leaves the others as they are, in one step; durable when answered.
// Servers that hold a lease of the directory go by it 2 s later. 0 in any field: as the volume says.
struct FilePolicy {
  std::uint32_t stripe_shift = 0;
  std::uint32_t copies = 0;
  std::uint32_t placement = 0;  // else 1 + Placement
  bool operator==(const FilePolicy&) const = default;
};
enum PolicyField : std::uint32_t {
  kPolicyStripeUnit = 1,
  kPolicyCopies = 2,
  kPolicyPlacement = 4,
  kPolicyAll = 7
};
struct PolicyArgs {
  ByteView handle;
  std::uint32_t fields = 0;   // PolicyField, added up; 0: only tells
  FilePolicy policy;          // of the other fields nothing counts
  bool fewer_copies = false;  // are wanted, should they come of it
};
struct PolicyResult {
  // kNotDir; kInval: a unit or number that there is not; kPerm: new files would have fewer copies than until
  // now, and nobody said that this is wanted.
  nfs3::Status status = nfs3::Status::kOk;
  FilePolicy policy;  // in force now; kOk and kPerm only
};

// HANDLES: the handles and sizes of regular files, by their fileIDs: for who has bytes of files, and has to
// tell where they belong.
inline constexpr std::size_t kMaxHandles = 256;  // in one call
struct HandlesArgs {
  std::vector<FileId> files;
};
struct HandlesResult {
  nfs3::Status status = nfs3::Status::kOk;  // kJukebox: not this server's files, one of them at least
  // kOk only: one each, in the order of the call. Without one: there is no such file, or it is no regular
  // one.
  struct File {
    std::array<std::uint8_t, kHandleSize> handle{};
    std::uint64_t size = 0;
  };
  std::vector<std::optional<File>> files;
};

void encode(rpc::XdrWriter& out, const HandlesArgs& args);
bool decode(ByteView bytes, HandlesArgs& out);
void encode(rpc::XdrWriter& out, const HandlesResult& result);
bool decode(ByteView bytes, HandlesResult& out);
void encode(rpc::XdrWriter& out, const PolicyArgs& args);
bool decode(ByteView bytes, PolicyArgs& out);
void encode(rpc::XdrWriter& out, const PolicyResult& result);
bool decode(ByteView bytes, PolicyResult& out);
void encode(rpc::XdrWriter& out, const FetchArgs& args);
bool decode(ByteView bytes, FetchArgs& out);
void encode(rpc::XdrWriter& out, const FetchResult& result);
bool decode(ByteView bytes, FetchResult& out);
void encode(rpc::XdrWriter& out, const MergeArgs& args);
bool decode(ByteView bytes, MergeArgs& out);
void encode(rpc::XdrWriter& out, const MergeResult& result);
bool decode(ByteView bytes, MergeResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_AUTHORITY_H
