// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of everything stored.
#ifndef SLICE_COMMON_CRC32C_H
#define SLICE_COMMON_CRC32C_H

#include <cstdint>

#include "common/bytes.h"

namespace slice {

// Extends `crc` (0 for a new one) over `bytes`. Uses the processor's instruction where it has one.
std::uint32_t crc32c(ByteView bytes, std::uint32_t crc = 0);

}  // namespace slice

#endif  // SLICE_COMMON_CRC32C_H
