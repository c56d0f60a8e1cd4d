#include "common/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace slice {
namespace {

constexpr std::size_t kPiece = 64 << 10;  // bytes a system call, since not every file says how long it is

tl::unexpected<Error> system_error() {
  return fail(errno == ENOENT ? Errc::kNotFound : Errc::kIo, "{}", std::strerror(errno));
}

Result<WholeFile> read_descriptor(int fd, std::size_t limit) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return system_error();
  if (S_ISDIR(info.st_mode)) return fail(Errc::kInvalid, "is not a file but a directory");
  WholeFile file{.bytes = {}, .mode = info.st_mode};
  while (true) {
    const std::size_t before = file.bytes.size();
    file.bytes.resize(before + std::min(kPiece, limit + 1 - before));
    const ssize_t got = ::read(fd, file.bytes.data() + before, file.bytes.size() - before);
    const int error = errno;
    file.bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error != EINTR) {
      errno = error;
      return system_error();
    }
    if (got == 0) return file;
    if (file.bytes.size() > limit) return fail(Errc::kTooLarge, "has more than {} bytes", limit);
  }
}

}  // namespace

Result<WholeFile> read_whole_file_at(int folder, const std::string& path, std::size_t limit) {
  const int fd = ::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error();
  auto file = read_descriptor(fd, limit);
  ::close(fd);
  return file;
}

Result<WholeFile> read_whole_file(const std::string& path, std::size_t limit) {
  return read_whole_file_at(AT_FDCWD, path, limit);
}

}  // namespace slice
