// Listeners: the sockets on the virtual address, which outlive the process when it is killed
// (listener_guard.h).
//
//   Listeners listeners(loop, {.at = {address, nfs_port}});
//   listeners.take_over();             what the last process left
//   listeners.bind(SOCK_STREAM, at);   one of these, else a new one: once for each that is wanted
//   listeners.keep();                  from now on a guard has them; what was not asked for is closed
//   ...
//   listeners.release();               a clean stop: the guard ends soon, unless it is a restart
#ifndef SLICE_PROXY_FRONT_LISTENERS_H
#define SLICE_PROXY_FRONT_LISTENERS_H

#include <chrono>
#include <map>
#include <vector>

#include "proxy/front/socket.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {

class Listeners {
 public:
  struct Options {
    rpc::Endpoint at;  // whose guard it is
    // How long the guard keeps them without a proxy; then clients are refused.
    std::chrono::milliseconds keep = std::chrono::seconds(10);
  };
  Listeners(rpc::EpollLoop& loop, Options options);
  // The guard goes on, as after a SIGKILL.
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  // Waits for a second at most. kUnavailable: a process that lives has them.
  Status take_over();
  // The socket is the caller's to close.
  Result<BoundSocket> bind(int type, rpc::Endpoint at, Sharing sharing);
  // Closes a socket that bind() answered.
  void give_up(const BoundSocket& socket);
  // On the loop's thread. Where no guard can be had there is a log line, and another try each second.
  void keep();
  void release();
  // How many sockets of the process before were of use.
  std::size_t taken_over() const { return taken_over_; }

 private:
  int take_offered(int type, rpc::Endpoint at);
  void close_bound();
  void watch_guard();
  void lose_guard();

  rpc::EpollLoop& loop_;
  const Options options_;
  std::vector<int> offered_;  // by the guard, not asked for so far
  std::map<int, int> bound_;  // what bind() answered: second descriptors of it
  int channel_ = -1;          // to the guard
  int guard_pid_ = -1;        // where it is a child of this process
  std::size_t taken_over_ = 0;
  TimerId again_ = TimerId::kNone;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_FRONT_LISTENERS_H
