#include "wire/mount3.h"

#include <algorithm>
#include <array>

namespace slice::mount3 {

using rpc::XdrReader;
using rpc::XdrWriter;

std::string_view procedure_name(std::uint32_t procedure) {
  static constexpr std::array<std::string_view, kProcedureCount> kNames{"NULL", "MNT",     "DUMP",
                                                                        "UMNT", "UMNTALL", "EXPORT"};
  return procedure < kNames.size() ? kNames[procedure] : "?";
}

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kOk:
      return "MNT3_OK";
    case Status::kPerm:
      return "MNT3ERR_PERM";
    case Status::kNoEnt:
      return "MNT3ERR_NOENT";
    case Status::kIo:
      return "MNT3ERR_IO";
    case Status::kAcces:
      return "MNT3ERR_ACCES";
    case Status::kNotDir:
      return "MNT3ERR_NOTDIR";
    case Status::kInval:
      return "MNT3ERR_INVAL";
    case Status::kNameTooLong:
      return "MNT3ERR_NAMETOOLONG";
    case Status::kNotSupp:
      return "MNT3ERR_NOTSUPP";
    case Status::kServerFault:
      return "MNT3ERR_SERVERFAULT";
  }
  return "MNT3ERR_?";
}

bool decode_path(ByteView arguments, std::string_view& path) {
  XdrReader in(arguments);
  path = in.text(kMaxPath);
  return in.complete();
}
void encode_path(XdrWriter& out, std::string_view path) {
  out.text(path);
}

void encode(XdrWriter& out, const MntResult& result) {
  out.u32(static_cast<std::uint32_t>(result.status));
  if (result.status != Status::kOk) return;
  out.opaque(result.handle);
  std::size_t count = std::min(result.flavors.size(), kMaxFlavors);
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.u32(result.flavors[i]);
}
bool decode(ByteView bytes, MntResult& out) {
  XdrReader in(bytes);
  out = MntResult{};
  out.status = static_cast<Status>(in.u32());
  if (!in.ok() || out.status != Status::kOk) return in.complete();
  out.handle = in.opaque(kMaxHandle);
  std::uint32_t count = in.u32();
  if (count > kMaxFlavors) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) out.flavors.push_back(in.u32());
  return in.complete();
}

void encode(XdrWriter& out, const std::vector<MountEntry>& mounts) {
  std::size_t count = std::min(mounts.size(), kMaxEntries);
  for (std::size_t i = 0; i < count; ++i) {
    out.boolean(true);
    out.text(std::string_view(mounts[i].host).substr(0, kMaxName));
    out.text(std::string_view(mounts[i].path).substr(0, kMaxPath));
  }
  out.boolean(false);
}
bool decode(ByteView bytes, std::vector<MountEntry>& out) {
  XdrReader in(bytes);
  out.clear();
  while (in.boolean()) {
    if (out.size() == kMaxEntries) return false;
    MountEntry entry;
    entry.host = std::string(in.text(kMaxName));
    entry.path = std::string(in.text(kMaxPath));
    out.push_back(std::move(entry));
  }
  return in.complete();
}

void encode(XdrWriter& out, const std::vector<ExportEntry>& exports) {
  std::size_t count = std::min(exports.size(), kMaxEntries);
  for (std::size_t i = 0; i < count; ++i) {
    out.boolean(true);
    out.text(std::string_view(exports[i].path).substr(0, kMaxPath));
    std::size_t groups = std::min(exports[i].groups.size(), kMaxEntries);
    for (std::size_t g = 0; g < groups; ++g) {
      out.boolean(true);
      out.text(std::string_view(exports[i].groups[g]).substr(0, kMaxName));
    }
    out.boolean(false);
  }
  out.boolean(false);
}
bool decode(ByteView bytes, std::vector<ExportEntry>& out) {
  XdrReader in(bytes);
  out.clear();
  while (in.boolean()) {
    if (out.size() == kMaxEntries) return false;
    ExportEntry entry;
    entry.path = std::string(in.text(kMaxPath));
    while (in.boolean()) {
      if (entry.groups.size() == kMaxEntries) return false;
      entry.groups.emplace_back(in.text(kMaxName));
    }
    out.push_back(std::move(entry));
  }
  return in.complete();
}

}  // namespace slice::mount3
