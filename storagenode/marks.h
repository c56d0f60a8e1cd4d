// Marks: which granules of which objects may differ on disk from their checksums after a crash. A granule is
// marked, durably, before its first byte is written, and unmarked, lazily, some time after it was synced. So
// after a crash a block that does not fit its checksum is a torn write where it is marked, and corruption
// where it is not. File `marks`: one slot of a sector a segment (docs/formats/object-store.md). One loop.
#ifndef SLICE_STORAGENODE_MARKS_H
#define SLICE_STORAGENODE_MARKS_H

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "storage/disk.h"
#include "storagenode/object_format.h"

namespace slice::storagenode {

class Marks {
 public:
  Marks(Loop& loop, storage::Disk& disk) : disk_(disk), writing_(loop) {}

  // Reads what was marked when the process ended; empty at the first start. A slot whose checksum is wrong
  // was being written for the first time: nothing was written under it yet.
  Task<Result<std::vector<MarkRecord>>> open();
  // Forgets everything, durably: after what open() returned was repaired.
  Task<Status> reset();

  // Granules [first, last] of the segment are about to be written: ends when that is durable. Marks ahead
  // where writing is sequential.
  Task<Status> ensure(const SegmentName& segment, Epoch epoch, std::size_t first, std::size_t last);
  // The same without waiting, where they are marked already: the fast path.
  bool covered(const SegmentName& segment, std::size_t first, std::size_t last);

  // For a writer of granule `last`, which is marked: where it has come there in order, the first granule
  // behind it that is not marked, nor about to be, if that is at most `within` away.
  std::optional<std::size_t> unmarked_behind(const SegmentName& segment, std::size_t last,
                                             std::size_t within) const;

  // For the cleaner, which goes over names() once a period: rotate(), then sync the segment, then settle().
  std::vector<SegmentName> names() const;
  void rotate(const SegmentName& segment);
  // Everything written before the last rotate() is on disk: unmarks what was not touched in this period nor
  // (unless `hurry`) in the one before.
  Task<Status> settle(const SegmentName& segment, bool hurry);
  // From here to release() or forget() settle() leaves the segment marked: its file is being made or removed,
  // and may be there after a crash without ever having been synced.
  void hold(const SegmentName& segment);
  void release(const SegmentName& segment);
  // Makes what was unmarked durable: from then on corruption there is told apart also after a power loss.
  Task<Status> flush();
  // The segment's file is gone for good.
  Task<Status> forget(const SegmentName& segment);
  // What is marked of a segment now.
  Granules marked(const SegmentName& segment) const;
  std::size_t granules() const { return granules_; }  // in total

 private:
  struct Mark {
    Granules wanted;   // what the slot says, or is to say
    Granules durable;  // of these, what is known to be on disk
    Granules now, before;
    Epoch epoch;
    std::uint64_t slot = 0;
    unsigned waiting = 0;  // ensure() calls under way
    bool held = false;
  };

  Mark& mark_of(const SegmentName& segment);
  void want(Mark& mark, const Granules& wanted);
  Task<Status> write_slot(const SegmentName& segment, Mark& mark);
  Task<Status> write_all();  // after the file failed: opens it again and writes every slot

  storage::Disk& disk_;
  AsyncMutex writing_;
  std::unique_ptr<storage::File> file_;
  std::vector<std::unique_ptr<storage::File>> retired_;
  bool failed_ = false;
  bool unmarked_ = false;  // since the last flush()
  std::map<SegmentName, Mark> marks_;
  std::size_t granules_ = 0;  // wanted, of all marks
  std::vector<std::uint64_t> free_slots_;
  std::uint64_t slots_ = 0;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_MARKS_H
