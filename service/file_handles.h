// handles_of: of which files bytes are that a server has, and how large these are, as their directory servers
// say. One loop.
#ifndef SLICE_SERVICE_FILE_HANDLES_H
#define SLICE_SERVICE_FILE_HANDLES_H

#include <optional>
#include <vector>

#include "routing/file_handle.h"
#include "service/context.h"

namespace slice::service {

struct SizedFile {
  routing::FileHandle handle;
  std::uint64_t size = 0;  // of what data servers were told of within the last second it may lack something
};

// One for each, in the order of `files`; nothing: there is no such file any more, or it is no regular one.
// kUnavailable: a directory server does not say.
Task<Result<std::vector<std::optional<SizedFile>>>> handles_of(ServiceContext& context,
                                                               std::vector<FileId> files);

}  // namespace slice::service

#endif  // SLICE_SERVICE_FILE_HANDLES_H
