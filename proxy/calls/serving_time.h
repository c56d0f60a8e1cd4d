// ServingTime: until when a proxy takes what clients send. Who may have lost the virtual address without
// knowing, since it stood still (SIGSTOP, a paused machine), must not carry out what it finds in its sockets:
// clients have sent it again by another proxy, and have gone on since. Any thread.
#ifndef SLICE_PROXY_CALLS_SERVING_TIME_H
#define SLICE_PROXY_CALLS_SERVING_TIME_H

#include <atomic>

#include "common/loop.h"

namespace slice::proxy {

class ServingTime {
 public:
  // For ever, before this is called first.
  void ends(MonoTime at) { at_.store(at.time_since_epoch().count(), std::memory_order_relaxed); }
  bool is_over(MonoTime now) const {
    return now.time_since_epoch().count() > at_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<Duration::rep> at_{Duration::max().count()};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_SERVING_TIME_H
