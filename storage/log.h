// Log: an append-only record log on a Disk, in segments, with group commit and checksums: the intention log
// of the coordinator and the journal of the small-file server. Format: docs/formats/log.md (log_format.h).
#ifndef SLICE_STORAGE_LOG_H
#define SLICE_STORAGE_LOG_H

#include <cstdint>
#include <functional>
#include <memory>

#include "common/bytes.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/result.h"
#include "common/task.h"
#include "storage/disk.h"

namespace slice::storage {

// Sequence number of a record: 1 for the first ever written, never reused.
struct LogSequence {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const LogSequence&) const = default;
};

class Log {
 public:
  struct Options {
    std::string folder = "log";
    std::uint64_t segment_bytes = 16 << 20;
    std::size_t max_record = (1 << 20) + 4096;  // bytes
    std::size_t spares = 4;                     // segments kept for new ones when they are trimmed, at most
  };

  // Opens the log and calls `replay` for every whole record, oldest first. A torn tail (a record that was
  // being written at a crash) is cut off and counted; a bad record before the tail is kCorrupt, with segment
  // and offset. So is a log from which records are missing that were durable, as far as FOLDER.end says
  // (end_mark.h): that is written within a second of a record, and by record_end().
  using Replay = std::function<Status(LogSequence, ByteView record)>;
  static Task<Result<std::unique_ptr<Log>>> open(Loop& loop, Disk& disk, Metrics& metrics, Options options,
                                                 Replay replay);

  virtual ~Log() = default;
  Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Appends to memory, in order; sync() makes it durable. kTooLarge: over max_record. kNoSpace: the disk has
  // been full for so long that too much waits in memory. kIo: closed for writing, see sync().
  virtual Result<LogSequence> append(ByteView record) = 0;
  // Waits until every record up to `sequence` is durable; callers share writes and syncs. kNoSpace: the
  // record stays in its place in memory, and the next sync tries again. Any other error: what is durable is
  // not known any more, and the log refuses everything until it is opened again.
  virtual Task<Status> sync(LogSequence sequence) = 0;
  // Records before `sequence` are no longer needed: whole segments of them go, never the newest. Some are
  // kept for new ones, which are written over them: a sync of what was written before has no block to be
  // noted by the file system, whose own journal is half of what the sync of a growing file costs.
  virtual Task<Status> trim(LogSequence sequence) = 0;
  // Has the next start know that everything durable by now was there: for a clean stop.
  virtual Task<Status> record_end() = 0;
  virtual LogSequence last() const = 0;  // appended
  virtual LogSequence durable() const = 0;
  virtual std::uint64_t bytes() const = 0;  // on disk, all segments
  virtual bool failed() const = 0;          // closed for writing: see sync()
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_LOG_H
