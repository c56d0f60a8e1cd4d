// Where the bytes of a file begin in a message: what sessions leave uncovered under Coverage::kHeads
// (docs/formats/session.md).
#ifndef SLICE_RPC_BULK_DATA_H
#define SLICE_RPC_BULK_DATA_H

#include <cstddef>
#include <optional>

#include "common/bytes.h"

namespace slice::rpc {

// By the first bytes of an RPC message of `size` bytes: how many of it stand before the data of an NFSv3
// WRITE or of a READ's answer (RFC 1813, 3.3.6 and 3.3.7), which reach to its end; `size` where there are
// none. Nothing: that takes more of the first bytes. The answer to another procedure that looks like a READ's
// is taken for one.
std::optional<std::size_t> bytes_before_data(ByteView first, std::size_t size);

}  // namespace slice::rpc

#endif  // SLICE_RPC_BULK_DATA_H
