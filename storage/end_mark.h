// EndMark: how far a log or store is known to be durable, in a small file beside it (NAME.end), so that a log
// that was cut, even at the border of a record, is noticed at the next start. It is always behind what is
// durable, never before it. Format: docs/formats/end-mark.md.
#ifndef SLICE_STORAGE_END_MARK_H
#define SLICE_STORAGE_END_MARK_H

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/bytes.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "storage/disk.h"

namespace slice::storage {

struct EndMark {
  std::uint64_t end = 0;  // everything up to this position is durable
  // Log: nothing up to this position is needed any more. RocksDB: the number of the log it began with.
  std::uint64_t begin = 0;
  // RocksDB's manifest: its number, and how much of it is durable. 0 for other logs.
  std::uint64_t manifest = 0;
  std::uint64_t manifest_bytes = 0;
  auto operator<=>(const EndMark&) const = default;
};

inline constexpr std::size_t kEndMarkSlot = 512;  // bytes, which a disk writes whole or not at all
inline constexpr std::size_t kEndMarkFile = 2 * kEndMarkSlot;
// What is to be written at counted_at(count): marks take turns, so that one is whole at every moment.
std::array<std::uint8_t, kEndMarkSlot> encode_end_mark(const EndMark& mark, std::uint64_t count);
constexpr std::uint64_t counted_at(std::uint64_t count) {
  return count % 2 * kEndMarkSlot;
}
// A whole new file: the mark with count 0.
Buffer new_end_mark_file(const EndMark& mark);

struct CountedEndMark {
  EndMark mark;
  std::uint64_t count = 0;
};
// The newer of the two; kCorrupt where neither is whole: the file is only ever replaced whole, or half.
Result<CountedEndMark> decode_end_mark_file(ByteView bytes, const std::string& path);

// "where the cure is" of an error that says what is missing.
std::string end_mark_cure(const std::string& path);

// The file of a Log. Its methods hold what they need: the object may go while one is under way. One loop.
class EndMarkFile : public std::enable_shared_from_this<EndMarkFile> {
 public:
  EndMarkFile(Loop& loop, Disk& disk, std::string path)
      : disk_(disk), path_(std::move(path)), writing_(loop) {}

  // What the file says; nothing where there is none.
  Task<Result<std::optional<EndMark>>> read();
  // Durable when it ends well. Both only ever grow. Makes the file where there is none.
  Task<Status> record_end(std::uint64_t end);
  Task<Status> record_begin(std::uint64_t begin);
  const std::string& path() const { return path_; }

 private:
  Task<Status> record(EndMark mark);
  Task<Status> write_slot(const EndMark& mark);
  Task<Status> make(const EndMark& mark);

  Disk& disk_;
  std::string path_;
  AsyncMutex writing_;
  std::unique_ptr<File> file_;
  EndMark mark_;
  bool durable_ = false;  // mark_
  std::uint64_t count_ = 0;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_END_MARK_H
