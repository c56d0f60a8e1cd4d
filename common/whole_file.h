// read_whole_file(): a small file whole, such as a configuration, a key or the mark of a store: whoever wrote
// the path may have meant another.
#ifndef SLICE_COMMON_WHOLE_FILE_H
#define SLICE_COMMON_WHOLE_FILE_H

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "common/result.h"

namespace slice {

struct WholeFile {
  std::string bytes;
  mode_t mode = 0;  // type and permissions
};

// What can be read to its end counts: a pipe, or a file of /proc, too. Errors do not name the path.
// kNotFound; kInvalid: a directory; kTooLarge: over `limit` bytes; kIo. Blocks. Any thread.
Result<WholeFile> read_whole_file(const std::string& path, std::size_t limit);
// The same relative to an open directory (openat).
Result<WholeFile> read_whole_file_at(int folder, const std::string& path, std::size_t limit);

}  // namespace slice

#endif  // SLICE_COMMON_WHOLE_FILE_H
