// Where an object is, as its handle says.
#ifndef SLICE_TESTS_BENCH_SITES_H
#define SLICE_TESTS_BENCH_SITES_H

#include "bpf/shared/file_handle.h"
#include "tests/cluster/client/nfs_connection.h"

namespace slice::client {

// The directory site of its attributes, which under both policies is where a file's name is too. Throws
// RpcError for a handle that is not of Slice.
inline std::uint32_t directory_site(const Handle& handle) {
  if (handle.bytes().size() != SLICE_HANDLE_SIZE) throw RpcError("a handle of another kind of server");
  slice_handle fields;
  slice_handle_decode(reinterpret_cast<const std::uint8_t*>(handle.bytes().data()), &fields);
  return fields.site;
}

}  // namespace slice::client

#endif  // SLICE_TESTS_BENCH_SITES_H
