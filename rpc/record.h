// Record marking (RFC 5531 section 11) over a byte stream: an incremental reader, and a queue of what is to
// be sent. No sockets are opened or watched here, so that servers, channels and the proxy all use it.
#ifndef SLICE_RPC_RECORD_H
#define SLICE_RPC_RECORD_H

#include <deque>
#include <memory>

#include "common/bytes.h"
#include "rpc/message.h"

namespace slice::rpc {

class Session;

inline constexpr std::size_t kRecordMark = 4;  // bytes before a fragment

// Bytes that the allocator gave for it, which may be far more than it holds.
std::size_t memory_of(const Buffer& buffer);

// Writes the mark of a record of one fragment into its first four bytes, the record behind them.
inline void mark_record(Buffer& marked_record) {
  store_be(marked_record.data(),
           static_cast<std::uint32_t>(marked_record.size() - kRecordMark) | kLastFragment);
}

// Cuts a stream into records. Fragments are joined. A record whose bytes have not all come has room made for
// it, so that the rest can be read straight into its place.
//
//   scratch = scratch.first(min(scratch, reader.room_behind()));
//   iovec into[2] = {reader.direct(), scratch};          // direct() is empty most of the time
//   n = readv(fd, into, 2);
//   reader.give_direct(min(n, direct)); reader.give(scratch.first(the rest));
//   while (reader.next(record)) ...                      // before the scratch is used again
//   if (reader.broken()) close
class RecordReader {
 public:
  // A record over `max_record` bytes breaks the stream.
  explicit RecordReader(std::size_t max_record) : max_record_(max_record) {}
  // Whether room is made at once for all that a mark declares, as is best for one who sends what he says.
  // Else room grows with the bytes that have come: at most twice those, and 4 KiB.
  void trust_marks(bool on) { trusting_ = on; }

  // Room for bytes of the record that has begun, where enough are missing to be worth it; else empty.
  ByteSpan direct();
  // `n` bytes of the stream were put to the front of direct().
  void give_direct(std::size_t n);
  // How many bytes to take behind direct(), or without it: few where records are large, so that the rest of
  // the next one is read straight into its place as well.
  std::size_t room_behind() const { return large_ ? kHead : ~std::size_t{0}; }
  // The next bytes of the stream; they must live until next() has answered false.
  void give(ByteView chunk) { chunk_ = chunk; }
  // The next whole record, without marks.
  bool next(Buffer& record);

  bool broken() const { return broken_; }  // a record is too long: next() answers false for ever
  std::size_t memory() const { return memory_of(record_); }
  // Bytes of a record have come, but not all.
  bool within_record() const { return mark_bytes_ > 0 || in_fragment_ || record_.size() > 0; }

 private:
  static constexpr std::size_t kHead = 4096;       // bytes: a call's header, or a few small records
  static constexpr std::size_t kLarge = 64 << 10;  // bytes of a fragment

  bool take_mark();
  std::size_t room_for(std::size_t missing, std::size_t here) const;
  bool finish_fragment(Buffer& record);

  std::size_t max_record_;
  ByteView chunk_;
  Buffer record_;               // bytes of the record so far
  std::size_t missing_ = 0;     // of the current fragment
  std::uint8_t mark_[4] = {};   // as far as it came
  std::size_t mark_bytes_ = 0;  //
  bool in_fragment_ = false;    // the mark is known
  bool last_ = false;           // the current fragment is its record's last
  bool large_ = false;          // the last fragment that began is large
  bool broken_ = false;
  bool trusting_ = true;
};

// Records on their way into a socket, gathered into as few writev calls as there can be.
class SendQueue {
 public:
  // Takes a record that begins with its mark.
  void push(Buffer marked_record);
  // The same, shared with one who may have to send it again.
  void push(std::shared_ptr<const Buffer> marked_record);

  enum class Flush { kDone, kBlocked, kBroken };
  // Writes what the socket takes without blocking, and may be written: kDone where all was, or a session has
  // to be up first. `session`: null on a connection without one; else always the same.
  Flush flush(int fd, Session* session = nullptr);
  void clear();
  bool empty() const { return items_.empty(); }
  std::size_t bytes() const { return bytes_; }    // not yet written
  std::size_t memory() const { return memory_; }  // of what it owns

 private:
  struct Item {
    Buffer owned;
    std::shared_ptr<const Buffer> shared;
    ByteView view() const { return shared ? shared->view() : owned.view(); }
    std::size_t memory() const { return sizeof(Item) + memory_of(owned); }
  };
  void push(Item item);
  void written(std::size_t n);

  std::deque<Item> items_;
  std::size_t first_done_ = 0;  // bytes of the first item that are written
  std::size_t bytes_ = 0;
  std::size_t memory_ = 0;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_RECORD_H
