// zeros(): what is written where a hole is.
#ifndef SLICE_STORAGENODE_ZEROS_H
#define SLICE_STORAGENODE_ZEROS_H

#include <array>
#include <cstdint>

#include "common/bytes.h"
#include "wire/nfs3.h"

namespace slice::storagenode {

// So many bytes that are 0, at most nfs3::kMaxTransfer, for as long as the process lives.
inline ByteView zeros(std::size_t count) {
  static std::array<std::uint8_t, nfs3::kMaxTransfer>
      bytes{};  // not const: so it takes no room in the program's file
  return ByteView(bytes).first(count);
}

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_ZEROS_H
