// KvStore: an ordered key-value store. The real one is RocksDB (rocks_store.h), the in-memory one
// (memory_store.h) can drop what was not durable. Keys are ordered as unsigned bytes.
#ifndef SLICE_STORAGE_KV_STORE_H
#define SLICE_STORAGE_KV_STORE_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "common/task.h"

namespace slice::storage {

// Changes applied together or not at all.
class WriteBatch {
 public:
  struct Change {
    std::string key;
    std::optional<std::string> value;  // none: delete
  };
  void put(std::string key, std::string value) { changes_.push_back({std::move(key), std::move(value)}); }
  void erase(std::string key) { changes_.push_back({std::move(key), std::nullopt}); }
  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return changes_.empty(); }

 private:
  std::vector<Change> changes_;
};

// A point in the store's log; larger is later.
struct LogPosition {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const LogPosition&) const = default;
};

class KvIterator {
 public:
  KvIterator() = default;
  KvIterator(const KvIterator&) = delete;
  KvIterator& operator=(const KvIterator&) = delete;
  virtual ~KvIterator() = default;
  virtual void seek(std::string_view at_or_after) = 0;
  virtual void next() = 0;
  virtual bool valid() const = 0;
  virtual std::string_view key() const = 0;  // valid until the next move
  virtual std::string_view value() const = 0;
  virtual Status status() const = 0;  // why it is not valid, where that is an error
};

// What can be read: a store as it is at each moment, or one moment of it.
class KvReader {
 public:
  KvReader() = default;
  KvReader(const KvReader&) = delete;
  KvReader& operator=(const KvReader&) = delete;
  virtual ~KvReader() = default;

  // Nothing where there is no such key. kCorrupt, kIo.
  virtual Result<std::optional<std::string>> get(std::string_view key) const = 0;
  // A view of what is there now, over keys in [begin, end).
  virtual std::unique_ptr<KvIterator> iterate(std::string_view begin, std::string_view end) const = 0;
};

class KvStore : public KvReader {
 public:
  // The store as it is now, for as long as the result lives, which must not outlive the store. Meanwhile what
  // is replaced keeps its room.
  virtual std::unique_ptr<KvReader> snapshot() const = 0;
  // Bytes of keys and values in [begin, end), about. The default goes through all of them.
  virtual std::uint64_t bytes_between(std::string_view begin, std::string_view end) const;
  // Applies the batch: readers see it at once. It is durable when durable(position) has ended well.
  virtual Result<LogPosition> apply(const WriteBatch& batch) = 0;
  // Waits until everything up to `position` is durable. Waiters share syncs (group commit). After a failed
  // sync the store refuses every later change (kIo): what is durable is no longer known.
  virtual Task<Status> durable(LogPosition position) = 0;
  virtual LogPosition durable_position() const = 0;
  // For a clean stop: makes what is applied durable, and records that it must be there at the next start
  // (docs/formats/end-mark.md), as the destructor does. Blocks. The store can be used further.
  virtual Status record_end() { return {}; }
  // From now on changes are refused (kNoSpace) while the file system has less free than this, where the store
  // is on one.
  virtual void set_min_free(std::uint64_t /*bytes*/) {}
};

inline std::uint64_t KvStore::bytes_between(std::string_view begin, std::string_view end) const {
  std::uint64_t bytes = 0;
  for (auto at = iterate(begin, end); at->valid(); at->next()) bytes += at->key().size() + at->value().size();
  return bytes;
}

}  // namespace slice::storage

#endif  // SLICE_STORAGE_KV_STORE_H
