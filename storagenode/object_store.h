// ObjectStore: the flat space of objects of one storage node. Objects are named by (volume, fileID, kind);
// each is a sparse run of bytes at the file's own offsets, in local files with checksums that are verified on
// every read. What holds after a crash: docs/formats/object-store.md. One loop.
#ifndef SLICE_STORAGENODE_OBJECT_STORE_H
#define SLICE_STORAGENODE_OBJECT_STORE_H

#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "service/crash_points.h"
#include "storage/disk.h"
#include "storage/space_count.h"
#include "storagenode/marks.h"
#include "storagenode/object_table.h"

namespace slice::storagenode {

class ObjectStore {
 public:
  struct Options {
    std::size_t max_open_segments = 1024;
    std::uint64_t reserve_bytes = 64 << 20;  // free space below which writes of new bytes are refused
    Duration clean_period = std::chrono::seconds(5);
    std::size_t max_marked_granules = 4096;  // bounds what a start after a crash reads
    std::uint64_t prefetch_bytes = 256 << 10;
  };
  // `renew`: called when written data was lost by a failed fsync: has to make sure that every client that
  // wrote unstable data will write it again (a new write verifier), before it ends well.
  using Renew = std::function<Task<Status>()>;
  ObjectStore(Loop& loop, storage::Disk& disk, Metrics& metrics, Options options, Renew renew,
              const CrashPoints& crash = no_crash_points());

  // Recovers from the disk; before anything else.
  Task<Status> open();
  // Makes every write durable that ended before. False: something of it is not.
  Task<bool> flush();
  // Ends the background work and syncs what is unsynced. Before it is destroyed.
  Task<void> stop();
  // For a process that has crashed in a simulation: stop() will touch the disk no more.
  void halt() { halted_ = stopping_ = true; }

  struct Read {
    std::size_t bytes = 0;  // fewer than asked for only at the end
    std::uint64_t end = 0;  // of the object
    Epoch epoch;            // of the object, with that end
    nfs3::Time mtime;       // of its last write since the process started; zero: none
  };
  // Holes are zeros. An object that does not exist has no bytes. kCorrupt, kIo.
  Task<Result<Read>> read(ObjectName name, std::uint64_t offset, ByteSpan into);

  struct WriteOptions {
    Epoch epoch;              // of a new object
    nfs3::Time mtime;         // kept for commit()
    bool sync = false;        // ends when it is durable
    bool may_make = true;     // else kNotFound where there is no such object
    bool same_epoch = false;  // only where the object has this very epoch, or is new
    // The bytes are zeros: a hole is made of the whole blocks, whose space is given back. No object is made,
    // and none grows: behind its end there are zeros anyway.
    bool hole = false;
  };
  struct Written {
    Epoch epoch;  // the object's
    std::uint64_t end = 0;
    bool done = true;  // false: it has another epoch, see WriteOptions::same_epoch
  };
  // kNoSpace, kIo, kCorrupt (a block that is written in part), kTooLarge (behind kMaxObjectSize), kStale (the
  // object was removed a moment ago). `bytes` live until the task ends.
  Task<Result<Written>> write(ObjectName name, std::uint64_t offset, ByteView bytes, WriteOptions options);

  // See wire/object.h; durable when they end.
  Task<Status> truncate(ObjectName name, std::uint64_t size, Epoch epoch);
  Task<Status> remove(ObjectName name);

  // Gives an object without bytes this epoch, where its own is older; durable when it ends well. False: it
  // has bytes.
  Task<Result<bool>> renew_empty(ObjectName name, Epoch epoch);
  // Takes away an object without bytes, and with it its epoch; one that has some stays.
  Task<Status> remove_empty(ObjectName name);

  // Makes a hole of [offset, offset + length), whole blocks, and gives its space back; durable when it ends.
  // The object's end stays where it is.
  Task<Status> discard(ObjectName name, std::uint64_t offset, std::uint64_t length);

  struct Committed {
    bool exists = false;
    Epoch epoch;
    std::uint64_t end = 0;
    nfs3::Time mtime;
  };
  // Makes every write durable that ended before.
  Task<Result<Committed>> commit(ObjectName name);

  // The same for all objects.
  Task<Status> sync_all();

  struct Range {
    std::uint64_t offset = 0, length = 0;
    std::uint64_t place = 0;  // the offset in the segment's local file
  };
  // Where the object has bytes from `from` on, holes left out as far as the local file system tells; the
  // first `most` stretches.
  Task<Result<std::vector<Range>>> data(ObjectName name, std::uint64_t from, std::size_t most);

  struct Run {
    std::uint64_t length = 0;
    bool hole = false;  // zeros that take no room, and fit their checksums
  };
  // What is at `offset`, and for how long that goes on: at most for `most` bytes, of which there are some.
  // What is no hole may be one all the same.
  Task<Result<Run>> run(ObjectName name, std::uint64_t offset, std::uint64_t most);

  struct Stat {
    bool exists = false;
    Epoch epoch;
    std::uint64_t end = 0, allocated = 0;
    std::vector<wire::ObjectExtent> extents;  // place: the offset in the segment's local file
  };
  static constexpr std::size_t kMostExtents = 1024;  // that an answer tells of
  Task<Result<Stat>> stat(ObjectName name, std::size_t max_extents);

  struct Listed {
    std::vector<ObjectName> objects;
    bool end = true;
  };
  // Names greater than `after`, in order; the cost does not grow with the number of objects. No `after`: from
  // the first.
  Task<Result<Listed>> list(std::optional<ObjectName> after, std::size_t limit);

  // Checks one granule of an object; how many bytes were read. For the scrubber.
  Task<Result<std::uint64_t>> scrub(ObjectName name, std::uint64_t segment, std::size_t granule);
  Task<Result<std::vector<std::uint64_t>>> segments(ObjectName name);

  // Bytes of the object that are no holes, about; nothing where it was not used lately.
  std::optional<std::uint64_t> stored(const ObjectName& name) const { return table_.stored(name); }
  // Of the object, also of one without bytes; nothing where there is none.
  Task<Result<std::optional<Epoch>>> epoch(ObjectName name);
  // Less space is free than the reserve.
  bool out_of_space() const { return above_reserve() == 0; }
  // Another Options::reserve_bytes from now on.
  void set_reserve(std::uint64_t bytes) {
    options_.reserve_bytes = bytes;
    space_.forget();
  }
  StoreFigures& figures() { return figures_; }
  Loop& loop() { return loop_; }
  bool stopping() const { return stopping_; }

 private:
  Task<Status> recover(const MarkRecord& record);
  std::uint64_t above_reserve() const;
  Task<Status> check_space(Object& object, std::uint64_t offset, std::uint64_t length);
  Task<Status> mark(Object& object, const SegmentName& name, std::size_t first, std::size_t last,
                    Epoch epoch);
  Task<Status> write_segment(Object& object, std::uint64_t offset, ByteView bytes, Epoch epoch);
  Task<Status> write_hole(Object& object, std::uint64_t offset, ByteView zeros);
  Task<Result<Written>> write_locked(Object& object, std::uint64_t offset, ByteView bytes,
                                     const WriteOptions& options);
  Task<Status> sync_range(Object& object, std::uint64_t first, std::uint64_t last);
  Task<Status> sync(Segment& segment);  // counted and logged where it fails
  Task<Status> truncate_locked(Object& object, std::uint64_t size, Epoch epoch);
  Task<Status> heal(Object& object);
  Task<Status> heal_segment(OpenSegment& open);
  Task<Result<std::vector<Range>>> data_locked(Object& object, std::uint64_t from, std::size_t most);
  Task<Status> remove_locked(Object& object);
  Task<Status> cut(Object& object, std::uint64_t size);
  Task<Status> remove_segments_behind(Object& object, std::uint64_t last);
  Task<Status> give_up(Object& object, std::uint64_t index, std::uint64_t within,
                       std::optional<std::uint64_t> length);
  Task<Status> cut_segment(Segment& segment, std::uint64_t within, std::optional<std::uint64_t> length);
  Task<Status> sync_folder(std::string folder);  // fine where there is none
  Task<Status> adopt_epoch(Object& object, Epoch epoch);
  Task<Status> keep_epoch(Object& object, Epoch epoch);
  void mark_ahead(const SegmentName& name, std::size_t last, Epoch epoch);
  void prefetch(Object& object, std::uint64_t offset, std::uint64_t end);
  void note_removed(const ObjectName& name);
  bool removed_lately(const ObjectName& name);
  Task<void> clean_forever();
  // Nothing where a pass is under way.
  Task<void> clean();
  // As flush(), and unmarks what has been quiet since the last pass.
  Task<bool> clean_all();
  Task<bool> clean_segment(SegmentName name, bool hurry);

  Loop& loop_;
  storage::Disk& disk_;
  Options options_;
  storage::SpaceCount space_{loop_};  // above the reserve
  Renew renew_;
  const CrashPoints& crash_;
  StoreFigures figures_;
  Marks marks_;
  ObjectTable table_;
  std::deque<std::pair<MonoTime, ObjectName>> removed_order_;
  std::map<ObjectName, unsigned> removed_;
  bool cleaning_ = false;
  bool stopping_ = false;
  bool halted_ = false;
  unsigned background_ = 0;  // tasks under way
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_OBJECT_STORE_H
