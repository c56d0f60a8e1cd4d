// Segment: one local file, that holds 1 GiB of an object's offsets, with the checksums of its blocks. The
// caller (ObjectStore) orders what must not overlap: a block is written by one at a time, and not read
// meanwhile. Offsets are within the segment. One loop.
#ifndef SLICE_STORAGENODE_SEGMENT_H
#define SLICE_STORAGENODE_SEGMENT_H

#include <memory>

#include "common/metrics.h"
#include "common/result.h"
#include "common/task.h"
#include "storage/disk.h"
#include "storagenode/object_format.h"

namespace slice::storagenode {

// What a store counts (docs/metrics.md).
struct StoreFigures {
  explicit StoreFigures(Metrics& metrics);
  Counter& checksum_errors;
  Counter& io_errors;
  Counter& torn_blocks;
  Counter& sync_failures;
  Counter& no_space;
  Counter& read_bytes;
  Counter& direct_read_bytes;
  Counter& written_bytes;
  Counter& scrubbed_bytes;
  Counter& scrub_passes;
  Counter& open_segments;
  Counter& marked_granules;
};

class Segment {
 public:
  Segment(SegmentName name, std::unique_ptr<storage::File> file, StoreFigures& figures);

  // Reads and checks the header: kCorrupt where there is none or it is another segment's.
  Task<Status> load_header();
  // Writes both copies of the header; durable after sync().
  Task<Status> write_header(Epoch epoch, bool has_more);
  // What load_header() found: a copy that cannot be read, which where the segment is not marked is damage;
  // two that say the same.
  bool header_is_damaged() const { return header_is_damaged_; }
  bool header_is_whole() const { return header_is_whole_; }
  const SegmentHeader& header() const { return header_; }

  // Bytes before end(); fewer than asked for only there. kCorrupt (logged, counted): a block does not fit its
  // checksum.
  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into);
  // All of it or an error; after an error the blocks may have old or new bytes, with checksums that fit.
  Task<Status> write(std::uint64_t offset, ByteView bytes);
  // Nothing at or behind `size` is left, also when the segment grows again. No effect where it is no shorter.
  Task<Status> truncate(std::uint64_t size);
  // Makes a hole of whole blocks, at most up to the end, which stays where it is.
  Task<Status> discard(std::uint64_t offset, std::uint64_t length);
  // Covers every write that ended before. After kIo the segment must be closed and opened again (reopen).
  Task<Status> sync();
  bool sync_failed() const { return sync_failed_; }
  bool syncing() const { return syncing_ > 0; }
  // Goes on with a newly opened file after a sync failed; no operation may be under way.
  void reopen(std::unique_ptr<storage::File> file);

  // Makes checksums fit what is on disk in these granules: after a crash or a failed write. `rewrite`: also
  // writes the data again, so that the next sync() tries anew to make it durable.
  Task<Status> repair(const Granules& granules, bool rewrite);
  // Reads a granule and checks it: how many bytes that were.
  Task<Result<std::uint64_t>> scrub(std::size_t granule);

  const SegmentName& name() const { return name_; }
  storage::File& file() { return *file_; }
  std::uint64_t end() const { return end_; }
  // Bytes that are no holes, about: the room that the local file takes, without its header and checksums.
  std::uint64_t stored() const;
  // No data in these blocks, as far as the local file system tells, and checksums that say so.
  Task<Result<bool>> is_hole(std::uint64_t first, std::size_t count);
  bool unsynced() const { return written_ != synced_; }
  // An error that could not be repaired: the segment answers kIo until the process starts again.
  bool broken() const { return broken_; }
  void set_broken() { broken_ = true; }

 private:
  Task<Status> read_blocks(std::uint64_t first, ByteSpan into);
  Task<Result<std::uint32_t>> composed_sum(std::uint64_t block, std::uint64_t offset, ByteView bytes);
  Task<Status> read_raw(std::uint64_t first, ByteSpan into);
  Task<Result<Buffer>> read_sums(std::uint64_t first, std::size_t count);
  Task<Status> write_sums(std::uint64_t first, const std::uint32_t* sums, std::size_t count);
  Task<Status> write_both(std::uint64_t offset, ByteView bytes, std::uint64_t first, const Buffer& sums);
  Result<bool> has_no_data(std::uint64_t first, std::size_t count) const;
  Task<Status> repair_blocks(std::uint64_t first, std::uint64_t last);
  Task<Status> rewrite_data(std::uint64_t offset, std::uint64_t end);
  tl::unexpected<Error> mismatch(std::uint64_t block, std::uint32_t stored, std::uint32_t computed);
  Status refuse_broken() const;

  SegmentName name_;
  std::unique_ptr<storage::File> file_;
  StoreFigures& figures_;
  SegmentHeader header_;
  bool header_is_damaged_ = false, header_is_whole_ = true;
  std::uint64_t seed_;
  std::uint64_t end_ = 0;
  std::uint64_t written_ = 0, synced_ = 0;  // counts of changes
  std::uint64_t write_back_from_ = 0, write_back_bytes_ = 0;
  unsigned syncing_ = 0;
  bool sync_failed_ = false;
  bool broken_ = false;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SEGMENT_H
