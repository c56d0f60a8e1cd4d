// NLM version 4, the lock manager of NFSv3 (X/Open XNFS, appendix D): the calls that have a result.
#ifndef SLICE_WIRE_NLM4_H
#define SLICE_WIRE_NLM4_H

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/bytes.h"
#include "rpc/xdr.h"

namespace slice::nlm4 {

inline constexpr std::uint32_t kProgram = 100021;
inline constexpr std::uint32_t kVersion = 4;
inline constexpr std::size_t kMaxString = 1024;  // LM_MAXSTRLEN: a caller's name, bytes
inline constexpr std::size_t kMaxObject = 1024;  // MAXNETOBJ_SZ: a cookie or an owner, bytes
inline constexpr std::size_t kMaxHandle = 64;    // of NFSv3

// 6 to 15 are the same as 1 to 5 by messages: a call without a result (_MSG), and another one back (_RES).
enum class Procedure : std::uint32_t {
  kNull = 0,
  kTest = 1,
  kLock = 2,
  kCancel = 3,
  kUnlock = 4,
  kGranted = 5,
  kShare = 20,
  kUnshare = 21,
  kNmLock = 22,
  kFreeAll = 23
};

enum class Status : std::uint32_t {
  kGranted = 0,
  kDenied = 1,
  kDeniedNoLocks = 2,
  kBlocked = 3,
  kDeniedGracePeriod = 4,
  kDeadlock = 5,
  kReadOnly = 6,
  kStaleHandle = 7,
  kTooBig = 8,
  kFailed = 9
};

struct Lock {
  std::string_view caller;
  ByteView handle, owner;
  std::int32_t svid = 0;
  std::uint64_t offset = 0, length = 0;
};

// Views point into what was decoded.
struct TestArgs {  // GRANTED's, too
  ByteView cookie;
  bool exclusive = false;
  Lock lock;
};
struct LockArgs {  // LOCK's and NM_LOCK's
  ByteView cookie;
  bool block = false, exclusive = false;
  Lock lock;
  bool reclaim = false;
  std::int32_t state = 0;
};
struct CancelArgs {
  ByteView cookie;
  bool block = false, exclusive = false;
  Lock lock;
};
struct UnlockArgs {
  ByteView cookie;
  Lock lock;
};
struct ShareArgs {  // SHARE's and UNSHARE's
  ByteView cookie;
  std::string_view caller;
  ByteView handle, owner;
  std::uint32_t mode = 0, access = 0;
  bool reclaim = false;
};
struct FreeAllArgs {
  std::string_view name;
  std::int32_t state = 0;
};
// TEST's, as kDenied: what is in the way.
struct Holder {
  bool exclusive = false;
  std::int32_t svid = 0;
  ByteView owner;
  std::uint64_t offset = 0, length = 0;
};
struct TestResult {
  ByteView cookie;
  Status status = Status::kGranted;
  Holder holder;  // of kDenied
};
struct Result {
  ByteView cookie;
  Status status = Status::kGranted;
};
struct ShareResult {
  ByteView cookie;
  Status status = Status::kGranted;
  std::int32_t sequence = 0;
};

#define SLICE_WIRE_NLM_MESSAGES(X) \
  X(TestArgs)                      \
  X(LockArgs) X(CancelArgs) X(UnlockArgs) X(ShareArgs) X(FreeAllArgs) X(TestResult) X(Result) X(ShareResult)
#define X(Message)                                          \
  void encode(rpc::XdrWriter& out, const Message& message); \
  bool decode(ByteView bytes, Message& out);
SLICE_WIRE_NLM_MESSAGES(X)
#undef X

// Decodes the arguments of a call for one file that clients make of servers, and gives them to `take`. False
// where they do not decode; nothing where the procedure is no such.
template <class Take>
std::optional<bool> decode_for_file(std::uint32_t procedure, ByteView arguments, const Take& take) {
  const auto decode_as = [&](auto args) {
    const bool decoded = decode(arguments, args);
    if (decoded) take(args);
    return decoded;
  };
  switch (static_cast<Procedure>(procedure)) {
    case Procedure::kTest:
      return decode_as(TestArgs{});
    case Procedure::kLock:
    case Procedure::kNmLock:
      return decode_as(LockArgs{});
    case Procedure::kCancel:
      return decode_as(CancelArgs{});
    case Procedure::kUnlock:
      return decode_as(UnlockArgs{});
    case Procedure::kShare:
    case Procedure::kUnshare:
      return decode_as(ShareArgs{});
    default:
      return std::nullopt;
  }
}

}  // namespace slice::nlm4

#endif  // SLICE_WIRE_NLM4_H
