// CellStore: the cells of the sites this server holds, over a KvStore, with a bounded cache of decoded ones.
// Transaction: the changes of one operation. Everything here is synchronous, so an operation that reads,
// decides and commits without awaiting between is alone with the store: that is what makes pre-operation
// attributes true and name operations atomic. One loop.
#ifndef SLICE_DIRSERVER_CELL_STORE_H
#define SLICE_DIRSERVER_CELL_STORE_H

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/metrics.h"
#include "dirserver/cells.h"
#include "dirserver/lru_cache.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

// Where a name is, or would be.
struct NamePlace {
  SiteId site;
  FileId directory;
  Position position;
  std::string_view name;   // the caller's
  std::uint64_t hash = 0;  // of (directory, name), by the volume's hash
};

class CellStore {
 public:
  CellStore(storage::KvStore& store, Metrics& metrics, std::uint64_t cache_bytes);

  // The cell; null where there is none of that generation. Valid until the next call of a method.
  Result<const AttributeCell*> attributes(const CellRef& ref);
  // The same whatever its generation: for a proxy, whose attribute cache keeps fileIDs alone.
  Result<const AttributeCell*> any_generation(const CellRef& ref);
  // The entry; null where there is none. Valid until the next call of a method.
  Result<const NameEntry*> find(const NamePlace& place);

  // Up to where the log must be durable before a reply may show this file's (or directory's) cell: zero
  // where nothing is pending. A directory's position covers its names.
  storage::LogPosition pending(FileId file);
  storage::LogPosition durable_position() const { return store_.durable_position(); }
  Task<Status> durable(storage::LogPosition position) { return store_.durable(position); }

  storage::KvStore& store() { return store_; }

 private:
  friend class Transaction;
  struct NameKey {
    SiteId site;
    FileId directory;
    Position position;
    bool operator==(const NameKey&) const = default;
  };
  struct NameKeyHash {
    std::size_t operator()(const NameKey& key) const {
      return static_cast<std::size_t>((key.directory.value * 0x9e3779b97f4a7c15ull) ^ key.position.value ^
                                      std::uint64_t{key.site.value} << 48);
    }
  };
  // fileIDs are handed out in memory from ranges that are taken durably.
  struct Sequence {
    std::uint64_t next = 0;
    std::uint64_t limit = 0;  // end of the range taken; next == limit: take another
    bool loaded = false;
  };

  Result<const NameBucket*> bucket(const NameKey& key);
  void remember(const AttributeCell& cell);
  void remember(const NameKey& key, NameBucket bucket);
  void note_pending(FileId file, storage::LogPosition position);

  storage::KvStore& store_;
  LruCache<FileId, AttributeCell> attributes_;
  LruCache<NameKey, NameBucket, NameKeyHash> names_;
  std::unordered_map<std::uint32_t, Sequence> sequences_;  // by site

  struct Pending {
    storage::LogPosition position;
    FileId file;
  };
  std::deque<Pending> pending_order_;
  std::unordered_map<FileId, storage::LogPosition> pending_;

  Counter& hits_;
  Counter& misses_;
};

// Reads through to the cells, keeps one copy of each that it touches, and writes those that were changed in
// one batch. Dropping it without commit() changes nothing.
class Transaction {
 public:
  explicit Transaction(CellStore& cells) : cells_(cells) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // One object a cell, however often it is asked for; null where there is none of that generation. Lives as
  // long as this. change() says that it was or will be changed.
  Result<AttributeCell*> load(const CellRef& ref);
  void change(AttributeCell& cell);
  // A new cell; `cell.self.cell` must come from allocate().
  AttributeCell& create(AttributeCell cell);
  void erase(AttributeCell& cell);
  Result<FileId> allocate(SiteId site);

  // Null where there is no such name. Valid until the bucket is changed.
  Result<const NameEntry*> find(const NamePlace& place);
  // The name must not exist. kNoSpace where its position has no slot left.
  Status link(const NamePlace& place, const Target& target);
  void unlink(const NamePlace& place);                          // the name must exist
  void retarget(const NamePlace& place, const Target& target);  // keeps the entry's cookie

  // Other records, in the same batch.
  void put(std::string key, std::string value) { batch_.put(std::move(key), std::move(value)); }
  void erase_record(std::string key) { batch_.erase(std::move(key)); }

  // Up to where the log must be durable before a reply may show any cell that was loaded.
  storage::LogPosition shown() const { return shown_; }
  // Applies everything; at most once. Nothing has changed where it fails.
  Result<storage::LogPosition> commit();

 private:
  struct CellSlot {
    AttributeCell cell;
    bool changed = false;
    bool erased = false;
  };
  struct BucketSlot {
    CellStore::NameKey key;
    NameBucket bucket;
    bool changed = false;
  };
  Result<BucketSlot*> bucket(const NamePlace& place);
  CellSlot& slot_of(const AttributeCell& cell);

  CellStore& cells_;
  std::vector<std::unique_ptr<CellSlot>> attributes_;
  std::vector<std::unique_ptr<BucketSlot>> buckets_;
  std::optional<std::pair<SiteId, std::uint64_t>> new_range_;  // site, first fileID sequence of it
  storage::WriteBatch batch_;
  storage::LogPosition shown_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_CELL_STORE_H
