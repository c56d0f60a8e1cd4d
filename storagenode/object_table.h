// ObjectTable: the objects that are in use or were lately, with their open segment files. Bounded: files are
// closed, the longest unused first, when there are more than the limit. One loop.
#ifndef SLICE_STORAGENODE_OBJECT_TABLE_H
#define SLICE_STORAGENODE_OBJECT_TABLE_H

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "storage/disk.h"
#include "storagenode/marks.h"
#include "storagenode/range_lock.h"
#include "storagenode/segment.h"

namespace slice::storagenode {

// Counts a use of something for as long as it lives.
template <class T>
class [[nodiscard]] Use {
 public:
  explicit Use(T* used) : used_(used) { ++used_->users; }
  Use(Use&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
  Use& operator=(Use&& other) noexcept {
    std::swap(used_, other.used_);
    return *this;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (used_ != nullptr) --used_->users;
  }
  T& operator*() const { return *used_; }
  T* operator->() const { return used_; }

 private:
  T* used_;
};

struct Object;

struct OpenSegment {
  OpenSegment(Object& of, SegmentName name, std::unique_ptr<storage::File> file, StoreFigures& figures)
      : object(of), segment(name, std::move(file), figures) {}
  Object& object;
  Segment segment;
  unsigned users = 0;
  std::list<OpenSegment*>::iterator position;  // in the table's order of use
};

struct Object {
  Object(Loop& loop, ObjectName of) : name(of), lock(loop), opening(loop) {}

  ObjectName name;
  bool loaded = false;
  bool exists = false;
  bool has_more = false;
  Epoch epoch;
  std::uint64_t end = 0;            // one past the last byte
  nfs3::Time mtime;                 // of the last write since the process started; zero: none
  std::set<std::uint64_t> present;  // indexes of its segments
  std::map<std::uint64_t, std::unique_ptr<OpenSegment>> open;
  std::map<std::uint64_t, std::uint64_t> stored;  // of segments that are closed: bytes that are no holes
  RangeLock lock;      // over block numbers: readers and writers; all of it for truncate and remove
  AsyncMutex opening;  // while a segment is opened or made
  std::uint64_t read_to = 0, prefetched_to = 0;  // of a sequential reader
  unsigned users = 0;
};
inline constexpr std::uint64_t kAllBlocks = ~std::uint64_t{0};

class ObjectTable {
 public:
  ObjectTable(Loop& loop, storage::Disk& disk, Marks& marks, StoreFigures& figures, std::size_t max_open)
      : loop_(loop), disk_(disk), marks_(marks), figures_(figures), max_open_(max_open) {}

  // The object, loaded; `exists` says whether there is one. kCorrupt, kIo: it cannot be read.
  Task<Result<Use<Object>>> get(const ObjectName& name);
  // A segment that is present.
  Task<Result<Use<OpenSegment>>> segment(Object& object, std::uint64_t index);
  // A segment, made where it is not present; with it the first one, which says that the object exists. A new
  // object gets `epoch`. The caller has marked what it will write.
  Task<Result<Use<OpenSegment>>> make_segment(Object& object, std::uint64_t index, Epoch epoch);
  // Deletes the segment's file; durable after sync_folder() of its folder, and only then may its marks be
  // forgotten: a file that comes back was perhaps never synced. Nobody may use it.
  Task<Status> remove_segment(Object& object, std::uint64_t index);
  // Sets object.end by the last segment that has bytes.
  Task<Status> find_end(Object& object);
  // The segment, where it is open.
  OpenSegment* peek(const SegmentName& name);
  // The objects that have segments which are not synced; files are closed only when they are.
  std::set<ObjectName> unsynced() const;
  std::size_t open_segments() const { return order_.size(); }
  // Bytes of the object that are no holes, about: of which a local file system takes room. Nothing where it
  // is not loaded.
  std::optional<std::uint64_t> stored(const ObjectName& name) const;

 private:
  Task<Status> load(Object& object);
  Task<void> count_stored(Object& object);
  Task<Result<Use<OpenSegment>>> open_present(Object& object, std::uint64_t index);
  Task<Result<Use<OpenSegment>>> create(Object& object, std::uint64_t index, Epoch epoch);
  Task<Status> note_more(Object& object);
  OpenSegment& keep(Object& object, std::unique_ptr<OpenSegment> made);
  Task<void> make_room();
  void close(OpenSegment& segment);
  void drop_unused_objects();

  Loop& loop_;
  storage::Disk& disk_;
  Marks& marks_;
  StoreFigures& figures_;
  std::size_t max_open_;
  std::map<ObjectName, std::unique_ptr<Object>> objects_;
  std::list<OpenSegment*> order_;  // most lately used first
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_OBJECT_TABLE_H
