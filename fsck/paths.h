// find_paths: under which paths files are that something names by fileIDs: traces, `slicectl top`, logs,
// findings.
#ifndef SLICE_FSCK_PATHS_H
#define SLICE_FSCK_PATHS_H

#include <string>
#include <string_view>
#include <vector>

#include "dirserver/cells/placement.h"
#include "dirserver/fsck/source.h"

namespace slice::fsck {

struct FilePaths {
  FileId file;
  bool exists = false;
  std::uint32_t links = 0;         // names that it has, by its attributes
  std::vector<std::string> paths;  // those that were found; fewer where names change meanwhile
};

// In the order of `files`. A directory is found by its parents. Of other files the names are read: of the
// sites that made them first, then of all, until as many are found as there are links. Errors: cells cannot
// be read.
Task<Result<std::vector<FilePaths>>> find_paths(dirserver::fsck::CellSource& cells,
                                                const dirserver::Placement& placement,
                                                std::vector<FileId> files);

// As slice-fsck prints them: a line a path, behind the file's number.
std::string render(const std::vector<FilePaths>& found, bool json);
// 17, or 0x11. kInvalid: neither.
Result<FileId> parse_fileid(const std::string& text);

}  // namespace slice::fsck

#endif  // SLICE_FSCK_PATHS_H
