#include "storage/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "storage/posix_file.h"
#include "storage/workers.h"

namespace slice::storage {

using posix::Descriptor;
using posix::folder_of;
using posix::system_error;

bool is_in_memory(const std::string& folder) {
  struct statfs found{};
  return ::statfs(folder.c_str(), &found) == 0 &&
         (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC);
}

struct PosixDisk::Shared {
  Shared(Loop& loop, int folder, bool in_memory, const Options& options)
      : root(folder),
        io{.workers = Workers(loop, options.threads),
           .uring = options.io_uring ? Uring::make(loop) : nullptr,
           .in_memory = in_memory,
           .direct = DirectReads(options.direct_reads && !in_memory),
           .inline_unsynced_bytes = options.inline_unsynced_bytes} {}
  Descriptor root;
  posix::Io io;
};

namespace {

Status sync_folder_now(int root, const std::string& folder) {
  Descriptor opened(
      ::openat(root, folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.fd() < 0) return system_error(folder, "open folder");
  if (::fsync(opened.fd()) != 0) return system_error(folder, "fsync folder");
  return {};
}

// Makes the folders above `path` that are missing, each durable in its parent before anything is put in it.
Status make_folders(int root, const std::string& path) {
  for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    std::string folder = path.substr(0, slash);
    if (::mkdirat(root, folder.c_str(), 0700) == 0) {
      SLICE_RETURN_IF_ERROR(sync_folder_now(root, folder_of(folder)));
    } else if (errno != EEXIST) {
      return system_error(folder, "mkdir");
    }
  }
  return {};
}

struct Opened {
  int fd = -1;
  bool created = false;
};

Result<Opened> open_now(int root, const std::string& path, Disk::Mode mode) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOATIME;
  // O_NOATIME needs the file to be ours, which every file of a data directory is; where it is refused the
  // file is opened without.
  auto attempt = [&](int more) {
    int fd = ::openat(root, path.c_str(), kFlags | more, 0600);
    if (fd < 0 && errno == EPERM) fd = ::openat(root, path.c_str(), (kFlags & ~O_NOATIME) | more, 0600);
    return fd;
  };
  if (int fd = attempt(0); fd >= 0) return Opened{fd, false};
  if (errno != ENOENT || mode == Disk::Mode::kMustExist) return system_error(path, "open");
  SLICE_RETURN_IF_ERROR(make_folders(root, path));
  int fd = attempt(O_CREAT);
  if (fd < 0) return system_error(path, "create");
  return Opened{fd, true};
}

Result<std::vector<std::string>> list_now(int root, const std::string& folder) {
  int fd = ::openat(root, folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::vector<std::string>{};
    return system_error(folder, "open folder");
  }
  DIR* stream = ::fdopendir(fd);
  if (stream == nullptr) {
    auto error = system_error(folder, "list folder");
    ::close(fd);
    return error;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  int error = errno;
  ::closedir(stream);
  errno = error;
  if (error != 0) return system_error(folder, "list folder");
  return names;
}

}  // namespace

Result<std::unique_ptr<PosixDisk>> PosixDisk::open(Loop& loop, const std::string& folder) {
  return open(loop, folder, Options{});
}

Result<std::unique_ptr<PosixDisk>> PosixDisk::open(Loop& loop, const std::string& folder, Options options) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(folder, "open data directory");
  return std::unique_ptr<PosixDisk>(new PosixDisk(loop, fd, is_in_memory(folder), options));
}

PosixDisk::PosixDisk(Loop& loop, int folder_fd, bool in_memory, Options options)
    : shared_(std::make_unique<Shared>(loop, folder_fd, in_memory, options)) {}
PosixDisk::~PosixDisk() = default;

Task<Result<std::unique_ptr<File>>> PosixDisk::open(std::string path, Mode mode) {
  int root = shared_->root.fd();
  auto opened = co_await shared_->io.workers.run([root, &path, mode] { return open_now(root, path, mode); });
  if (!opened) co_return fail(opened.error());
  co_return posix::make_file(shared_->io, root, path, opened->fd, opened->created);
}

Task<Status> PosixDisk::remove(std::string path) {
  int root = shared_->root.fd();
  co_return co_await shared_->io.workers.run([root, &path]() -> Status {
    if (::unlinkat(root, path.c_str(), 0) == 0) return {};
    if (errno == EISDIR && ::unlinkat(root, path.c_str(), AT_REMOVEDIR) == 0) return {};
    return system_error(path, "remove");
  });
}

Task<Status> PosixDisk::rename(std::string from, std::string to) {
  int root = shared_->root.fd();
  co_return co_await shared_->io.workers.run([root, &from, &to]() -> Status {
    SLICE_RETURN_IF_ERROR(make_folders(root, to));
    if (::renameat(root, from.c_str(), root, to.c_str()) == 0) return {};
    return system_error(from, "rename");
  });
}

Task<Result<std::vector<std::string>>> PosixDisk::list(std::string folder) {
  int root = shared_->root.fd();
  co_return co_await shared_->io.workers.run([root, &folder] { return list_now(root, folder); });
}

Task<Status> PosixDisk::sync_folder(std::string folder) {
  int root = shared_->root.fd();
  co_return co_await shared_->io.workers.run([root, &folder] { return sync_folder_now(root, folder); });
}

Result<Space> PosixDisk::space() const {
  struct statvfs found{};
  if (::fstatvfs(shared_->root.fd(), &found) != 0) return system_error("data directory", "statvfs");
  return Space{found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files,
               found.f_favail};
}

}  // namespace slice::storage
