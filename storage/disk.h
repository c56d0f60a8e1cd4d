// Disk: files of one data directory, as coroutines. The real one (posix_disk.h) tries without waiting first
// and hands what would block to a few threads; the in-memory one (memory_disk.h) keeps synced and unsynced
// bytes apart, so that a crash can drop what was not synced, and injects faults.
#ifndef SLICE_STORAGE_DISK_H
#define SLICE_STORAGE_DISK_H

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/result.h"
#include "common/task.h"

namespace slice::storage {

struct Range {
  std::uint64_t offset = 0, length = 0;
  constexpr auto operator<=>(const Range&) const = default;
};

// A part of several reads or writes that belong together.
struct ReadPiece {
  std::uint64_t offset = 0;
  ByteSpan into;
  std::size_t got = 0;  // bytes, as File::read() returns them
  bool direct = false;  // they came past the page cache
};
// Reads of so many bytes and more may go past the page cache (storage/direct_reads.h), where offset, number
// of bytes and the memory that they are put into are multiples of this.
inline constexpr std::size_t kDirectLeast = 32 << 10, kDirectAlignment = 4096;
struct WritePiece {
  std::uint64_t offset = 0;
  ByteView bytes;
};

// An open file. Operations on one file may overlap; the caller orders those that must not. Offsets and sizes
// in bytes. Errors: kIo, kNoSpace. Destroying a File closes it; no operation may be under way then.
class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  virtual ~File() = default;

  // Reads up to into.size() bytes; fewer only at the end of the file. Returns how many.
  virtual Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) = 0;
  // Writes all of `bytes` (they must live until the task ends), extending the file where needed.
  virtual Task<Status> write(std::uint64_t offset, ByteView bytes) = 0;
  // Several reads at once, as cheaply as one where there is nothing to wait for.
  virtual Task<Status> read_pieces(std::span<ReadPiece> pieces) {
    for (ReadPiece& piece : pieces) {
      auto got = co_await read(piece.offset, piece.into);
      if (!got) co_return fail(got.error());
      piece.got = *got;
    }
    co_return Status{};
  }
  // Several writes, in this order: what stands behind one that fails is not written.
  virtual Task<Status> write_pieces(std::span<const WritePiece> pieces) {
    for (const WritePiece& piece : pieces) {
      SLICE_CO_RETURN_IF_ERROR(co_await write(piece.offset, piece.bytes));
    }
    co_return Status{};
  }
  // Makes every write that was completed before the call durable, with the file's size. Callers that wait at
  // the same time share one fsync. An fsync that failed is an error for each of them and for every later
  // sync() of this File: the system forgets what it could not write, so the data counts as lost until it is
  // written again through a newly opened File.
  virtual Task<Status> sync() = 0;
  virtual Task<Status> truncate(std::uint64_t size) = 0;
  // Gives the space of [offset, offset + length) back; reads zeros afterwards.
  virtual Task<Status> punch(std::uint64_t offset, std::uint64_t length) = 0;
  virtual std::uint64_t size() const = 0;

  // Bytes of disk the file takes (holes take none).
  virtual Result<std::uint64_t> allocated() const = 0;
  // Runs of bytes that are not holes, from `offset` on, in order; at most `limit` of them.
  virtual Result<std::vector<Range>> data_ranges(std::uint64_t offset, std::size_t limit) const = 0;
  // Hints, without error or waiting: the range will be read soon; the range was written and may go to disk.
  virtual void will_read(std::uint64_t /*offset*/, std::uint64_t /*length*/) {}
  virtual void start_write_back(std::uint64_t /*offset*/, std::uint64_t /*length*/) {}
  // Every read is done at once, so that hints are of no use.
  virtual bool in_memory() const { return false; }
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // for this process, as statvfs f_bavail
  std::uint64_t total_files = 0;
  std::uint64_t free_files = 0;
};

class Disk {
 public:
  Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  virtual ~Disk() = default;

  enum class Mode { kMustExist, kCreate };
  // `path` is relative to the data directory; missing folders are made with kCreate. Creation is durable
  // after sync_folder() of its folder, or after the first File::sync() of the new file.
  virtual Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) = 0;
  // A file or an empty folder. kNotFound where there is none, kExists where the folder is not empty.
  virtual Task<Status> remove(std::string path) = 0;
  virtual Task<Status> rename(std::string from, std::string to) = 0;
  virtual Task<Result<std::vector<std::string>>> list(
      std::string folder) = 0;                               // names, unordered; empty where none
  virtual Task<Status> sync_folder(std::string folder) = 0;  // "" is the data directory itself
  virtual Result<Space> space() const = 0;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_DISK_H
