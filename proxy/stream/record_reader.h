// RecordReader: from the bytes of a TCP stream to RPC records (RFC 5531 section 11). Records of up to
// kStoreLimit bytes, and those of several fragments, are given whole; a longer one may be taken piece by
// piece as soon as its head is there.
#ifndef SLICE_PROXY_STREAM_RECORD_READER_H
#define SLICE_PROXY_STREAM_RECORD_READER_H

#include <string_view>

#include "proxy/stream/buffers.h"

namespace slice::proxy {

inline constexpr std::size_t kStoreLimit = 64 << 10;         // longer records may be cut through
inline constexpr std::size_t kMaxRecord = (1 << 20) + 8192;  // a longer one ends the connection
inline constexpr std::size_t kHeadBytes = 1536;              // holds every header and every argument but data
inline constexpr std::size_t kMaxFragments = 1024;           // of one record

class RecordHandler {
 public:
  enum class Take { kWhole, kPieces, kSkip };
  virtual ~RecordHandler() = default;
  // The first kHeadBytes of a record of `total` bytes, longer than kStoreLimit. kPieces: on_piece() for all
  // its bytes from the first on, then on_end(); kSkip: it is read and thrown away, then on_end().
  virtual Take on_head(ByteView head, std::size_t total) = 0;
  virtual void on_record(const BufferChain& record) = 0;
  virtual void on_piece(const BufferRef& piece) = 0;
  virtual void on_end() = 0;
};

class RecordReader {
 public:
  explicit RecordReader(RecordHandler& handler) : handler_(handler) {}

  // Takes bytes that came; calls the handler. Stops early when the handler says pause(): what is left is kept
  // and given at resume(). Empty: all well; else why the stream cannot go on.
  std::string_view feed(BufferRef bytes);
  std::string_view resume();
  void pause() { paused_ = true; }
  // The connection is closed: nothing more is given to the handler.
  void stop() { stopped_ = true; }
  bool paused() const { return paused_; }
  // After the last feed() of a round: copies what there is of a short record under way, so that a slow
  // sender's few bytes do not keep a large chunk.
  void settle(ChunkPool& pool);
  // Bytes of the record under way that are still to come: how much to read at once.
  std::size_t wanted() const { return left_; }
  // Bytes that are kept here.
  std::size_t kept() const { return record_.size() + input_.size + held_.size(); }
  bool in_record() const { return state_ != State::kMark || mark_bytes_ != 0 || !record_.empty(); }

 private:
  enum class State { kMark, kHead, kBody };
  std::string_view run();
  std::string_view take_mark();
  void take_head();
  void take_body();
  void finish();

  RecordHandler& handler_;
  BufferChain record_;  // what is kept of the record under way
  BufferRef input_;     // not looked at yet
  BufferChain held_;    // came while paused, behind input_
  State state_ = State::kMark;
  RecordHandler::Take take_ = RecordHandler::Take::kWhole;
  std::uint8_t mark_[4]{};
  std::size_t mark_bytes_ = 0;
  std::size_t left_ = 0;  // of the fragment under way
  std::size_t fragments_ = 0;
  bool last_ = false;
  bool paused_ = false, stopped_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_RECORD_READER_H
