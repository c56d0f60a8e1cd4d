// DiskModel: when the operations of a disk with a few arms would end, and what of them would find the memory
// before it: for measuring how a service scales with disks on a machine that has none to spare. It moves no
// byte. docs/measuring.md says what is modelled and what is not. One loop.
#ifndef SLICE_STORAGE_DISK_MODEL_H
#define SLICE_STORAGE_DISK_MODEL_H

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"

namespace slice::storage {

class DiskModel {
 public:
  static constexpr std::uint64_t kBlock = 8 << 10;    // bytes: what is or is not in memory
  static constexpr std::uint64_t kChunk = 256 << 10;  // bytes of a file that lie together on one arm

  struct Options {
    std::uint32_t arms = 1;
    Duration access{0};                                   // seek and rotation of one operation
    std::uint64_t bytes_per_second = 32 << 20;            // of one arm
    std::uint64_t memory_bytes = std::uint64_t{1} << 20;  // a multiple of kBlock counts
  };
  DiskModel(Loop& loop, Options options, Metrics& metrics);

  // Files are told apart by numbers; the caller's hash of a name serves.
  using FileKey = std::uint64_t;

  // Each answers when the operation ends; a time that has passed or is now means that nothing waits.

  // What is not in memory is read, one operation for each run of it on one arm, and is in memory then.
  MonoTime read(FileKey file, std::uint64_t offset, std::uint64_t length);
  // Into memory. The writer waits only where room has to be made by writing something back.
  MonoTime write(FileKey file, std::uint64_t offset, std::uint64_t length);
  // Until everything written to the file before is on the disk.
  MonoTime sync(FileKey file);
  // Writes back what was written of the range; sync() waits for that, nobody else does.
  void start_write_back(FileKey file, std::uint64_t offset, std::uint64_t length);
  // One block that is written in place: a folder.
  MonoTime sync_folder(FileKey folder);
  // What was there is gone: neither in memory nor to be written back.
  void forget(FileKey file, std::uint64_t offset, std::uint64_t length);
  void forget(FileKey file) { forget(file, 0, UINT64_MAX); }

  std::uint64_t blocks_in_memory() const { return blocks_.size(); }

 private:
  using Place = std::pair<FileKey, std::uint64_t>;  // a file's block
  struct Block {
    std::list<Place>::iterator use;
    MonoTime there;  // when it has come from the disk
  };
  struct Arm {
    MonoTime free;  // when the last operation of its queue ends
    FileKey file = 0;
    std::uint64_t next = 0;  // where on the arm that operation ends, in blocks
  };
  using Blocks = std::map<Place, Block>;

  // Operations on blocks [first, end) of a file: when the last ends.
  MonoTime operate(FileKey file, std::uint64_t first, std::uint64_t end, Counter& counter);
  // Writes back those of the file's dirty blocks [first, end) that are there.
  MonoTime clean(FileKey file, std::uint64_t first, std::uint64_t end);
  // Puts a block into memory; when there is room for it.
  MonoTime keep(const Place& place, MonoTime there);
  MonoTime make_room();
  void note_written(FileKey file, MonoTime when);

  Loop& loop_;
  Options options_;
  std::uint64_t most_blocks_;
  std::vector<Arm> arms_;
  Blocks blocks_;
  std::list<Place> uses_;  // the longest unused in front
  std::set<Place> dirty_;
  std::unordered_map<FileKey, MonoTime> written_;  // until when a file's blocks are being written back
  Counter &reads_, &writes_, &hits_, &misses_, &busy_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_DISK_MODEL_H
