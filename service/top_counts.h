// TopCounts: who causes how many operations, of any number of causes, in bounded memory: where there is no
// room for one more, the one with the fewest calls makes room, and its calls count as the new one's (the
// space-saving algorithm of Metwally, Agrawal and El Abbadi). So who causes more than 1 of kMostKeys of all
// calls is always among them. Not thread-safe.
#ifndef SLICE_SERVICE_TOP_COUNTS_H
#define SLICE_SERVICE_TOP_COUNTS_H

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "wire/trace.h"

namespace slice::service {

class TopCounts {
 public:
  static constexpr std::size_t kMostKeys = wire::kMaxTopEntries;

  void add(const wire::TopKey& key, const wire::TraceRecord& record);
  // Those with most calls first.
  std::vector<wire::TopEntry> entries() const;
  void clear();

 private:
  std::map<wire::TopKey, wire::TopEntry> entries_;
  std::set<std::pair<std::uint64_t, wire::TopKey>> by_calls_;  // calls and key of each
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_TOP_COUNTS_H
