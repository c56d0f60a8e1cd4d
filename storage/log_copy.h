// LogCopy: a copy of a log of a process that is stopped, for a checker: opening one cuts what was being
// written.
#ifndef SLICE_STORAGE_LOG_COPY_H
#define SLICE_STORAGE_LOG_COPY_H

#include <memory>
#include <string>

#include "common/loop.h"
#include "common/result.h"
#include "storage/disk.h"

namespace slice::storage {

class LogCopy {
 public:
  // Of the log in the folder `name` of this data directory, with what says how far it went, in a new folder
  // of the temporary ones, which goes with this. Blocks. kIo.
  static Result<std::unique_ptr<LogCopy>> make(Loop& loop, const std::string& folder,
                                               const std::string& name);
  explicit LogCopy(std::string place) : place_(std::move(place)) {}
  LogCopy(const LogCopy&) = delete;
  LogCopy& operator=(const LogCopy&) = delete;
  ~LogCopy();
  // Where Log::open() finds it, by its name. Who has opened it there goes first.
  Disk& disk() { return *disk_; }

 private:
  const std::string place_;
  std::unique_ptr<Disk> disk_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_LOG_COPY_H
