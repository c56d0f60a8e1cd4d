// What restores begin and end with.
#ifndef SLICE_BACKUP_SITES_H
#define SLICE_BACKUP_SITES_H

#include <vector>

#include "backup/restore.h"

namespace slice::backup {

// kInvalid: a file is of another volume, or made for what this one is not. kNotFound: one of these sites is
// in no file. kCorrupt: one is in two.
Status check_files(const RestoreSeams& seams, const std::vector<std::uint32_t>& own);
// In the end: writes the server's record of its sites, by the manager's tables.
Task<Status> record_sites(const RestoreSeams& seams);

}  // namespace slice::backup

#endif  // SLICE_BACKUP_SITES_H
