// Place: what processes on this host know of the proxy for one virtual server, in a folder that is empty
// after a boot: its port, which it keeps over restarts, since mounts name it; the routes that it was told
// last; whether one runs; whether a mount is being made.
#ifndef SLICE_CONTROL_CLIENTD_PLACE_H
#define SLICE_CONTROL_CLIENTD_PLACE_H

#include <filesystem>

#include "control/clientd/client_proxy.h"

namespace slice::clientd {

// Closed, and so let go, with the process at the latest.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileLock();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  friend class Place;
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

class Place {
 public:
  // The folder is made where it is missing. kIo.
  static Result<Place> open(const std::filesystem::path& folder, const Server& server);

  // For the proxy, as long as it runs. kUnavailable where another one does.
  Result<FileLock> serve() const;
  bool is_served() const;
  // The port that was kept; one that is free, and is kept from now on, where none was. kIo.
  Result<std::uint16_t> port() const;
  // For who makes a mount, from before it looks whether a proxy runs until the mount is there: waits as long
  // as the proxy is about to end. kIo.
  Result<FileLock> mounting() const;
  // For a proxy that is about to end since nobody uses it. None where a mount is being made.
  FileLock ending() const;
  std::filesystem::path log() const;
  // Of kept_routes.h.
  std::filesystem::path routes() const;

 private:
  Place(std::filesystem::path folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}
  Result<FileLock> lock(const char* suffix, int how) const;
  std::filesystem::path file(const char* suffix) const { return folder_ / (name_ + suffix); }

  std::filesystem::path folder_;
  std::string name_;
};

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_PLACE_H
