// Notify: tells the service manager that started this process how it is, as sd_notify(3) describes it:
// datagrams to the AF_UNIX socket that $NOTIFY_SOCKET names. Without the variable nobody is told, and nothing
// is done.
#ifndef SLICE_SERVICE_NOTIFY_H
#define SLICE_SERVICE_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "common/loop.h"
#include "common/result.h"

namespace slice::service {

inline constexpr std::size_t kMaxNotifyStatus = 1024;  // bytes

// For one thread. Never blocks; what the listener does not take is lost, and one log line says so.
class Notify {
 public:
  Notify() = default;  // tells nobody
  Notify(Notify&& other) noexcept;
  Notify& operator=(Notify&&) = delete;
  ~Notify();

  // By $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID: before any thread starts. A value that cannot be
  // used gets a log line, and is as if it were not there.
  static Notify from_environment();
  // `listener`: an absolute path, or "@" and an abstract name; `watchdog`: within this time after each
  // alive() the next one is to come, 0: none is looked for. kInvalid: no such listener's name; kIo: no
  // socket.
  static Result<Notify> to(std::string_view listener, Duration watchdog);

  bool has_listener() const { return fd_ >= 0; }
  // Duration::max() where nobody looks.
  Duration watchdog() const { return watchdog_ == Duration(0) ? Duration::max() : watchdog_; }

  // One line for operators; sent where it is another than before. Control characters become spaces, and what
  // is beyond kMaxNotifyStatus is cut off.
  void status(std::string_view text);
  // READY=1, once. The watchdog does not look before the first alive().
  void ready();
  // After ready().
  void alive();
  void stopping();

 private:
  void send(std::string_view text);

  int fd_ = -1;
  sockaddr_un listener_{};
  socklen_t listener_size_ = 0;
  Duration watchdog_{0};
  std::string status_;
  bool ready_ = false, watched_ = false, failed_ = false;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_NOTIFY_H
