// ObjectCount: how many files, directories and other objects a directory server has: what FSSTAT tells as
// files. The cells are counted once, after the start and beside everything else; from then on the count is
// kept. One loop.
#ifndef SLICE_DIRSERVER_STORE_OBJECT_COUNT_H
#define SLICE_DIRSERVER_STORE_OBJECT_COUNT_H

#include <memory>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

class ObjectCount {
 public:
  ObjectCount() = default;
  ObjectCount(const ObjectCount&) = delete;
  ObjectCount& operator=(const ObjectCount&) = delete;

  // Counts the attribute cells that these sites have now, some at each turn of the loop; what changed before
  // is among them. Both outlive it. A store that cannot be read is never counted, with a log line.
  void begin(const storage::KvStore& store, const std::vector<SiteId>& sites, Loop& loop);
  // The site came, with the cells that it has now, or went; counted like the others.
  void came(const storage::KvStore& store, SiteId site, Loop& loop) { count(store, site, 1, loop); }
  void went(const storage::KvStore& store, SiteId site, Loop& loop) { count(store, site, -1, loop); }
  // So many more cells were written than erased.
  void changed(std::int64_t difference) { changed_ += difference; }
  // Nothing until those of the start are counted.
  std::optional<std::uint64_t> objects() const;

 private:
  struct Site {
    std::unique_ptr<storage::KvIterator> cells;
    int sign = 1;
  };
  void count(const storage::KvStore& store, SiteId site, int sign, Loop& loop);
  void count_later(Loop& loop);
  void count_some(Loop& loop);

  std::vector<Site> sites_;  // of which something is not counted
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::int64_t counted_ = 0, changed_ = 0;  // changed_: since begin()
  bool counting_ = false, done_ = false;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_OBJECT_COUNT_H
