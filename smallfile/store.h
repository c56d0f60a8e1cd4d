// Store: the bytes below the threshold of the files of this server's sites: in memory, in the journal, in
// zones (docs/formats/smallfile-store.md). NFSv3's commit rules: what an unstable write left is durable after
// commit() only; what a stable write, commit(), truncate() or remove() left is durable when they end. One
// loop.
#ifndef SLICE_SMALLFILE_STORE_H
#define SLICE_SMALLFILE_STORE_H

#include <functional>
#include <memory>
#include <vector>

#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "smallfile/checkpoint.h"
#include "smallfile/file_table.h"
#include "smallfile/journal.h"
#include "storage/disk.h"
#include "storage/space_count.h"
#include "wire/moves.h"
#include "wire/object.h"

namespace slice::smallfile {

struct StoreOptions {
  std::uint64_t threshold = 65536;  // bytes; a multiple of kBlockSize
  std::uint32_t sites = 64;
  std::function<SiteId(FileId)> site_of;
  std::uint64_t cache_bytes = 128 << 20;
  std::uint64_t reserve_bytes = 64 << 20;  // free space below which writes are refused
  std::uint64_t segment_bytes = 8 << 20;   // of the journal
  std::uint64_t journal_bytes = 24 << 20;  // saving starts at this length of the journal
  bool saves = true;  // what the journal has; false: for one that only looks at what there is
};

class Store {
 public:
  static constexpr Duration kSaveAfter = std::chrono::seconds(5);  // the longest that a change stays unsaved

  // Recovers: reads free room, replays the journal. kInvalid where the store was made with another threshold
  // or number of sites; kCorrupt with the place of the damage.
  static Task<Result<std::unique_ptr<Store>>> open(Loop& loop, storage::Disk& disk, storage::KvStore& records,
                                                   ZoneStore& zones, Metrics& metrics, StoreOptions options,
                                                   const CrashPoints& crash = no_crash_points());
  Store(Loop& loop, storage::Disk& disk, storage::KvStore& records, ZoneStore& zones, Metrics& metrics,
        StoreOptions options, const CrashPoints& crash);

  // What is known of a file here; all zero for one that was never written here.
  struct Seen {
    std::uint64_t end = 0;  // one past the last byte written here
    Epoch epoch;
    nfs3::Time mtime;
  };
  Result<Seen> look(FileId file);
  // Bytes of it here that are no holes, in whole blocks of 4 KiB.
  Result<std::uint64_t> stored(FileId file);
  // The same of the blocks that [offset, offset + count) touches.
  Result<std::uint64_t> stored_in(FileId file, std::uint64_t offset, std::uint64_t count);
  // Fills `into` with the bytes from `offset` on, zeros where there are none; what the file was at that
  // moment. kCorrupt (counted and logged) where a stored block is damaged, kStale where the file was removed.
  Task<Result<Seen>> read(FileId file, std::uint64_t offset, ByteSpan into);

  struct Write {
    std::uint64_t offset = 0;  // offset + data.size() is at most the threshold
    ByteView data;             // not empty; lives until the task ends
    bool stable = false;
    Epoch epoch;            // the file's, as the authority knows it
    nfs3::Time mtime_from;  // the authority's mtime: the write's is later
  };
  struct Written {
    Seen seen;
    bool unreported = false;        // the authority does not know this end, or (for a commit) this mtime
    storage::LogSequence sequence;  // what durable() is to wait for; 0: nothing
  };
  // Readers see the write when this ends; a stable one is to be waited for with durable(). kNoSpace, kStale,
  // kCorrupt (a damaged block that the write does not cover), kIo.
  Task<Result<Written>> apply(FileId file, Write write);
  // Puts what no journal record has into the journal, to be waited for with durable().
  Result<Written> begin_commit(FileId file);
  Task<Status> durable(storage::LogSequence sequence) { return log_->sync(sequence); }
  // The same, waiting included.
  Task<Result<Written>> write(FileId file, Write write);
  Task<Result<Written>> commit(FileId file);
  // Nothing happens where the file's epoch is `epoch` or newer.
  Task<Status> truncate(FileId file, std::uint64_t size, Epoch epoch);
  Task<Status> remove(FileId file);
  // ---- what moves with its site (store_sites.cc) ----

  // All that is here of a file, at one moment: its bytes by runs without holes, of at most kMaxRun each.
  // Errors as of read().
  static constexpr std::size_t kMaxRun = 1 << 20;
  struct Run {
    std::uint64_t offset = 0;
    Buffer data;
  };
  struct Image {
    Seen seen;
    std::vector<Run> runs;
  };
  Task<Result<Image>> image(FileId file);
  // What another server has of the file: these bytes, or none, and that it ends behind them at the least.
  // When it ends well readers see it; it is durable after durable_all(). Errors as of apply().
  Task<Status> place(FileId file, std::uint64_t offset, ByteView data, Seen theirs);
  Task<Status> durable_all() { return log_->sync(log_->last()); }
  // Gives back what is here of files of these sites, and forgets it; durable when it ends well. Nobody writes
  // them meanwhile. kUnavailable: some are in use.
  Task<Status> clear(std::vector<SiteId> sites) { return checkpointer_.clear(std::move(sites)); }
  // Files of these sites that have no map record yet.
  std::vector<FileId> without_record(const std::vector<std::uint32_t>& sites) const;
  // Those of one site that have one, in order, from `from` on; fewer than `most`: there are no more. And how
  // many bytes they have.
  struct Recorded {
    std::vector<FileId> files;
    std::uint64_t bytes = 0;
  };
  Result<Recorded> with_record(SiteId site, FileId from, std::size_t most) const;

  // The authority knows `seen`.
  void reported(FileId file, const Seen& seen);

  // Files that something is here of, in order, behind `after`; some may be gone by now. kIo, kCorrupt.
  struct Listed {
    std::vector<FileId> files;
    bool end = true;
  };
  Result<Listed> list(FileId after, std::size_t limit) const;
  // kNotFound where nothing of the file is here.
  Result<wire::ObjectStatResult> stat(FileId file);

  // Saves everything to zones and map records: for a clean stop.
  Task<Status> save() { return checkpointer_.run(); }
  // For a clean stop: the next start will know how far the journal went.
  Task<Status> record_end() { return log_->record_end(); }
  bool idle() const { return table_.waiting().empty() && !checkpointer_.running(); }
  bool full() const { return full_; }
  bool failed() const { return checkpointer_.broken() || log_->failed(); }  // until it is opened again
  std::uint64_t threshold() const { return options_.threshold; }
  // Another StoreOptions::reserve_bytes from now on.
  void set_reserve(std::uint64_t bytes) {
    options_.reserve_bytes = bytes;
    space_.forget();
  }
  const FileTable& table() const { return table_; }
  const Checkpointer& checkpointer() const { return checkpointer_; }
  std::uint64_t journal_bytes() const { return log_->bytes(); }

  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

 private:
  struct Replayed {
    std::uint64_t sequence;
    Buffer record;
  };
  Task<Status> recover();
  Task<Status> check_header();
  Task<Status> replay(const Replayed& entry);
  Task<Status> replay_write(File& file, const JournalRecord& record);

  Task<Status> load(File& file, std::uint32_t index);
  Task<Status> load_range(File& file, std::uint64_t offset, std::size_t length, bool for_write);
  Task<Status> admit(FileId file, std::size_t length);
  bool has_space(std::size_t length);
  std::uint64_t space_left() const;
  void changed(File& file);
  nfs3::Time next_mtime(const File& file, nfs3::Time from) const;
  Result<storage::LogSequence> journal(File& file, const JournalRecord& record);
  Status journal_unlogged(File& file);

  Loop& loop_;
  storage::Disk& disk_;
  storage::KvStore& records_;
  ZoneStore& zones_;
  Metrics& metrics_;
  StoreOptions options_;
  FileTable table_;
  Checkpointer checkpointer_;
  std::unique_ptr<storage::Log> log_;
  Buffer record_;  // the journal record being built
  bool save_armed_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  bool full_ = false;
  storage::SpaceCount space_{loop_};  // above the reserve, at most

  LogLimiter damage_log_{10};
  Counter &damaged_, &refused_, &replayed_, &loads_;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_STORE_H
