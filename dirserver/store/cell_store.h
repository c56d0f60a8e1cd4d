// CellStore: the cells of the sites this server holds, over a KvStore, with a bounded cache of decoded ones.
// Transaction: the changes of one operation. Everything here is synchronous, so an operation that reads,
// decides and commits without awaiting between is alone with the store: that is what makes pre-operation
// attributes true and name operations atomic. One loop.
#ifndef SLICE_DIRSERVER_STORE_CELL_STORE_H
#define SLICE_DIRSERVER_STORE_CELL_STORE_H

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/metrics.h"
#include "dirserver/cells/cells.h"
#include "dirserver/store/client_lock_cells.h"
#include "dirserver/store/clock_cache.h"
#include "dirserver/store/object_count.h"
#include "dirserver/store/stays.h"
#include "dirserver/store/usage_count.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

class CellStore {
 public:
  // `owns`: whether this server has the site.
  using Owns = std::function<bool(SiteId)>;
  // All must outlive this.
  CellStore(storage::KvStore& store, Metrics& metrics, std::uint64_t cache_bytes, Owns owns, Stays& stays);

  bool owns(SiteId site) const { return owns_(site); }
  Stays& stays() { return stays_; }

  // Every change of cells. kUnavailable: it is of a site that moves, or has moved, to another server; then
  // nothing is changed.
  Result<storage::LogPosition> apply(const storage::WriteBatch& batch);
  // `watcher` is told of every change from now on; there is one at most, nullptr takes it away.
  using Watcher = std::function<void(const storage::WriteBatch& batch)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }
  // Nothing is remembered of these sites: what the store has of them was changed otherwise.
  void forget(const std::vector<std::uint32_t>& sites);

  // The cell; null where there is none of that generation. Valid until the next call of a method.
  Result<const AttributeCell*> attributes(const CellRef& ref);
  // The same whatever its generation: for a proxy, whose attribute cache keeps fileIDs alone.
  Result<const AttributeCell*> any_generation(const CellRef& ref);
  // The entry; null where there is none. Valid until the next call of a method.
  Result<const NameEntry*> find(const NamePlace& place);
  // Whether the position of a name that is not there has no slot left.
  Result<bool> position_full(const NamePlace& place);
  // The directory's names on a site that is not its own; all zero where there are none.
  Result<PartCell> part(SiteId site, const CellRef& directory);

  // The names of a directory on a site, from a position on, in the order of cookies, until `visit` answers
  // false; what it answered last. `visit` must not call the store. Directories of few names are kept whole
  // and decoded.
  using Visit = std::function<bool(Position, const NameEntry&)>;
  Result<bool> each_name(SiteId site, FileId directory, Position from, const Visit& visit);
  // Hints that attributes() of all these is about to be called.
  void prefetch(const std::vector<CellRef>& cells) const {
    attributes_.prefetch(cells, [](const CellRef& cell) { return cell.fileid; });
  }

  // Up to where the log must be durable before a reply may show this file's (or directory's) cell: zero
  // where nothing is pending. A directory's position covers its names.
  storage::LogPosition pending(FileId file);
  storage::LogPosition durable_position() const { return store_.durable_position(); }
  Task<Status> durable(storage::LogPosition position) { return store_.durable(position); }

  storage::KvStore& store() { return store_; }
  const storage::KvStore& store() const { return store_; }

  // What clients have locked on the sites that are here.
  ClientLockCells& locks() { return locks_; }
  const ClientLockCells& locks() const { return locks_; }

  // What counts objects.
  ObjectCount& object_count() { return objects_; }
  // What counts how much users and groups have.
  UsageCount& usage() { return usage_; }
  const UsageCount& usage() const { return usage_; }
  // How many there are; nothing until they are counted.
  std::optional<std::uint64_t> objects() const { return objects_.objects(); }

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
  static constexpr std::size_t kMostListed = 512;
  struct Listing {
    struct Name {
      Position position;
      NameEntry entry;
    };
    // Else they are more than kMostListed and not here; taken for so until this leaves the cache, however
    // many are removed, so that nobody counts them with each page.
    bool whole = true;
    std::vector<Name> names;  // by position

    static bool before(const Name& name, Position position) { return name.position < position; }
    std::uint64_t cost() const;
    void replace(Position position, const NameBucket& bucket);
  };
  // fileIDs are handed out in memory from ranges that are taken durably.
  struct Sequence {
    std::uint64_t next = 0;
    std::uint64_t limit = 0;  // end of the range taken; next == limit: take another
  };

  Result<const NameBucket*> bucket(const NameKey& key);
  Result<const Listing*> listing(SiteId site, FileId directory);
  Result<bool> walk(SiteId site, FileId directory, Position from, const Visit& visit) const;
  void remember(const AttributeCell& cell);
  void remember(const NameKey& key, NameBucket bucket);
  Status take_range(SiteId site, Sequence& sequence);
  void note_pending(FileId file, storage::LogPosition position);

  storage::KvStore& store_;
  Owns owns_;
  Stays& stays_;
  Watcher watcher_;
  ClockCache<FileId, AttributeCell> attributes_;
  ClockCache<NameKey, NameBucket, NameKeyHash> names_;
  ClockCache<NameKey, Listing, NameKeyHash> listings_;     // by site and directory; the position is 0
  std::unordered_map<std::uint32_t, Sequence> sequences_;  // by site

  ClientLockCells locks_;
  ObjectCount objects_;
  UsageCount usage_;

  struct Pending {
    storage::LogPosition position;
    FileId file;
  };
  std::deque<Pending> pending_order_;
  std::unordered_map<FileId, storage::LogPosition> pending_;

  Counter& hits_;
  Counter& misses_;
};

// What happened to the names of a directory: counts and times that any number of changes move side by side.
struct DirectoryChange {
  std::int64_t entries = 0;
  std::int64_t subdirectories = 0;
  std::optional<nfs3::Time> at;
};
void apply(AttributeCell& directory, const DirectoryChange& change);

// Reads through to the cells, keeps one copy of each that it touches, and writes those that were changed in
// one batch. Dropping it without commit() changes nothing. What it read must not change before commit() but
// for counts and times of directories: nothing is awaited between, or the cells are locked (keys()).
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
  // Never given out again, whether this commits or not.
  Result<FileId> allocate(SiteId site);

  // Null where there is no such name. Valid until the bucket is changed.
  Result<const NameEntry*> find(const NamePlace& place);
  // As CellStore::part(), without this transaction's own changes.
  Result<PartCell> part(SiteId site, const CellRef& directory);
  // Changes of names on this server's sites, at a time; the directory's counts, nlink and times follow: in
  // its cell, where it is on the name's site, else in the part, and by touches(). The name must not exist, or
  // must. kNoSpace where its position has no slot left.
  Status link(const NamePlace& place, const Target& target, nfs3::Time now);
  Status unlink(const NamePlace& place, nfs3::Time now);
  // Keeps the entry's cookie. `target` is a directory where the old one was.
  Status retarget(const NamePlace& place, const Target& target, nfs3::Time now);

  // Names of the directory, whose cell is here, changed on a site of another server. False: no such
  // directory.
  Result<bool> touch(const CellRef& directory, SiteId part, const KnownPart& known, nfs3::Time now);

  // The locks of the file, in place of those that there are; they go with the file. Once for each file.
  void put_locks(const CellRef& file, ClientLocks locks);

  // Other records, in the same batch.
  // Whether what is at the key may be changed: its site is not about to move.
  bool open(std::string_view key) const { return !cells_.stays_.closed(site_of_key(key)); }
  void put(std::string key, std::string value) { batch_.put(std::move(key), std::move(value)); }
  void erase_record(std::string key) { batch_.erase(std::move(key)); }

  // What commit() depends on: each key of a cell or name (across/lock_table.h), and whether it rewrites
  // it.
  struct Key {
    FileId file;
    Position position;
    bool rewrites = false;
  };
  std::vector<Key> keys() const;
  // Up to where the log must be durable before a reply may show any cell, name or part that was read, or that
  // there is none.
  storage::LogPosition shown() const { return shown_; }
  // Whether commit() has anything to write.
  bool dirty() const;
  // Applies everything; at most once. Nothing has changed where it fails.
  Result<storage::LogPosition> commit();
  // After commit(): parts whose directories are other servers', which have to be told (OwedTouch).
  struct Touch {
    SiteId part;
    OwedTouch owed;
  };
  const std::vector<Touch>& touches() const { return touches_; }

 private:
  struct CellSlot {
    AttributeCell cell;
    bool changed = false;
    bool created = false;
    bool erased = false;
    DirectoryChange names;
  };
  struct BucketSlot {
    CellStore::NameKey key;
    NameBucket bucket;
    bool changed = false;
  };
  struct PartSlot {
    SiteId site;
    CellRef directory;
    // The directory's cell is here, and is changed as well. As it was when the names were changed: its site
    // may come meanwhile.
    bool with_cell;
    DirectoryChange names;
  };
  struct LockSlot {
    CellRef file;
    ClientLocks locks;
  };
  Result<BucketSlot*> bucket(const NamePlace& place);
  void show(FileId file);
  CellSlot& slot_of(const AttributeCell& cell);
  Status count(const NamePlace& place, const DirectoryChange& names);
  Status count_in_cell(const CellRef& directory, const DirectoryChange& names);
  Status count_what_is_owed(const PartSlot& slot);
  Status commit_part(const PartSlot& slot);
  Result<KnownPart> known_part(const CellRef& directory, SiteId part) const;
  Status refresh(CellSlot& slot);
  Status erase_known_parts(const AttributeCell& directory);
  Status fill_batch();
  void remember(storage::LogPosition position);
  std::int64_t more_objects() const;
  // What it makes of usage; before it is applied. None, where nobody counts that.
  Result<std::vector<UsageChange>> usage_changes();

  CellStore& cells_;
  std::vector<std::unique_ptr<CellSlot>> attributes_;
  std::vector<FileId> missed_;  // of which there was no cell: one may be prepared
  std::vector<std::unique_ptr<BucketSlot>> buckets_;
  std::vector<LockSlot> locks_;
  std::vector<PartSlot> parts_;
  std::vector<Touch> touches_;
  storage::WriteBatch batch_;
  storage::LogPosition shown_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_CELL_STORE_H
