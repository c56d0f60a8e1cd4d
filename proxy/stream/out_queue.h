// OutQueue: records waiting to be written to one socket. Whole records are written in order; one whose bytes
// still come in (cut-through) holds back those behind it, so that records never interleave.
#ifndef SLICE_PROXY_STREAM_OUT_QUEUE_H
#define SLICE_PROXY_STREAM_OUT_QUEUE_H

#include <deque>
#include <vector>

#include "proxy/stream/buffers.h"
#include "proxy/stream/stream.h"

namespace slice::proxy {

class OutQueue {
 public:
  using StreamId = std::uint64_t;

  // A whole record, with its mark.
  void push(const BufferChain& record);
  // A record whose bytes come piece by piece, until close().
  StreamId open();
  void append(StreamId stream, const BufferRef& piece);
  void close(StreamId stream);
  // The rest will not come. True: none of it was written, and it is gone; false: the connection must end.
  bool abort(StreamId stream);
  void clear();

  enum class Flushed {
    kAll,      // nothing left that could be written
    kBlocked,  // the socket takes no more now
    kFailed    // errno says why
  };
  // To the same stream always. Until its session is up nothing can be written.
  Flushed flush(Stream& to);
  std::size_t bytes() const { return bytes_; }
  // The record being written waits for its next piece.
  bool waiting() const { return !entries_.empty() && entries_.front().open; }
  // Copies slices whose chunks are `looseness` times as large or more, so that a slow peer's few bytes do not
  // keep large chunks.
  void compact(ChunkPool& pool, std::size_t looseness);

 private:
  struct Entry {
    std::vector<BufferRef> slices;
    std::size_t next = 0;  // first slice not wholly written
    bool open = false;
    bool started = false;  // some of it was written, or lies in a session's frame
    StreamId id = 0;
  };
  void consume(std::size_t written);
  void mark_started(std::size_t bytes);
  Entry* find(StreamId stream);

  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
  StreamId last_id_ = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_OUT_QUEUE_H
