// Flusher: writes whatever a round of the loop produced, once, at its end.
#ifndef SLICE_PROXY_STREAM_FLUSHER_H
#define SLICE_PROXY_STREAM_FLUSHER_H

#include "common/loop.h"
#include "proxy/stream/intrusive_list.h"

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
  explicit Flusher(Loop& loop);
  void want(Flushable& who) {
    waiting_.push_back(who);
    round_end_.want();
  }

 private:
  void flush();

  Loop::RoundEnd round_end_;
  IntrusiveList<Flushable, FlushTag> waiting_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_FLUSHER_H
