// Rings: what the XDP program hands to user space: attribute entries that left the cache with unsaved
// changes, and fragments that came before their first. Those are kept for up to half a second and given to
// the program again.
#ifndef SLICE_CONTROL_XDP_RINGS_H
#define SLICE_CONTROL_XDP_RINGS_H

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "bpf/shared/map_abi.h"
#include "common/bytes.h"
#include "common/metrics.h"
#include "rpc/epoll_loop.h"

struct ring_buffer;

namespace slice::proxy {

class Loader;

class Rings {
 public:
  Rings(rpc::EpollLoop& loop, const Loader& loader, Metrics& metrics,
        std::function<void(const slice_eviction&)> evicted);
  ~Rings();
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;

 private:
  // Source, destination, IP id, fragment offset, as they lie in the frame: a fragment that comes back is the
  // same one.
  using Key = std::string;
  struct Held {
    Key key;
    std::uint32_t ifindex = 0;
    Buffer frame;
  };
  static int on_eviction(void* self, void* data, std::size_t size);
  static int on_orphan(void* self, void* data, std::size_t size);
  // Empty: a fragment of neither family.
  static Key key_of(const std::uint8_t* frame, std::size_t length);
  void hold(const slice_orphan& orphan);
  void run_again(Held held);

  rpc::EpollLoop& loop_;
  int program_;
  std::function<void(const slice_eviction&)> evicted_;
  ring_buffer* rings_ = nullptr;
  std::map<Key, MonoTime> first_seen_;
  std::size_t held_ = 0;
  Counter &reruns_, &expired_, &overflow_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_XDP_RINGS_H
