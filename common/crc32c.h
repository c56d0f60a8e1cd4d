// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of everything stored.
#ifndef SLICE_COMMON_CRC32C_H
#define SLICE_COMMON_CRC32C_H

#include <cstdint>

#include "common/bytes.h"

namespace slice {

// Extends `crc` (0 for a new one) over `bytes`. Uses the processor's instruction where it has one.
std::uint32_t crc32c(ByteView bytes, std::uint32_t crc = 0);

// The checksum of each block of `block` bytes, into `each`; bytes.size() is a multiple of `block`, which is a
// multiple of 8. Several blocks are worked on at once, which is three times as fast as one after the other.
void crc32c_each(ByteView bytes, std::size_t block, std::uint32_t* each);

}  // namespace slice

#endif  // SLICE_COMMON_CRC32C_H
