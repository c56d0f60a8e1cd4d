// BackedDisk: the files of a backing set as a storage::Disk, for logs, zones and all else that a server
// keeps. A write is sent and not waited for; a sync is over when all members have it on their disks. One
// loop.
#ifndef SLICE_SERVICE_BACKING_BACKED_DISK_H
#define SLICE_SERVICE_BACKING_BACKED_DISK_H

#include <memory>
#include <string>
#include <vector>

#include "service/backing/backing_set.h"
#include "storage/disk.h"

namespace slice::service {

// Where the set is lost every operation is kIo, for good. kNoSpace is told by what the members said they had
// free; a member whose disk is full nevertheless is taken out of the set like one that is silent.
// data_ranges() knows of no holes.
class BackedDisk : public storage::Disk {
 public:
  // `set` outlives it, and is open before anything but space() is called.
  explicit BackedDisk(BackingSet& set) : set_(set) {}

  Task<Result<std::unique_ptr<storage::File>>> open(std::string path, Mode mode) override;
  Task<Status> remove(std::string path) override;
  Task<Status> rename(std::string from, std::string to) override;
  Task<Result<std::vector<std::string>>> list(std::string folder) override;
  Task<Status> sync_folder(std::string folder) override;
  Result<storage::Space> space() const override;

 private:
  BackingSet& set_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_BACKING_BACKED_DISK_H
