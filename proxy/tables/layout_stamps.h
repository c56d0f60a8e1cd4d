// LayoutStamps: what a worker has heard of layouts from storage nodes that refused a WRITE: that goes along
// with every WRITE of a file with a layout, so that one which arrives late is known for what it is
// (docs/mirrors.md). One worker's thread.
#ifndef SLICE_PROXY_TABLES_LAYOUT_STAMPS_H
#define SLICE_PROXY_TABLES_LAYOUT_STAMPS_H

#include <unordered_map>

#include "common/ids.h"
#include "rpc/auth.h"

namespace slice::proxy {

class LayoutStamps {
 public:
  // For files of this coordinator site. Nothing was heard yet: one that is older than all.
  rpc::LayoutStamp of(SiteId site) const {
    auto found = stamps_.find(site.value);
    return found == stamps_.end() ? rpc::LayoutStamp{0, 1} : found->second;
  }
  void heard(SiteId site, const rpc::LayoutStamp& stamp) {
    rpc::LayoutStamp& mine = stamps_[site.value];
    const bool older = stamp.coordinator == mine.coordinator && stamp.version < mine.version;
    if (!older) mine = stamp;
  }

 private:
  std::unordered_map<std::uint32_t, rpc::LayoutStamp> stamps_;  // by site
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_TABLES_LAYOUT_STAMPS_H
