// Bringing one server's data directory back from a backup, while the others serve (docs/operations.md, "When
// a disk is lost"). What went back in time is fitted to what did not: names to the bytes that data servers
// have by now, bytes to the names that there are by now. Where bytes are gone nobody is shown zeros for them.
// The data directory is claimed, empty, and marked as being filled. Blocks where disks do; one loop.
#ifndef SLICE_BACKUP_RESTORE_H
#define SLICE_BACKUP_RESTORE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backup/format.h"
#include "common/config.h"
#include "common/loop.h"
#include "dirserver/fsck/source.h"
#include "routing/tables.h"
#include "service/object_source.h"
#include "storage/disk.h"

namespace slice::backup {

// What is told of a file that is not as it was.
struct Note {
  FileId file;
  std::string what;
};

struct RestoreSeams {
  Loop& loop;
  storage::Disk& disk;       // the data directory
  const ServerConfig& self;  // data: its path
  const EnsembleConfig& config;
  const std::shared_ptr<const routing::RoutingTables>& tables;  // the manager's
  std::vector<std::unique_ptr<Reader>>& files;                  // of the server's role, at their beginning
  std::function<void(const Note&)> note;
};

// fileIDs that are given out after a restore begin so far behind those of the backup: what was given out
// since is not given again.
inline constexpr std::uint64_t kFileIdsSkipped = std::uint64_t{1} << 40;

struct RestoredNames {
  std::uint64_t cells = 0, grown = 0, cut = 0, gone = 0;
};
// A directory server. `data_servers`: all that may have bytes. kNotFound: a site that this server has is in
// no file; kInvalid: made for another volume.
Task<Result<RestoredNames>> restore_names(
    RestoreSeams seams, const std::vector<std::unique_ptr<service::ObjectSource>>& data_servers);

struct RestoredFiles {
  std::uint64_t files = 0;   // brought back
  std::uint64_t older = 0;   // of them: written since, and back to what they were
  std::uint64_t lost = 0;    // of whose bytes some are answered as errors, until they are written
  std::uint64_t unused = 0;  // removed since
};
// A small-file server. `cells`: those of all directory servers, as they are; `then`: the backup's files of
// directory servers. By both it is known what has happened to a file since.
Task<Result<RestoredFiles>> restore_files(RestoreSeams seams, dirserver::fsck::CellSource& cells,
                                          std::vector<std::unique_ptr<Reader>>& then);

// A manager: so many files of its state.
Task<Result<std::uint64_t>> restore_state(RestoreSeams seams);

}  // namespace slice::backup

#endif  // SLICE_BACKUP_RESTORE_H
