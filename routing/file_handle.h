// FileHandle: the C++ face of bpf/shared/file_handle.h. A handle from a client becomes a FileHandle only by
// open(), which checks version, volume and MAC. Format: docs/formats/file-handle.md.
#ifndef SLICE_ROUTING_FILE_HANDLE_H
#define SLICE_ROUTING_FILE_HANDLE_H

#include <array>
#include <cstdint>
#include <optional>

#include "common/bytes.h"
#include "common/config.h"
#include "common/ids.h"
#include "common/result.h"
#include "wire/internal.h"
#include "wire/nfs3.h"

namespace slice::routing {

struct Hint {
  bool can_patch = false;             // a proxy will patch attributes into the reply
  std::optional<std::uint64_t> size;  // the file's size as the proxy knows it
};

struct FileHandle {
  nfs3::FileType type = nfs3::FileType::kRegular;
  std::uint8_t flags = 0;  // mirrored, block-mapped
  std::uint8_t stripe_shift = 16;
  FileId fileid;
  TreeId tree;                   // that it is in
  SiteId directory_site;         // where the attribute cell is
  std::uint32_t generation = 0;  // of the cell
  std::uint64_t cell_key = 0;    // fingerprint of (parent fileID, name) at creation; 0: the root
  Hint hint;                     // what the proxy stamped on this copy; never part of identity
};

// The handle of who has opened a raw volume (docs/raw-volumes.md): data servers take no READ and no WRITE by
// it once the file has a later truncation epoch. Only members of the ensemble mint such.
FileHandle opened_at(FileHandle handle, Epoch epoch);
// That epoch; nothing where it is a file's handle like any.
std::optional<Epoch> epoch_of_opener(const FileHandle& handle);
// What such a handle is without it.
FileHandle as_files(FileHandle handle);

// Where a file's attribute cell is: at the site that gave its fileID out.
inline SiteId directory_site_of(FileId file) {
  return SiteId{static_cast<std::uint32_t>(file.value >> 48)};
}
// The root directory's, as every part of the ensemble knows it: fileID 1 at directory site 0.
FileHandle root_handle(const VolumeConfig& volume);

using HandleBytes = std::array<std::uint8_t, wire::kHandleSize>;

// Mints and opens the handles of one volume. Immutable, thread-safe.
class HandleCodec {
 public:
  HandleCodec(VolumeId volume, std::array<std::uint8_t, 16> key) : volume_(volume), key_(key) {}
  explicit HandleCodec(const EnsembleConfig& config) : HandleCodec(config.volume.id, config.handle_key) {}

  // The handle as clients hold it: hint zero.
  HandleBytes mint(const FileHandle& handle) const;
  // kInvalid (NFS3ERR_BADHANDLE) for a wrong length, version, volume, type or MAC.
  Result<FileHandle> open(ByteView bytes) const;
  VolumeId volume() const { return volume_; }

 private:
  VolumeId volume_;
  std::array<std::uint8_t, 16> key_;
};

}  // namespace slice::routing

#endif  // SLICE_ROUTING_FILE_HANDLE_H
