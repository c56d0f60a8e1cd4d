// RemoteDevice: a raw volume that a target of the link serves, as a block device.
//
// What the target has acknowledged and not flushed is kept, and written again where the target has lost it:
// when it was started anew, or had closed the volume. That is done before anything else is asked of it. Where
// somebody else had the volume meanwhile it is not: what he wrote is not to be undone, and the device is
// another opener's from then on (kStale).
#ifndef SLICE_LINK_REMOTE_DEVICE_H
#define SLICE_LINK_REMOTE_DEVICE_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "block/device.h"
#include "block/patience.h"
#include "block/range_queue.h"
#include "block/unflushed_writes.h"
#include "common/loop.h"
#include "common/task.h"
#include "link/exchange.h"

namespace slice::link {

class RemoteDevice : public block::Device,
                     private Exchange::Owner,
                     public std::enable_shared_from_this<RemoteDevice> {
 public:
  struct Options {
    std::string client, volume;
    std::uint64_t most_unflushed = 64 << 20;  // bytes; a write that would make them more waits for a flush
    // After so long an operation fails. It goes on all the same, before all that overlap, since it may still
    // be done. 0: it waits for ever.
    Duration patience = Duration(0);
    std::uint64_t seed = 0;
  };
  // One loop. All outlive it.
  RemoteDevice(Loop& loop, FramePort& port, const Address& target, const Key& key, InitiatorMetrics& metrics,
               Options options);
  ~RemoteDevice() override;

  // Before anything else. kNotFound, kStale: as the target says; kUnavailable: it did not answer for so long.
  Task<Status> begin(Duration at_most);
  // Tells the target; operations fail from then on.
  void close() {
    ++turn_;  // what is written again just now ends
    exchange_.close(Code::kIo);
  }
  bool taken_away() const { return taken_away_; }
  bool take(const Frame& frame, ByteView bytes) { return exchange_.take(frame, bytes); }

  std::uint64_t size() const override { return size_; }
  std::uint64_t opening() const override { return opening_; }
  Task<Status> read(std::uint64_t offset, ByteSpan into) override;
  Task<Status> write(std::uint64_t offset, Buffer data, bool durable) override;
  Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable,
                            block::Room room) override;
  Task<Status> flush() override;

 private:
  using Data = std::shared_ptr<const Buffer>;  // none: a hole
  using Piece = block::UnflushedWrites::Piece;
  void on_session() override;
  void on_refused(Code why) override;
  void take_away(const char* because);

  Task<Status> read_all(std::uint64_t offset, ByteSpan into);
  Task<Status> read_piece(std::uint64_t offset, ByteSpan into);
  Task<Status> write_data(std::uint64_t offset, Data data, std::size_t size, bool durable);
  Exchange::Request request_of(const Piece& piece) const;
  Task<Status> write_piece(Piece piece, bool durable);
  Task<Status> flush_all();
  Task<void> write_again(std::shared_ptr<RemoteDevice> self, std::uint64_t turn);
  Task<Code> write_again(Piece piece);
  Status status_of(Code code) const;
  void count_unflushed();

  Loop& loop_;
  InitiatorMetrics& metrics_;
  const Options options_;
  Exchange exchange_;
  const block::Patience patience_;
  OneShot<std::optional<Code>> begun_;  // what the first session, or its refusal, said
  bool had_session_ = false, taken_away_ = false;
  std::uint64_t size_ = 0, opening_ = 0;
  std::uint64_t turn_ = 0;  // of sessions
  block::RangeQueue writing_;
  AsyncMutex flushing_;
  block::UnflushedWrites unflushed_;
  std::uint64_t counted_ = 0;  // of unflushed_, in the gauge
  Data zeroes_;                // that keep their room; made when they are first asked for
};

}  // namespace slice::link

#endif  // SLICE_LINK_REMOTE_DEVICE_H
