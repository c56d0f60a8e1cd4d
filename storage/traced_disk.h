// TracedDisk: a Disk whose reads, writes and syncs are steps of the operation that waits for them
// (common/trace.h), while somebody watches. One loop.
#ifndef SLICE_STORAGE_TRACED_DISK_H
#define SLICE_STORAGE_TRACED_DISK_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/disk.h"

namespace slice::storage {

class TracedDisk : public Disk {
 public:
  // `on`: whether somebody watches; asked at each operation.
  TracedDisk(std::unique_ptr<Disk> disk, std::function<bool()> on);
  ~TracedDisk() override;

  Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) override;
  Task<Status> remove(std::string path) override { return disk_->remove(std::move(path)); }
  Task<Status> rename(std::string from, std::string to) override {
    return disk_->rename(std::move(from), std::move(to));
  }
  Task<Result<std::vector<std::string>>> list(std::string folder) override {
    return disk_->list(std::move(folder));
  }
  Task<Status> sync_folder(std::string folder) override { return disk_->sync_folder(std::move(folder)); }
  Result<Space> space() const override { return disk_->space(); }

 private:
  const std::unique_ptr<Disk> disk_;
  const std::function<bool()> on_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_TRACED_DISK_H
