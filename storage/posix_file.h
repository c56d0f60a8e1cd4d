// The open files of PosixDisk, and how it reports what the system refused. For posix_disk.cc, and the last
// for rocks_guard.cc, only.
#ifndef SLICE_STORAGE_POSIX_FILE_H
#define SLICE_STORAGE_POSIX_FILE_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "storage/direct_reads.h"
#include "storage/disk.h"
#include "storage/uring.h"
#include "storage/workers.h"

namespace slice::storage::posix {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int fd() const { return fd_; }
  // Where it has none.
  void reset(int fd) { fd_ = fd; }

 private:
  int fd_;
};

// What a path is in, as open(2) takes it: "." for a name alone.
std::string folder_of(const std::string& path);

// errno as an Error: "PATH: WHAT: reason".
tl::unexpected<Error> system_error(std::string_view path, std::string_view what);

// What the files of one disk share. The loop's thread only, but for what runs inside the workers.
struct Io {
  Workers workers;
  std::unique_ptr<Uring> uring;  // nothing: workers read what is not in memory
  // The file system has no other place for bytes: reads, writes and syncs wait for nothing, and are done at
  // once. tmpfs does not know RWF_NOWAIT, and io_uring hands its reads to a thread of the kernel's.
  bool in_memory = false;
  DirectReads direct;
  std::uint64_t unsynced_bytes = 0;
  std::uint64_t inline_unsynced_bytes;
};

// Takes `fd` over. `root` is the data directory, which outlives the file.
std::unique_ptr<File> make_file(Io& io, int root, std::string path, int fd, bool created);

}  // namespace slice::storage::posix

#endif  // SLICE_STORAGE_POSIX_FILE_H
