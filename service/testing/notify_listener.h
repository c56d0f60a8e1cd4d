// NotifyListener: who listens where $NOTIFY_SOCKET says, as a service manager does.
#ifndef SLICE_SERVICE_TESTING_NOTIFY_LISTENER_H
#define SLICE_SERVICE_TESTING_NOTIFY_LISTENER_H

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace slice::service::testing {

// At a path, or, with "@", at an abstract name.
class NotifyListener {
 public:
  explicit NotifyListener(std::string name) : name_(std::move(name)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    std::size_t size = offsetof(sockaddr_un, sun_path) + name_.size() + 1;
    if (name_.starts_with('@')) {
      address.sun_path[0] = 0;
      --size;
    }
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bound_ = ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size)) == 0;
  }
  NotifyListener(const NotifyListener&) = delete;
  NotifyListener& operator=(const NotifyListener&) = delete;
  ~NotifyListener() {
    ::close(fd_);
    if (name_.starts_with('/')) std::filesystem::remove(name_);
  }

  bool bound() const { return bound_; }
  // What has come since.
  std::vector<std::string> heard() const {
    std::vector<std::string> all;
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::recv(fd_, buffer.data(), buffer.size(), 0)) >= 0)
      all.emplace_back(buffer.data(), static_cast<std::size_t>(got));
    return all;
  }

 private:
  std::string name_;
  int fd_;
  bool bound_;
};

}  // namespace slice::service::testing

#endif  // SLICE_SERVICE_TESTING_NOTIFY_LISTENER_H
