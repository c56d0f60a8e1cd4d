// SetFiles: the files of one backing set on this node, `backing/NUMBER/files/`. They lie in one folder: a
// path's slashes are '+' in the name there, so that there are no folders to make, to sync and to look
// through. What was written and not synced is kept open, at most so many files; one that is closed to make
// room for others is synced before. One loop.
#ifndef SLICE_STORAGENODE_BACKING_SET_FILES_H
#define SLICE_STORAGENODE_BACKING_SET_FILES_H

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/loop.h"
#include "storage/disk.h"
#include "wire/backing.h"

namespace slice::storagenode {

class SetFiles {
  struct Open;

 public:
  // Both outlive it. `folder`: the set's.
  SetFiles(Loop& loop, storage::Disk& disk, const std::string& folder);
  // No operation may be under way.
  ~SetFiles();

  // What the syncs of a call are to make durable.
  struct Syncs {
    std::vector<std::shared_ptr<Open>> files;
    bool names = false;
  };

  // One at a time, and none with remove_all(): a change that is no sync. `room`: there is some; without, what
  // needs some is kNoSpace. Where it fails it may have been carried out in part, and can be again.
  Task<Status> carry_out(const wire::BackingChange& change, bool room);
  // Adds what this change, a sync, means now.
  void collect(const wire::BackingChange& change, Syncs& syncs) const;
  Task<Status> sync(Syncs syncs);
  // Everything that was written here and not synced.
  Task<Status> sync_all();
  // Also what an earlier run of the node wrote, which may have been in memory alone.
  Task<Status> sync_all_of_any_run();
  // Durably.
  Task<Status> remove_all();
  // An fsync failed: what the system forgot may be anything, so the files are of no use until the node starts
  // again, and then nobody knows what they have.
  bool failed() const { return failed_; }
  // Files that are kept open, at least 1.
  void set_most_open(std::size_t most) { most_open_ = most; }

  // Fewer bytes at the end alone. kNotFound.
  Task<Result<std::size_t>> read(std::string path, std::uint64_t offset, ByteSpan into);
  // Of the first wire::kMaxBackingListed behind that one; `end`: there are no more.
  Task<Result<std::vector<wire::BackingFile>>> list(std::string behind, bool& end);
  // Of as many pieces as the file has, at most `count`. kNotFound.
  Task<Result<std::vector<std::uint32_t>>> digest(std::string path, std::uint64_t first, std::uint32_t count,
                                                  std::uint64_t& size);
  // Paths of all, in order.
  Task<Result<std::vector<std::string>>> paths();

 private:
  using Uses = std::list<std::string>;  // paths, the one used last first
  std::string file_of(std::string_view path) const;
  // For changes. Null, where it is none and `creates` is false. kNoSpace: it would be made, without room.
  Task<Result<std::shared_ptr<Open>>> open(std::string path, bool creates, bool room);
  // For what reads alone: not kept.
  Task<Result<std::shared_ptr<Open>>> open_to_read(std::string path);
  Task<Status> make_place();
  void forget(const std::string& path);
  Task<Status> write(std::shared_ptr<Open> file, std::uint64_t offset, ByteView bytes, bool room);
  Task<Status> remove(std::string path);
  Task<Status> rename(std::string from, std::string to);
  Task<Status> sync_file(std::shared_ptr<Open> file);
  Task<Status> sync_names();
  Status noted(Status synced);  // as it is, and notes where it failed

  Loop& loop_;
  storage::Disk& disk_;
  std::string folder_;
  std::map<std::string, std::shared_ptr<Open>, std::less<>> open_;  // by path
  Uses uses_;
  std::size_t most_open_ = 256;
  std::uint64_t names_changed_ = 0, names_synced_ = 0;  // counts of changes
  bool failed_ = false;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_BACKING_SET_FILES_H
