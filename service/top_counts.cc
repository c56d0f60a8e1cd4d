#include "service/top_counts.h"

#include <algorithm>

namespace slice::service {

void TopCounts::add(const wire::TopKey& key, const wire::TraceRecord& record) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    wire::TopEntry entry{.key = key};
    if (entries_.size() >= kMostKeys) {
      auto [calls, fewest] = *by_calls_.begin();
      entry.calls = entry.others = calls;
      by_calls_.erase(by_calls_.begin());
      entries_.erase(fewest);
    }
    found = entries_.emplace(key, entry).first;
  } else {
    by_calls_.erase({found->second.calls, key});
  }
  wire::TopEntry& entry = found->second;
  ++entry.calls;
  entry.received += record.received;
  entry.sent += record.sent;
  entry.took += record.took;
  entry.slowest = std::max(entry.slowest, record.took);
  by_calls_.emplace(entry.calls, key);
}

std::vector<wire::TopEntry> TopCounts::entries() const {
  std::vector<wire::TopEntry> all;
  all.reserve(by_calls_.size());
  for (auto each = by_calls_.rbegin(); each != by_calls_.rend(); ++each)
    all.push_back(entries_.at(each->second));
  return all;
}

void TopCounts::clear() {
  entries_.clear();
  by_calls_.clear();
}

}  // namespace slice::service
