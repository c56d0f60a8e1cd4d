// Stays: which sites are here, told by stays: from when a site came until it went. What goes on by itself
// remembers the stay that it began in, since a site that went may have come back with other contents, and a
// second one of its kind. A site can be frozen, for the end of a move (docs/moves.md) or for a moment that is
// the same at all servers (background/snapshots.h): what is there may be read, and is not changed, until the
// site goes or all is as before. One loop.
#ifndef SLICE_DIRSERVER_STORE_STAYS_H
#define SLICE_DIRSERVER_STORE_STAYS_H

#include <map>
#include <set>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "common/task.h"

namespace slice::dirserver {

using Stay = Id<struct StayTag, std::uint64_t>;  // 0: the site is not here

class Stays {
 public:
  explicit Stays(Loop& loop) : loop_(loop) {}
  Stays(const Stays&) = delete;
  Stays& operator=(const Stays&) = delete;

  Stay of(SiteId site) const;
  bool here(SiteId site) const { return of(site).value != 0; }
  // The site came, and its stay begins; or went.
  void begin(SiteId site);
  void end(SiteId site);

  // Until each freeze() has had its thaw().
  void freeze(SiteId site) { ++frozen_[site.value].times; }
  void thaw(SiteId site);
  // It is frozen, or was here and went: nothing of it may be changed.
  bool closed(SiteId site) const;
  // It was here and went.
  bool gone(SiteId site) const;
  // No site is closed: what costs nothing as long as no site moves.
  bool all_open() const { return frozen_.empty() && gone_.empty(); }

  // Ends when the site may be changed: true; false: this stay is over.
  Task<bool> until_open(SiteId site, Stay stay);

 private:
  struct Frozen {
    unsigned times = 0;
    std::vector<OneShot<bool>> waiting;  // for its end
  };
  void open(std::map<std::uint32_t, Frozen>::iterator frozen);

  Loop& loop_;
  std::uint64_t last_ = 0;
  std::map<std::uint32_t, Stay> stays_;
  std::map<std::uint32_t, Frozen> frozen_;
  std::set<std::uint32_t> gone_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_STAYS_H
