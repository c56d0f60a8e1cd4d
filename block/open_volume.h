// OpenVolume: a raw volume (docs/raw-volumes.md) that this process has opened: a Device over a file. One
// loop.
//
// An NFS client keeps what it wrote until a COMMIT says that it is durable, and writes it again where a
// server was started anew meanwhile (RFC 1813 section 4.8). Block clients do not; so this does it for them:
// what was acknowledged is kept, is read from here, and is written again at the flush where its verifier has
// changed.
#ifndef SLICE_BLOCK_OPEN_VOLUME_H
#define SLICE_BLOCK_OPEN_VOLUME_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "block/device.h"
#include "block/file_calls.h"
#include "block/patience.h"
#include "block/range_queue.h"
#include "block/unflushed_writes.h"
#include "common/metrics.h"

namespace slice::block {

class OpenVolume : public Device, public std::enable_shared_from_this<OpenVolume> {
 public:
  struct Figures {
    explicit Figures(Metrics& metrics);
    Counter &repeated_bytes, &taken_away;
    Counter& unflushed_bytes;  // gauge
  };
  struct Options {
    std::string name;                         // for the log
    std::uint64_t begin = 0;                  // offset in the file of the volume's first byte
    std::uint64_t size = 0;                   // bytes of the volume
    std::uint64_t stripe_unit = 64 << 10;     // bytes, of the file
    std::uint64_t opening = 0;                // its epoch
    std::uint64_t most_unflushed = 64 << 20;  // bytes; a write that would make them more waits for a flush
    // After so long without an answer an operation fails. It goes on all the same, before all that overlap,
    // since it may still be done. 0: it waits for ever.
    Duration patience = Duration(0);
    std::function<void()> on_taken_away;  // another has it by now, for good; none: nobody is told
  };
  // `figures` and `loop` outlive it.
  OpenVolume(Loop& loop, std::unique_ptr<VolumeFile> file, Options options, Figures& figures);
  ~OpenVolume() override;

  std::uint64_t size() const override { return options_.size; }
  std::uint64_t opening() const override { return options_.opening; }
  Task<Status> read(std::uint64_t offset, ByteSpan into) override;
  Task<Status> write(std::uint64_t offset, Buffer data, bool durable) override;
  Task<Status> write_zeroes(std::uint64_t offset, std::uint64_t length, bool durable, Room room) override;
  Task<Status> flush() override;
  bool knows_holes() const override { return true; }
  Task<Result<std::vector<Extent>>> extents(std::uint64_t offset, std::uint64_t length) override;

 private:
  using Data = std::shared_ptr<const Buffer>;  // none: a hole
  using Piece = UnflushedWrites::Piece;
  Task<Status> read_all(std::uint64_t offset, ByteSpan into);
  Task<Status> flush_all();
  Task<Result<std::vector<Extent>>> extents_within(std::uint64_t offset, std::uint64_t length);
  Task<Status> read_piece(std::uint64_t offset, ByteSpan into);
  Task<Status> write_data(std::uint64_t offset, Data data, std::size_t size, bool durable);
  Task<Result<Verifier>> write_piece(const Piece& piece, bool durable);
  Task<Status> write_again(std::uint64_t last, Verifier verifier);
  Error noted(Error error);
  void count_unflushed();

  const std::unique_ptr<VolumeFile> file_;
  const Options options_;
  Figures& figures_;
  const Patience patience_;
  RangeQueue writing_;
  AsyncMutex flushing_;
  UnflushedWrites unflushed_;
  std::uint64_t counted_ = 0;
  // A server may have what is not durable and not kept here: what openers before this one, whose clients go
  // on with this one, were told is written. Not so from the first flush on.
  bool nothing_of_others_ = false;
  bool taken_away_ = false;
  Data zeroes_;  // that keep their room; made when they are first asked for
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_OPEN_VOLUME_H
