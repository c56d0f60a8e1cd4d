// RocksGuard: notices at the start that a RocksDB store has lost changes that were durable: that its log was
// cut (RocksDB takes the border of a record for the end), or that a log in the middle or the manifest's end
// is missing. Keeps an end mark (end_mark.h) beside the store's folder, FOLDER.end. For rocks_store.cc only.
#ifndef SLICE_STORAGE_ROCKS_GUARD_H
#define SLICE_STORAGE_ROCKS_GUARD_H

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

#include "common/result.h"
#include "storage/end_mark.h"

namespace slice::storage {

class RocksGuard {
 public:
  // Reads the mark and looks whether the manifest goes as far: before the store is opened. kCorrupt, kIo.
  static Result<std::unique_ptr<RocksGuard>> open(std::string folder);
  virtual ~RocksGuard() = default;
  RocksGuard() = default;
  RocksGuard(const RocksGuard&) = delete;
  RocksGuard& operator=(const RocksGuard&) = delete;

  // Has the opening, and the store that comes of it, watched. The guard must outlive the store.
  virtual void watch(rocksdb::Options& options) = 0;
  // After the opening, which ended with `opened` (`db` is nothing where that failed): whether everything is
  // there that was durable. kCorrupt.
  virtual Status check(const rocksdb::Status& opened, const rocksdb::DB* db) const = 0;

  // After check(): everything in the store is in tables, and its log is new.
  virtual Status record_start(rocksdb::DB& db) = 0;
  // Everything up to `end` is durable. Blocks; any thread.
  virtual Status record_end(std::uint64_t end) = 0;
  // Whether RocksDB has begun a new log since the last call. Then what is in it may be told to be durable
  // only after record_end(): for what lies behind a log's lost end was never durable, if no mark says so.
  virtual bool log_begun() = 0;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_ROCKS_GUARD_H
