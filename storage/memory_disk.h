// MemoryDisk: a Disk in memory for tests and simulation. It keeps what was synced apart from what was not, so
// that crash() can lose or tear the rest, and it injects faults: errors, a full disk, corrupted bytes, slow
// operations. It is harsher than a real file system where the two differ: any subset of unsynced changes may
// survive a power loss, in sectors of 512 bytes.
#ifndef SLICE_STORAGE_MEMORY_DISK_H
#define SLICE_STORAGE_MEMORY_DISK_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/loop.h"
#include "storage/disk.h"

namespace slice::storage {

class MemoryDisk : public Disk {
 public:
  struct Options {
    std::uint64_t capacity_bytes = std::uint64_t{1} << 40;  // counted in pages of 4 KiB that hold bytes
    std::uint64_t seed = 1;                                 // of delays
  };
  explicit MemoryDisk(Loop& loop);
  MemoryDisk(Loop& loop, Options options);
  ~MemoryDisk() override;

  Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) override;
  Task<Status> remove(std::string path) override;
  Task<Status> rename(std::string from, std::string to) override;
  Task<Result<std::vector<std::string>>> list(std::string folder) override;
  Task<Status> sync_folder(std::string folder) override;
  Result<Space> space() const override;

  // The disk as one process has it: after a crash() it answers kIo for good, so that what is left of a
  // crashed process in the test's own process cannot touch what its successor works with.
  std::unique_ptr<Disk> session();

  enum class Crash {
    kProcess,       // kill -9: every completed operation stays
    kDropUnsynced,  // power loss at its worst: only what was synced stays
    kSeeded,        // power loss: each unsynced change is kept, dropped or torn, by the seed
  };
  // Files that are open then answer kIo from now on, operations under way included; open() again.
  void crash(Crash how, std::uint64_t seed = 0);

  enum class Operation {
    kOpen,
    kRead,
    kWrite,
    kSync,
    kTruncate,
    kPunch,
    kRemove,
    kRename,
    kList,
    kSyncFolder
  };
  struct Access {
    Operation operation;
    std::string_view path;
    std::uint64_t offset = 0, length = 0;  // of read, write, punch; offset is the size for truncate
  };
  // Asked before every operation; an Error makes the operation fail with it, without effect. A failed sync
  // loses the bytes that it was to make durable: later syncs do not write them, as Linux has it. nullptr: no
  // faults.
  // A hook may call crash(): the operation then fails, as one that was under way.
  using Fault = std::function<std::optional<Error>(const Access&)>;
  void set_fault(Fault fault) { fault_ = fault ? std::make_shared<Fault>(std::move(fault)) : nullptr; }
  // Operations take a random time between the two; zero (the default) ends them at once, without suspending.
  void set_delay(Duration least, Duration most);
  void set_capacity(std::uint64_t bytes) { options_.capacity_bytes = bytes; }
  // Flips bits of a stored byte, durably. False where the file has no such byte.
  bool corrupt(const std::string& path, std::uint64_t offset, std::uint8_t flip);

  std::uint64_t used_bytes() const;
  std::uint64_t operations() const { return operations_; }  // begun so far: each is a point to crash at
  std::uint64_t syncs() const { return syncs_; }
  std::vector<std::string> paths() const;  // of all files, in order

 private:
  struct Inode;
  class OpenFile;
  class Session;
  struct NameChange {  // create: to; remove: from; rename: both
    std::string from, to;
    std::shared_ptr<Inode> inode;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  Task<Status> begin(Access access);
  static void apply(Names& names, const NameChange& change);
  void crash_names(Crash how, std::mt19937_64& random);
  void make_creation_durable(const std::shared_ptr<Inode>& inode);

  Loop& loop_;
  Options options_;
  std::mt19937_64 random_;
  Duration least_delay_{0}, most_delay_{0};
  std::shared_ptr<Fault> fault_;
  std::uint64_t generation_ = 0;  // grows with each crash
  std::uint64_t operations_ = 0, syncs_ = 0;
  std::shared_ptr<std::uint64_t> used_pages_ = std::make_shared<std::uint64_t>(0);
  Names names_, durable_names_;
  std::vector<NameChange> unsynced_names_;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_MEMORY_DISK_H
