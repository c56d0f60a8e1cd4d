#include "service/notify.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "common/log.h"

namespace slice::service {
namespace {

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before threads
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// 0 where nobody looks, or at another process than this one.
Duration watchdog_of_environment() {
  const std::string_view time = variable("WATCHDOG_USEC"), whose = variable("WATCHDOG_PID");
  if (time.empty()) return Duration(0);
  constexpr std::uint64_t kLongest = 1'000'000ull * 86400 * 365;
  const auto microseconds = whole_number(time);
  if (!microseconds || *microseconds == 0 || *microseconds > kLongest) {
    log_warning("WATCHDOG_USEC='{}' is no number of microseconds from 1 to {}: no watchdog is told", time,
                kLongest);
    return Duration(0);
  }
  if (!whose.empty()) {
    const auto pid = whole_number(whose);
    if (!pid) {
      log_warning("WATCHDOG_PID='{}' is no process: no watchdog is told", whose);
      return Duration(0);
    }
    if (*pid != static_cast<std::uint64_t>(::getpid())) return Duration(0);
  }
  return std::chrono::microseconds(*microseconds);
}

}  // namespace

Notify::Notify(Notify&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      listener_(other.listener_),
      listener_size_(other.listener_size_),
      watchdog_(other.watchdog_),
      status_(std::move(other.status_)),
      ready_(other.ready_),
      watched_(other.watched_),
      failed_(other.failed_) {}

Notify::~Notify() {
  if (fd_ >= 0) ::close(fd_);
}

Notify Notify::from_environment() {
  const std::string_view listener = variable("NOTIFY_SOCKET");
  if (listener.empty()) return {};
  auto made = to(listener, watchdog_of_environment());
  if (made) return std::move(*made);
  log_warning("NOTIFY_SOCKET: {}: the service manager is told nothing", made.error().message);
  return {};
}

Result<Notify> Notify::to(std::string_view listener, Duration watchdog) {
  Notify notify;
  const bool abstract = listener.starts_with('@');
  if (!abstract && !listener.starts_with('/')) {
    return fail(Errc::kInvalid, "'{}' is neither an absolute path nor '@' and a name", listener);
  }
  // A path ends with a zero byte, an abstract name with the address.
  if (listener.size() < 2 || listener.size() + (abstract ? 0 : 1) > sizeof notify.listener_.sun_path) {
    return fail(Errc::kInvalid, "a name of {} bytes is none of a socket", listener.size());
  }
  notify.listener_.sun_family = AF_UNIX;
  std::copy(listener.begin(), listener.end(), notify.listener_.sun_path);
  if (abstract) notify.listener_.sun_path[0] = 0;
  notify.listener_size_ =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + listener.size() + (abstract ? 0 : 1));
  notify.fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (notify.fd_ < 0) return fail(Errc::kIo, "no socket: {}", std::strerror(errno));
  notify.watchdog_ = watchdog;
  return notify;
}

void Notify::status(std::string_view text) {
  if (!has_listener()) return;
  std::string line(text.substr(0, kMaxNotifyStatus));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
  if (line == status_) return;
  status_ = std::move(line);
  send("STATUS=" + status_);
}

void Notify::ready() {
  if (!has_listener() || std::exchange(ready_, true)) return;
  send(watchdog_ == Duration(0) ? "READY=1" : "READY=1\nWATCHDOG_USEC=0");
}

void Notify::alive() {
  if (!has_listener() || watchdog_ == Duration(0)) return;
  if (!std::exchange(watched_, true)) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(watchdog_);
    send(fmt::format("WATCHDOG_USEC={}", time.count()));
  }
  send("WATCHDOG=1");
}

void Notify::stopping() {
  if (has_listener()) send("STOPPING=1");
}

void Notify::send(std::string_view text) {
  const auto* to = reinterpret_cast<const sockaddr*>(&listener_);
  const ssize_t sent = ::sendto(fd_, text.data(), text.size(), MSG_NOSIGNAL, to, listener_size_);
  if (sent >= 0 || std::exchange(failed_, true)) return;
  log_warning("NOTIFY_SOCKET: the service manager does not take '{}': {}", text.substr(0, text.find('\n')),
              std::strerror(errno));
}

}  // namespace slice::service
