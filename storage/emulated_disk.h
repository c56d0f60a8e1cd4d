// EmulatedDisk: a Disk whose operations also take the time that a DiskModel says: each goes to the disk
// behind it, and ends when both it and the model's have ended. For measuring; see disk_model.h. One loop.
#ifndef SLICE_STORAGE_EMULATED_DISK_H
#define SLICE_STORAGE_EMULATED_DISK_H

#include <memory>
#include <string>
#include <vector>

#include "storage/disk.h"
#include "storage/disk_model.h"

namespace slice::storage {

class EmulatedDisk : public Disk {
 public:
  EmulatedDisk(Loop& loop, std::unique_ptr<Disk> disk, DiskModel::Options options, Metrics& metrics);
  // As of the disk behind it: no operation is under way, and every File is closed.
  ~EmulatedDisk() override;

  Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) override;
  Task<Status> remove(std::string path) override;
  // What is moved counts as not in memory afterwards.
  Task<Status> rename(std::string from, std::string to) override;
  Task<Result<std::vector<std::string>>> list(std::string folder) override;
  Task<Status> sync_folder(std::string folder) override;
  Result<Space> space() const override;

 private:
  Loop& loop_;
  std::unique_ptr<Disk> disk_;
  DiskModel model_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_EMULATED_DISK_H
