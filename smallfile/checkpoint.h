// Checkpointer: saves what is in memory and in the journal to zones and map records, in batches, and trims
// the journal. One batch (docs/formats/smallfile-store.md, "Saving"):
//   1. snapshot, file by file: blocks newer than the zone get new room there (never the room that a saved
//   map record names) and are copied;
//   2. the journal up to the snapshot is made durable;
//   3. the blocks are written to their zones, clustered, and the zones synced;
//   4. map records, freed and taken room go to the key-value store in one change, which is made durable;
//   5. the journal is trimmed.
// A crash before the end of 4 leaves the state before the batch, and the journal; after it, the state behind.
// One loop.
#ifndef SLICE_SMALLFILE_CHECKPOINT_H
#define SLICE_SMALLFILE_CHECKPOINT_H

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "service/crash_points.h"
#include "smallfile/allocator.h"
#include "smallfile/file_table.h"
#include "smallfile/zone_store.h"
#include "storage/kv_store.h"
#include "storage/log.h"

namespace slice::smallfile {

class Checkpointer {
 public:
  static constexpr std::size_t kBatchBytes = 4 << 20;  // of blocks in one batch, about
  static constexpr std::size_t kBatchFiles = 1024;
  // Most that is copied, or written to a zone, before requests have their turn: a disk that never waits would
  // keep the loop for as long as there is anything to save. Also the longest write.
  static constexpr std::size_t kTurnBytes = 256 << 10;
  static constexpr Duration kRetry = std::chrono::seconds(1);  // after a failure

  // `log` may be set later, by set_log(), but before the first batch.
  Checkpointer(Loop& loop, FileTable& table, storage::KvStore& store, ZoneStore& zones, Metrics& metrics,
               const CrashPoints& crash);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Reads what is saved of free room. Before anything else.
  Status restore(std::uint32_t sites);
  void set_log(storage::Log& log) { log_ = &log; }
  // While the journal is replayed: memory holds no record beyond this one. Nothing: all that are in the log.
  void set_applied(std::optional<std::uint64_t> sequence) { applied_ = sequence; }

  // Gives back all that is saved of these sites, and in memory, and in the journal so far; durable when it
  // ends well. Nobody writes them meanwhile. kUnavailable: something of them is in use.
  Task<Status> clear(std::vector<SiteId> sites);
  // Up to which journal record nothing is of this site any more.
  std::uint64_t cleared(SiteId site) const;

  // Starts saving, soon, unless it is under way; goes on until no file waits.
  void kick();
  // The same, and waits until it has ended, or failed.
  Task<Status> run();
  // Waits for the end of the batch under way (or the next one), however it ends.
  Task<Status> next_batch();
  bool running() const { return running_; }
  // An error after which nothing can be saved until the process is started again.
  bool broken() const { return !intact_; }

  std::uint64_t free_bytes() const;  // in fragments that hold a whole block, all zones
  const ZoneAllocator* zone(SiteId site) const;

 private:
  struct BlockWrite {  // a block's bytes on their way to the zone, and the room behind them as zeros
    SiteId zone;
    std::uint64_t place;
    std::size_t at, length;  // in the batch's data
  };
  struct Snapshot {
    Pin file;
    std::uint64_t first_logged = 0;
    std::vector<Extent> freed;
    std::vector<std::uint32_t> blocks;
    std::string key;
    std::optional<std::string> value;
    bool forget = false;  // neither in the store before nor to be afterwards
  };
  struct Batch {
    std::vector<Snapshot> snapshots;
    std::vector<BlockWrite> writes;
    Buffer data;
  };

  Status restore_zone(SiteId site);
  Task<Status> erase_records(SiteId site, std::uint64_t journal_end);
  Result<storage::WriteBatch> records_of(SiteId site, std::size_t most) const;
  Task<void> loop_until_done();
  Task<Status> save_batch();
  // After so many bytes: lets what else waits for the loop go first, now and then.
  Task<void> give_way(std::size_t bytes);
  Task<void> take(Batch& batch);
  void take_file(Batch& batch);
  void take_block(Batch& batch, File& file, Block& block);
  Task<Status> write_zones(Batch& batch);
  // Writes [first, last), `length` bytes that lie one after another in their zone: one write.
  Task<Status> write_run(const Batch& batch, std::size_t first, std::size_t last, std::size_t length);
  Task<Status> save_records(Batch& batch);
  void release_freed(const Batch& batch);
  void reclaim_freed(const Batch& batch, const std::map<SiteId, ZoneAllocator::Changes>& changes);
  void settle(Batch& batch, bool saved);
  Task<void> trim();
  void tell(const Status& status, bool all);

  Loop& loop_;
  FileTable& table_;
  storage::KvStore& store_;
  ZoneStore& zones_;
  const CrashPoints& crash_;
  storage::Log* log_ = nullptr;
  std::map<SiteId, ZoneAllocator> allocators_;
  std::map<SiteId, std::uint64_t> cleared_;
  AsyncMutex saving_;  // a batch, or clear()
  std::optional<std::uint64_t> applied_;

  bool running_ = false;
  std::size_t since_turn_ = 0;  // bytes since requests had their turn
  Status intact_;               // the error where broken()
  std::vector<OneShot<Status>> batch_waiters_, run_waiters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  Counter &batches_, &failures_, &runs_, &blocks_, &written_, &zone_free_, &zone_end_;
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_CHECKPOINT_H
