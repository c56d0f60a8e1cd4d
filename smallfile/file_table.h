// FileTable: the files that are in memory, within a limit. A file that is pinned, or holds what is not saved
// yet, stays; the others are dropped when room is needed, those first that were not used since they were
// looked at last. One loop.
#ifndef SLICE_SMALLFILE_FILE_TABLE_H
#define SLICE_SMALLFILE_FILE_TABLE_H

#include <tsl/robin_map.h>

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "smallfile/file.h"
#include "storage/kv_store.h"

namespace slice::smallfile {

class FileTable;

// Keeps a file in memory. Moves, never copies.
class Pin {
 public:
  Pin() = default;
  Pin(FileTable& table, File& file);
  Pin(Pin&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), file_(std::exchange(other.file_, nullptr)) {}
  Pin& operator=(Pin&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(file_, other.file_);
    return *this;
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  ~Pin();
  File& operator*() const { return *file_; }
  File* operator->() const { return file_; }

 private:
  FileTable* table_ = nullptr;
  File* file_ = nullptr;
};

class FileTable {
 public:
  struct Options {
    std::uint64_t threshold = 65536;
    std::function<SiteId(FileId)> site_of;  // the site that a file belongs to; never another
    std::uint64_t limit = 128 << 20;        // bytes in memory, all files
  };
  FileTable(Loop& loop, const storage::KvStore& store, Metrics& metrics, Options options);

  // The file, with its map record where one is saved. kStale: it was removed. kCorrupt, kIo: its map record
  // cannot be read.
  Result<Pin> find(FileId id);
  // It has changed: its footprint is counted anew and it waits to be saved.
  void touch(File& file);
  // It was loaded into: its footprint is counted anew.
  void charge(File& file);

  // Lets go of all files of these sites, of which nothing is to be saved any more; none is being flushed.
  // False: some are pinned, and stay.
  bool forget(const std::vector<SiteId>& sites);

  // Files that are being flushed: neither do they wait, nor may they be in the store.
  const std::unordered_set<const File*>& flushing() const { return flushing_; }
  // Files that wait to be saved, oldest first.
  const std::deque<File*>& waiting() const { return waiting_; }
  // Takes the oldest off that list, pinned; it is then being flushed until settle().
  Pin take_waiting();
  // `file` is saved as it was when taken, or could not be (it waits again, then).
  void settle(File& file, bool saved);

  std::uint64_t used_bytes() const { return used_; }
  std::uint64_t dirty_bytes() const { return dirty_; }  // of files that wait or are being saved
  std::size_t size() const { return files_.size(); }

 private:
  friend class Pin;
  void unpin(File& file);
  void make_idle(File& file);
  void leave_idle(File& file);
  void drop(File& file);
  void make_room();
  void remember_removed(FileId id);

  Loop& loop_;
  const storage::KvStore& store_;
  Options options_;
  tsl::robin_map<FileId, std::unique_ptr<File>, MixedHash<FileId>> files_;
  // All that may be dropped, and some that are used again; a look for one to drop sorts these out, so that
  // using a file moves nothing.
  std::list<File*> idle_;
  std::deque<File*> waiting_;
  std::unordered_set<const File*> flushing_;
  std::uint64_t used_ = 0, dirty_ = 0;

  // FileIDs are never used again, so one that was removed stays removed. Held long enough for requests that
  // were admitted before the removal.
  std::unordered_set<FileId> removed_;
  std::deque<FileId> removed_order_;

  Counter &hits_, &misses_, &evictions_, &used_figure_, &dirty_figure_, &files_figure_;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_FILE_TABLE_H
