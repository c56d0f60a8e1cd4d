// The ensemble's secrets, as they lie in files, and the keys that are derived from them.
#ifndef SLICE_COMMON_KEYS_H
#define SLICE_COMMON_KEYS_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "common/result.h"

namespace slice {

using Key = std::array<std::uint8_t, 16>;

// The bytes of a key file: 16 to 4096 of them, open to its owner alone. kInvalid: "'PATH' ...", for who reads
// a log.
Result<std::string> read_secret(const std::string& path);
// The same, but nothing where the file is there and empty.
Result<std::string> read_secret_or_nothing(const std::string& path);

// The first 16 bytes of SHA-256 over purpose, number (4 bytes, big-endian) and secret.
Key derive_key(std::string_view purpose, std::uint32_t number, ByteView secret);

}  // namespace slice

#endif  // SLICE_COMMON_KEYS_H
