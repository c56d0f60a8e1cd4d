// Flusher: writes whatever a round of the loop produced, once, at its end.
#ifndef SLICE_PROXY_STREAM_FLUSHER_H
#define SLICE_PROXY_STREAM_FLUSHER_H

#include "proxy/stream/intrusive_list.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {

// Something with bytes to write at the end of a round.
struct FlushTag {};
class Flushable : public ListHook<FlushTag> {
 public:
  virtual ~Flushable() = default;
  virtual void flush() = 0;
};

class Flusher {
 public:
  explicit Flusher(rpc::EpollLoop& loop);
  void want(Flushable& who) {
    waiting_.push_back(who);
    round_end_.want();
  }

 private:
  void flush();

  rpc::EpollLoop::RoundEnd round_end_;
  IntrusiveList<Flushable, FlushTag> waiting_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_FLUSHER_H
