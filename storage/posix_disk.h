// PosixDisk: the real Disk: files below one folder of a local file system (XFS, ext4). What the page cache
// answers is done on the loop's thread; reads that have to wait go to io_uring, what else would block to a
// few worker threads, which resume through Loop::post_from_any_thread(). Writes go to the page cache; sync()
// is an fsync shared by those who wait for it.
#ifndef SLICE_STORAGE_POSIX_DISK_H
#define SLICE_STORAGE_POSIX_DISK_H

#include <memory>
#include <string>

#include "common/loop.h"
#include "storage/disk.h"

namespace slice::storage {

class Workers;

// Whether this folder's file system has no other place for bytes than memory (tmpfs, ramfs): nothing there
// waits for a device. False too where that cannot be told.
bool is_in_memory(const std::string& folder);

class PosixDisk : public Disk {
 public:
  struct Options {
    unsigned threads = 4;
    // What is not in memory is read by io_uring, where the system has it; else by the threads, as all the
    // rest.
    bool io_uring = true;
    // What is not in memory is read past the page cache where that pays (storage/direct_reads.h); with
    // io_uring alone.
    bool direct_reads = true;
    // Bytes written and not yet synced, over all files, above which writes go to the workers: the system
    // makes heavy writers wait for its disk, and the loop must not.
    std::uint64_t inline_unsynced_bytes = 64 << 20;
  };
  // kIo, kNotFound where `folder` cannot be opened.
  static Result<std::unique_ptr<PosixDisk>> open(Loop& loop, const std::string& folder);
  static Result<std::unique_ptr<PosixDisk>> open(Loop& loop, const std::string& folder, Options options);
  // No operation may be under way, and every File must be closed.
  ~PosixDisk() override;

  Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) override;
  Task<Status> remove(std::string path) override;
  Task<Status> rename(std::string from, std::string to) override;
  Task<Result<std::vector<std::string>>> list(std::string folder) override;
  Task<Status> sync_folder(std::string folder) override;
  Result<Space> space() const override;

 private:
  struct Shared;  // what files need of the disk

  PosixDisk(Loop& loop, int folder_fd, bool in_memory, Options options);

  std::unique_ptr<Shared> shared_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_POSIX_DISK_H
