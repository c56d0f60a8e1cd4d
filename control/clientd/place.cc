#include "control/clientd/place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "rpc/bound_socket.h"

namespace slice::clientd {
namespace {

constexpr const char *kServing = ".serving", *kMounting = ".mounting", *kPort = ".port", *kLog = ".log",
                     *kRoutes = ".routes";

}  // namespace

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Place> Place::open(const std::filesystem::path& folder, const Server& server) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(Errc::kIo, "{}: {}", folder.string(), error.message());
  return Place(folder, to_string(server));
}

Result<FileLock> Place::lock(const char* suffix, int how) const {
  const int fd = ::open(file(suffix).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return fail(Errc::kIo, "{}: {}", file(suffix).string(), std::strerror(errno));
  FileLock held(fd);
  while (::flock(fd, how) != 0) {
    if (errno == EINTR) continue;
    const bool busy = errno == EWOULDBLOCK;
    return fail(busy ? Errc::kUnavailable : Errc::kIo, "{}: {}", file(suffix).string(),
                busy ? "another process has it" : std::strerror(errno));
  }
  return held;
}

Result<FileLock> Place::serve() const {
  return lock(kServing, LOCK_EX | LOCK_NB);
}

bool Place::is_served() const {
  auto held = lock(kServing, LOCK_SH | LOCK_NB);
  return !held && held.error().code == Errc::kUnavailable;
}

Result<FileLock> Place::mounting() const {
  return lock(kMounting, LOCK_SH);
}

FileLock Place::ending() const {
  auto held = lock(kMounting, LOCK_EX | LOCK_NB);
  return held ? std::move(*held) : FileLock{};
}

Result<std::uint16_t> Place::port() const {
  std::uint16_t port = 0;
  if (std::ifstream in(file(kPort)); in >> port && port != 0) return port;
  auto fd = rpc::bound_socket(SOCK_STREAM, {kLoopback, 0});
  if (!fd) return fail(std::move(fd).error());
  port = rpc::local_endpoint(*fd).port;
  ::close(*fd);
  std::ofstream out(file(kPort), std::ios::trunc);
  out << port << '\n';
  out.flush();
  if (!out) return fail(Errc::kIo, "cannot write {}", file(kPort).string());
  return port;
}

std::filesystem::path Place::log() const {
  return file(kLog);
}

std::filesystem::path Place::routes() const {
  return file(kRoutes);
}

}  // namespace slice::clientd
