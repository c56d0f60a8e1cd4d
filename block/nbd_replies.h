// NbdReplies: what waits to be written to one client, in order, and what each piece holds until it is.
#ifndef SLICE_BLOCK_NBD_REPLIES_H
#define SLICE_BLOCK_NBD_REPLIES_H

#include <deque>

#include "common/bytes.h"
#include "proxy/stream/stream.h"

namespace slice::block {

class NbdReplies {
 public:
  // What a piece holds.
  struct Held {
    std::size_t requests = 0;
    std::size_t bytes = 0;  // as they were taken of the budget
  };
  enum class Flushed : std::uint8_t { kAll, kBlocked, kBroken };
  struct Progress {
    Flushed flushed =
        Flushed::kAll;      // kBroken: errno says why. kAll: until there is more, or the peer speaks
    std::size_t bytes = 0;  // that the stream took
    Held freed;
  };

  void push(Buffer bytes, Held held);
  // As much as the stream takes now; of TLS also what it has to say itself.
  Progress flush(proxy::Stream& to);
  bool empty() const { return queue_.empty(); }
  // What all of them hold, which is freed.
  Held clear();

 private:
  struct Piece {
    Buffer bytes;
    Held held;
  };
  void consume(std::size_t written, Progress& progress);

  std::deque<Piece> queue_;
  std::size_t done_ = 0;  // bytes of the first
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_REPLIES_H
