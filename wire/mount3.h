// MOUNT version 3 (RFC 1813 appendix I).
#ifndef SLICE_WIRE_MOUNT3_H
#define SLICE_WIRE_MOUNT3_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "rpc/xdr.h"

namespace slice::mount3 {

inline constexpr std::uint32_t kProgram = 100005;
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::size_t kMaxPath = 1024;  // MNTPATHLEN, bytes
inline constexpr std::size_t kMaxName = 255;   // MNTNAMLEN, bytes
inline constexpr std::size_t kMaxHandle = 64;  // FHSIZE3
inline constexpr std::size_t kMaxFlavors = 16;
inline constexpr std::size_t kMaxEntries = 4096;  // of DUMP and EXPORT: more are left out

enum class Procedure : std::uint32_t { kNull = 0, kMnt = 1, kDump = 2, kUmnt = 3, kUmntall = 4, kExport = 5 };
inline constexpr std::uint32_t kProcedureCount = 6;
std::string_view procedure_name(std::uint32_t procedure);  // "MNT"; "?" above 5

enum class Status : std::uint32_t {
  kOk = 0,
  kPerm = 1,
  kNoEnt = 2,
  kIo = 5,
  kAcces = 13,
  kNotDir = 20,
  kInval = 22,
  kNameTooLong = 63,
  kNotSupp = 10004,
  kServerFault = 10006
};
std::string_view status_name(Status status);  // "MNT3ERR_ACCES"

// MNT and UMNT take a path.
bool decode_path(ByteView arguments, std::string_view& path);
void encode_path(rpc::XdrWriter& out, std::string_view path);

struct MntResult {
  Status status = Status::kOk;
  ByteView handle;                     // kOk only, as the rest
  std::vector<std::uint32_t> flavors;  // authentication flavors that are accepted, best first
};
void encode(rpc::XdrWriter& out, const MntResult& result);
bool decode(ByteView bytes, MntResult& out);

// DUMP: who has mounted what, as far as is known.
struct MountEntry {
  std::string host, path;
};
void encode(rpc::XdrWriter& out, const std::vector<MountEntry>& mounts);
bool decode(ByteView bytes, std::vector<MountEntry>& out);

// EXPORT: `showmount -e`. No groups: everybody.
struct ExportEntry {
  std::string path;
  std::vector<std::string> groups;
};
void encode(rpc::XdrWriter& out, const std::vector<ExportEntry>& exports);
bool decode(ByteView bytes, std::vector<ExportEntry>& out);

}  // namespace slice::mount3

#endif  // SLICE_WIRE_MOUNT3_H
