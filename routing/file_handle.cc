#include "routing/file_handle.h"

#include "bpf/shared/file_handle.h"

namespace slice::routing {

static_assert(std::tuple_size_v<HandleBytes> == SLICE_HANDLE_SIZE);
static_assert(wire::kHandleSize == SLICE_HANDLE_SIZE);

FileHandle root_handle(const VolumeConfig& volume) {
  FileHandle root;
  root.type = nfs3::FileType::kDirectory;
  root.stripe_shift = static_cast<std::uint8_t>(volume.stripe_shift);
  root.fileid = FileId{SLICE_ROOT_FILEID};
  return root;
}

FileHandle opened_at(FileHandle handle, Epoch epoch) {
  handle.flags |= SLICE_HANDLE_OPENERS;
  handle.cell_key = epoch.value;
  return handle;
}

std::optional<Epoch> epoch_of_opener(const FileHandle& handle) {
  if ((handle.flags & SLICE_HANDLE_OPENERS) == 0) return std::nullopt;
  return Epoch{static_cast<std::uint32_t>(handle.cell_key)};
}

// Nobody reads the key in a handle: cells have their own.
FileHandle as_files(FileHandle handle) {
  if (epoch_of_opener(handle)) handle.cell_key = 0;
  handle.flags &= static_cast<std::uint8_t>(~SLICE_HANDLE_OPENERS);
  return handle;
}

HandleBytes HandleCodec::mint(const FileHandle& handle) const {
  slice_handle raw{};
  raw.version = SLICE_HANDLE_VERSION;
  raw.type = static_cast<std::uint8_t>(handle.type);
  raw.flags = handle.flags;
  raw.stripe_shift = handle.stripe_shift;
  raw.volume = volume_.value;
  raw.fileid = handle.fileid.value;
  raw.tree = handle.tree.value;
  raw.site = static_cast<std::uint16_t>(handle.directory_site.value);
  raw.generation = handle.generation;
  raw.cell_key = handle.cell_key;
  HandleBytes bytes{};
  slice_handle_mint(&raw, key_.data(), bytes.data());
  return bytes;
}

Result<FileHandle> HandleCodec::open(ByteView bytes) const {
  if (bytes.size() != SLICE_HANDLE_SIZE) return fail(Errc::kInvalid, "file handle of {} bytes", bytes.size());
  slice_handle raw{};
  slice_handle_decode(bytes.data(), &raw);
  if (raw.version != SLICE_HANDLE_VERSION) {
    return fail(Errc::kInvalid, "file handle of version {}", raw.version);
  }
  if (raw.volume != volume_.value) return fail(Errc::kInvalid, "file handle of volume {}", raw.volume);
  if (slice_handle_check_mac(key_.data(), bytes.data()) == 0) {
    return fail(Errc::kInvalid, "file handle with a wrong MAC");
  }
  if (raw.type < 1 || raw.type > 7 || raw.fileid == 0 || raw.stripe_shift < SLICE_MIN_STRIPE_SHIFT ||
      raw.stripe_shift > SLICE_MAX_STRIPE_SHIFT) {
    return fail(Errc::kInvalid, "file handle with type {}, fileID {:#x}, stripe shift {}", raw.type,
                raw.fileid, raw.stripe_shift);
  }
  FileHandle handle;
  handle.type = static_cast<nfs3::FileType>(raw.type);
  handle.flags = raw.flags;
  handle.stripe_shift = raw.stripe_shift;
  handle.fileid = FileId{raw.fileid};
  handle.tree = TreeId{raw.tree};
  handle.directory_site = SiteId{raw.site};
  handle.generation = raw.generation;
  handle.cell_key = raw.cell_key;
  handle.hint.can_patch = slice_hint_can_patch(raw.hint) != 0;
  std::uint64_t size = 0;
  if (slice_hint_size(raw.hint, &size) != 0) handle.hint.size = size;
  return handle;
}

}  // namespace slice::routing
