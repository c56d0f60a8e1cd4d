// UsageCount: how much each user, group and tree has on the sites of a directory server: bytes that its files
// and directories take (`used` of their attributes), and how many objects there are. Nothing is counted as
// long as nobody has a quota. When somebody gets one, and at a start with quotas, the attribute cells are
// counted once, beside everything else; from then on the count is kept, by each batch that changes cells. It
// is nothing durable: what a crash left is counted again. One loop.
#ifndef SLICE_DIRSERVER_STORE_USAGE_COUNT_H
#define SLICE_DIRSERVER_STORE_USAGE_COUNT_H

#include <memory>
#include <unordered_map>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "common/quota.h"
#include "dirserver/cells/cells.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

// What a batch makes of an object: whose it was, and whose it is. None: there was, or is, no such object.
struct UsageChange {
  struct Side {
    QuotaOwners owners;
    std::uint64_t space = 0;
    bool operator==(const Side&) const = default;
  };
  SiteId site;
  std::optional<Side> before, after;
};
// Of one object.
UsageChange::Side usage_of(const AttributeCell& cell);

class UsageCount {
 public:
  UsageCount() = default;
  UsageCount(const UsageCount&) = delete;
  UsageCount& operator=(const UsageCount&) = delete;

  // Counts the cells that these sites have now, some at each turn of the loop; all changes are told from now
  // on. Store and loop outlive this, or end().
  void begin(const storage::KvStore& store, const std::vector<SiteId>& sites, Loop& loop);
  // Forgets everything.
  void end();
  // Whether changes are to be told.
  bool on() const { return on_; }
  // The site came, with the cells that it has now, or went.
  void came(const storage::KvStore& store, SiteId site, Loop& loop);
  void went(SiteId site);
  void changed(const UsageChange& change);

  // Whether all sites are counted; else what of() says is what was counted until now.
  bool counted() const { return on_ && counting_ == 0; }
  QuotaUsage of(QuotaId whose) const;
  // Grows with every change of anybody's usage.
  std::uint64_t version() const { return version_; }

 private:
  // Changes of before a site was counted to its end may count before what they change does.
  struct Sum {
    std::int64_t space = 0, files = 0;
  };
  struct WhoHash {
    std::size_t operator()(const QuotaId& who) const {
      return static_cast<std::size_t>((std::uint64_t{who.id} << 2 | static_cast<std::uint64_t>(who.kind)) *
                                      0x9e3779b97f4a7c15ull);
    }
  };
  using Sums = std::unordered_map<QuotaId, Sum, WhoHash>;
  struct Site {
    std::unique_ptr<storage::KvIterator> cells;  // those that are to be counted; none: no more are
    bool counted = false;
    Sums sums;
  };
  void add(Site& site, const UsageChange::Side& side, int sign);
  static void add(Sums& sums, QuotaId who, std::int64_t space, std::int64_t files);
  void count_later(Loop& loop);
  void count_some(Loop& loop);
  // False: the site is counted, or cannot be.
  bool count_one(SiteId number, Site& site);

  std::unordered_map<std::uint32_t, Site> sites_;
  Sums sums_;                 // of all sites
  std::size_t counting_ = 0;  // sites that are not counted
  std::uint64_t version_ = 1;
  bool on_ = false, armed_ = false;
  std::shared_ptr<bool> alive_;  // as long as it is on
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_USAGE_COUNT_H
