// ReadOnlyDisk: another Disk, of which nothing can be changed: for checkers of what a stopped server has.
#ifndef SLICE_STORAGE_READ_ONLY_DISK_H
#define SLICE_STORAGE_READ_ONLY_DISK_H

#include <memory>
#include <string>
#include <vector>

#include "storage/disk.h"

namespace slice::storage {

class ReadOnlyDisk : public Disk {
 public:
  // `disk` outlives it. What would change something ends with kDenied.
  explicit ReadOnlyDisk(Disk& disk) : disk_(disk) {}

  Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) override;
  Task<Status> remove(std::string path) override;
  Task<Status> rename(std::string from, std::string to) override;
  Task<Result<std::vector<std::string>>> list(std::string folder) override { return disk_.list(folder); }
  Task<Status> sync_folder(std::string folder) override;
  Result<Space> space() const override { return disk_.space(); }

 private:
  Disk& disk_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_READ_ONLY_DISK_H
