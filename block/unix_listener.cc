#include "block/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace slice::block {
namespace {

constexpr mode_t kMode = 0660;

int unix_socket() {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return {};  // bind() says what is wrong
  if (!S_ISSOCK(found.st_mode)) return fail(Errc::kExists, "'{}' is there, and no socket", path);
  const int fd = unix_socket();
  if (fd < 0) return fail(Errc::kIo, "cannot make a socket: {}", std::strerror(errno));
  const bool gone = ::connect(fd, generic(address), sizeof address) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  if (!gone) return fail(Errc::kExists, "'{}' is another process's", path);
  if (::unlink(path.c_str()) != 0)
    return fail(Errc::kIo, "cannot replace '{}': {}", path, std::strerror(errno));
  return {};
}

}  // namespace

Result<UnixListener> UnixListener::listen(std::string path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(Errc::kInvalid, "'{}': a socket's path has 1 to {} bytes", path, sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  SLICE_RETURN_IF_ERROR(remove_stale(path, address));
  const int fd = unix_socket();
  if (fd < 0) return fail(Errc::kIo, "cannot make a socket: {}", std::strerror(errno));
  if (::bind(fd, generic(address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    return fail(Errc::kIo, "cannot bind '{}': {}", path, std::strerror(error));
  }
  UnixListener made(std::move(path), fd);
  made.note_file();
  // Nobody can connect before it listens.
  if (::chmod(made.path_.c_str(), kMode) != 0 || ::listen(fd, SOMAXCONN) != 0)
    return fail(Errc::kIo, "cannot listen on '{}': {}", made.path_, std::strerror(errno));
  return made;
}

void UnixListener::note_file() {
  struct stat own{};
  if (::lstat(path_.c_str(), &own) != 0) return;
  device_ = own.st_dev;
  inode_ = own.st_ino;
}

UnixListener::UnixListener(UnixListener&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      fd_(std::exchange(other.fd_, -1)),
      device_(other.device_),
      inode_(other.inode_) {}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

UnixListener::~UnixListener() {
  if (fd_ >= 0) ::close(fd_);
  struct stat found{};
  if (path_.empty() || ::lstat(path_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) ::unlink(path_.c_str());
}

int UnixListener::release() {
  return std::exchange(fd_, -1);
}

}  // namespace slice::block
