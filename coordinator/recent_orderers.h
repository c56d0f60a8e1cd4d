// RecentOrderers: since which version of its layout a server may order a file's writes, where it might not
// before. A write that was sent before may have been done elsewhere meanwhile. Of the last files alone: of
// older ones a bound that holds for all. One loop.
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
  // It is about to be one: no version will do until note().
  void expect(FileId file, std::uint32_t server) { note(file, server, wire::kNotYet); }
  // Versions grow from call to call.
  void note(FileId file, std::uint32_t server, std::uint64_t version) {
    auto [found, fresh] = files_.try_emplace(file);
    if (found->second.size() >= wire::kMaxOrdersSince) {
      drop_known(found->second);
    }
    found->second[server] = version;
    if (fresh) order_.push_back(file);
    for (std::size_t tries = order_.size(); order_.size() > max_files_ && tries > 0; --tries) forget_oldest();
  }
  // The bound alone counts for these files.
  template <class Which>
  void forget(Which which) {
    std::erase_if(order_, which);
    std::erase_if(files_, [&](const auto& each) { return which(each.first); });
  }
  void tell(FileId file, wire::FileLayout& layout) const {
    layout.others_order_since = others_;
    auto found = files_.find(file);
    if (found == files_.end()) return;
    for (const auto& [server, version] : found->second) layout.orders_since.push_back({server, version});
  }

 private:
  using Since = std::map<std::uint32_t, std::uint64_t>;  // by server
  // But not what is expected.
  void drop_known(Since& servers) {
    std::erase_if(servers, [&](const auto& each) {
      if (each.second == wire::kNotYet) return false;
      bound(each.second);
      return true;
    });
  }
  void forget_oldest() {
    FileId oldest = order_.front();
    order_.pop_front();
    auto found = files_.find(oldest);
    drop_known(found->second);
    if (found->second.empty()) {
      files_.erase(found);
    } else {
      order_.push_back(oldest);
    }
  }

  std::size_t max_files_;
  std::uint64_t others_ = 0;
  std::unordered_map<FileId, Since> files_;
  std::deque<FileId> order_;  // oldest first
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_RECENT_ORDERERS_H
