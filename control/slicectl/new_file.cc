#include "control/slicectl/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace slice::slicectl {
namespace {

// Closes it.
Status write_durably(int file, const std::string& path, const std::string& text) {
  int error = 0;
  std::size_t done = 0;
  while (error == 0 && done < text.size()) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && ::fsync(file) != 0) error = errno;
  ::close(file);
  if (error != 0) return fail(Errc::kIo, "{}: {}", path, std::strerror(error));
  return {};
}

}  // namespace

Status write_new_file(const std::string& path, const std::string& text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file < 0 && errno == EEXIST) return fail(Errc::kExists, "{} is there already", path);
  if (file < 0) return fail(Errc::kIo, "{}: {}", path, std::strerror(errno));
  Status written = write_durably(file, path, text);
  if (!written) ::unlink(path.c_str());
  return written;
}

Status append_to_file(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return fail(Errc::kIo, "{}: {}", path, std::strerror(errno));
  return write_durably(file, path, text);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace slice::slicectl
