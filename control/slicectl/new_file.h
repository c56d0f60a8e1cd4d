// Files that a command makes, and overwrites none.
#ifndef SLICE_CONTROL_SLICECTL_NEW_FILE_H
#define SLICE_CONTROL_SLICECTL_NEW_FILE_H

#include <sys/types.h>

#include <string>

#include "common/result.h"

namespace slice::slicectl {

// Durably. kExists: there is one; kIo, and then there is none.
Status write_new_file(const std::string& path, const std::string& text, mode_t mode);
// Durably, at the end of one that is there. kIo.
Status append_to_file(const std::string& path, const std::string& text);
// The folder of a file, as a path to put a name behind: "/etc/slice/" of "/etc/slice/ensemble.toml".
std::string folder_of(const std::string& path);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_NEW_FILE_H
