// RecentOrderers: since which version of its layout a server may order a file's writes, where it might not
// before. A write that has waited at it since an earlier one may have been done elsewhere meanwhile. Of the
// last files alone: of older ones a bound that holds for all. One loop.
#ifndef SLICE_COORDINATOR_RECENT_ORDERERS_H
#define SLICE_COORDINATOR_RECENT_ORDERERS_H

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "wire/layout.h"

namespace slice::coordinator {

class RecentOrderers {
 public:
  explicit RecentOrderers(std::size_t max_files) : max_files_(max_files) {}

  // Of all servers and files, at the latest.
  void bound(std::uint64_t version) { others_ = std::max(others_, version); }
  // Versions grow from call to call.
  void note(FileId file, std::uint32_t server, std::uint64_t version) {
    auto [found, fresh] = files_.try_emplace(file);
    if (found->second.size() >= wire::kMaxOrdersSince) {
      found->second.clear();
      bound(version);
    }
    found->second[server] = version;
    if (!fresh) return;
    order_.push_back(file);
    if (order_.size() > max_files_) forget_oldest();
  }
  void tell(FileId file, wire::FileLayout& layout) const {
    layout.others_order_since = others_;
    auto found = files_.find(file);
    if (found == files_.end()) return;
    for (const auto& [server, version] : found->second) layout.orders_since.push_back({server, version});
  }

 private:
  void forget_oldest() {
    auto oldest = files_.find(order_.front());
    for (const auto& [server, version] : oldest->second) bound(version);
    files_.erase(oldest);
    order_.pop_front();
  }

  std::size_t max_files_;
  std::uint64_t others_ = 0;
  std::unordered_map<FileId, std::map<std::uint32_t, std::uint64_t>> files_;  // by server
  std::deque<FileId> order_;                                                  // oldest first
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_RECENT_ORDERERS_H
