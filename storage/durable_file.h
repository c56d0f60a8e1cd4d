// Small files that are replaced whole or not at all, with a checksum behind their contents: the manager's
// state and every process's copy of the tables. Format: the contents, then their CRC-32C, big-endian.
#ifndef SLICE_STORAGE_DURABLE_FILE_H
#define SLICE_STORAGE_DURABLE_FILE_H

#include <cstddef>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "storage/disk.h"

namespace slice::storage {

inline constexpr std::size_t kChecksumBytes = 4;

// The format without a file, for what is kept elsewhere.
Buffer with_checksum(Buffer contents);
// kCorrupt, with this name, where the checksum does not fit.
Result<Buffer> without_checksum(Buffer stored, std::string_view name);

// Durable when it ends well: a new file beside it is written, synced and renamed over it, and its folder
// synced. Calls for one name must not overlap.
Task<Status> replace_file(Disk& disk, std::string name, Buffer contents);

// kNotFound where there is none, kCorrupt where the checksum does not fit, kTooLarge over `limit` bytes.
Task<Result<Buffer>> read_file(Disk& disk, std::string name, std::size_t limit = 16 << 20);

}  // namespace slice::storage

#endif  // SLICE_STORAGE_DURABLE_FILE_H
