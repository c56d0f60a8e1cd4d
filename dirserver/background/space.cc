#include "dirserver/background/space.h"

#include <algorithm>

#include "common/log.h"

namespace slice::dirserver {

storage::Space SpaceMonitor::own() {
  MonoTime now = context_.loop.now();
  if (own_known_ && now - own_at_ < kOwnMaxAge) return own_;
  auto space = context_.disk.space();
  if (!space) {
    log_warning("free space of the data directory is not known: {}", space.error().message);
    return own_;
  }
  own_ = *space;
  own_at_ = now;
  own_known_ = true;
  return own_;
}

bool SpaceMonitor::low() {
  storage::Space space = own();
  return own_known_ && space.free_bytes < context_.settings.get()->reserve_of(context_.self);
}

Task<SpaceMonitor::Figures> SpaceMonitor::volume() {
  // With figures at hand nobody waits for the manager: the next caller gets the new ones.
  co_await members_.first();
  const std::vector<wire::Member>& members = members_.get();
  if (added_up_ != members_.version()) add_up(members);
  storage::Space here = own();
  co_return Figures{.total_bytes = total_bytes_ != 0 ? total_bytes_ : here.total_bytes,
                    .free_bytes = total_bytes_ != 0 ? free_bytes_ : here.free_bytes,
                    .other_files = other_files_,
                    .free_files = (here.free_bytes + other_room_) / kBytesPerFile};
}

// Files without a layout go by the hash alone, and fill a node no faster than its sites let them: of one that
// has a tenth of them no more counts than a tenth of all disks.
double SpaceMonitor::part_of(const wire::Member& node, const std::vector<wire::Member>& all) const {
  const routing::RoutingTables& tables = *context_.tables.get();
  const VolumeConfig& volume = context_.config.volume;
  const bool by_space =
      volume.placement == slice::Placement::kFreeSpace || (volume.copies > 1 && tables.some_came_later());
  if (by_space) return node.entry.role == wire::Role::kStorage && node.alive && !node.entry.drained ? 1 : 0;
  const auto& owners = volume.copies > 1
                           ? tables.layout_sites()
                           : tables.wire().sites[static_cast<std::size_t>(wire::Role::kStorage)];
  auto sites = [&](const wire::Member& member) {
    const bool counts = member.entry.role == wire::Role::kStorage && member.alive;
    return counts ? static_cast<double>(std::count(owners.begin(), owners.end(), member.entry.server)) : 0;
  };
  const double own = sites(node);
  if (own == 0 || node.last.total_bytes == 0) return 0;
  double all_sites = 0, all_bytes = 0;
  for (const wire::Member& each : all) {
    const double held = sites(each);
    all_sites += held;
    if (held > 0) all_bytes += static_cast<double>(each.last.total_bytes);
  }
  return std::min(1.0, own * all_bytes / (all_sites * static_cast<double>(node.last.total_bytes)));
}

void SpaceMonitor::add_up(const std::vector<wire::Member>& members) {
  added_up_ = members_.version();
  std::uint64_t total = 0, free = 0;
  other_files_ = other_room_ = 0;
  for (const wire::Member& member : members) {
    if (member.entry.role == wire::Role::kDirectory && member.entry.server != context_.self.index) {
      other_files_ += member.last.objects;
      if (member.alive) other_room_ += member.last.free_bytes;
    }
    const double part = part_of(member, members);
    total += static_cast<std::uint64_t>(part * static_cast<double>(member.last.total_bytes));
    free += static_cast<std::uint64_t>(part * static_cast<double>(member.last.free_bytes));
  }
  if (total == 0) return;
  total_bytes_ = total;
  free_bytes_ = free;
}

}  // namespace slice::dirserver
