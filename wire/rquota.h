// RQUOTA versions 1 and 2, by which quota(1) asks an NFS server (rquota.x of nfs-utils): what a user or group
// may have, and has.
#ifndef SLICE_WIRE_RQUOTA_H
#define SLICE_WIRE_RQUOTA_H

#include <cstdint>
#include <string_view>

#include "common/bytes.h"
#include "common/quota.h"
#include "rpc/xdr.h"

namespace slice::rquota {

inline constexpr std::uint32_t kProgram = 100011;
inline constexpr std::uint32_t kVersion = 1, kExtendedVersion = 2;  // the first knows users alone
inline constexpr std::size_t kMaxPath = 1024;                       // RQ_PATHLEN: bytes

// Of both versions; those that set limits are served by nobody here.
enum class Procedure : std::uint32_t { kNull = 0, kGetQuota = 1, kGetActiveQuota = 2 };

// GETQUOTA and GETACTIVEQUOTA, which tell the same here: limits that there are count.
struct Args {
  std::string_view path;  // as it is mounted; a view of what was decoded
  QuotaId whose;
};
void encode(rpc::XdrWriter& out, const Args& args, std::uint32_t version);
// What has a kind other than user or group does not decode.
bool decode(ByteView bytes, Args& out, std::uint32_t version);

enum class Status : std::uint32_t { kOk = 1, kNoQuota = 2, kPermission = 3 };
// kOk only, as it is sent: space in blocks, of as many bytes as the largest of the numbers needs, 1024 at the
// least; usage rounded up, limits down. Time that is left: seconds, 0 where nothing is over a soft limit, and
// 1 where its grace is over.
struct Figures {
  std::uint32_t block_size = 1024;
  bool active = true;
  std::uint32_t hard_blocks = 0, soft_blocks = 0, blocks = 0;
  std::uint32_t hard_files = 0, soft_files = 0, files = 0;
  std::uint32_t space_left_s = 0, files_left_s = 0;
  bool operator==(const Figures&) const = default;
};
// `now`: seconds of the wall clock.
Figures figures_of(const Quota& quota, const QuotaUsage& usage, std::uint64_t now);

struct Result {
  Status status = Status::kOk;
  Figures figures;
};
void encode(rpc::XdrWriter& out, const Result& result);
bool decode(ByteView bytes, Result& out);

}  // namespace slice::rquota

#endif  // SLICE_WIRE_RQUOTA_H
