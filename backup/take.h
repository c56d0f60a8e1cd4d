// take_backup: what directory servers, small-file servers and the manager have, into files of a folder, while
// they serve (docs/operations.md, "Backups"). All directory servers' cells are of one moment (SNAPSHOT,
// wire/scan.h); each file's bytes are of one moment, a little later.
#ifndef SLICE_BACKUP_TAKE_H
#define SLICE_BACKUP_TAKE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/config.h"
#include "common/loop.h"
#include "common/task.h"
#include "routing/tables.h"
#include "rpc/channel.h"

namespace slice::backup {

struct TakeSeams {
  Loop& loop;
  rpc::Channel& channel;
  const EnsembleConfig& config;
  std::shared_ptr<const routing::RoutingTables> tables;  // the manager's
  std::string folder;                                    // is there, and is empty
  Duration timeout = std::chrono::seconds(30);           // of each answer
  std::function<void(const std::string&)> say;           // a server's file is whole
};

struct Taken {
  std::uint64_t cells = 0, files = 0;
  Duration held{};  // clients waited for so long
};

// An error: one of the servers does not answer, or cannot be read; what was written is no backup then.
Task<Result<Taken>> take_backup(TakeSeams seams);

}  // namespace slice::backup

#endif  // SLICE_BACKUP_TAKE_H
