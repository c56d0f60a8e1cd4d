#include "dirserver/background/space.h"

#include <algorithm>

#include "common/log.h"
#include "service/internal_call.h"
#include "wire/manager.h"

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
  bool stale = !volume_known_ || context_.loop.now() - volume_at_ >= kVolumeMaxAge;
  if (stale && !asking_) {
    // With figures at hand nobody waits for the manager: the next caller gets the new ones.
    if (volume_known_) {
      spawn(ask_manager());
    } else {
      co_await ask_manager();
    }
  }
  storage::Space here = own();
  co_return Figures{.total_bytes = volume_known_ ? total_bytes_ : here.total_bytes,
                    .free_bytes = volume_known_ ? free_bytes_ : here.free_bytes,
                    .other_files = other_files_,
                    .free_files = (here.free_bytes + other_room_) / kBytesPerFile};
}

bool SpaceMonitor::holds_sites(const wire::ServerEntry& node) const {
  if (node.role != wire::Role::kStorage) return false;
  const auto holders = context_.tables.get()->servers(wire::Role::kStorage);
  return std::any_of(holders.begin(), holders.end(),
                     [&](const wire::ServerEntry* each) { return each->server == node.server; });
}

Task<void> SpaceMonitor::ask_manager() {
  const ServerConfig* manager = context_.config.first(ServerRole::kManager);
  if (manager == nullptr) co_return;
  asking_ = true;
  auto result = co_await service::internal_call<wire::MembersResult>(
      context_.channel, {manager->address, manager->port}, wire::kManagerProgram,
      wire::ManagerProcedure::kMembers, service::NoArguments{}, std::chrono::seconds(1));
  asking_ = false;
  if (!result) co_return;
  std::uint64_t total = 0, free = 0;
  other_files_ = other_room_ = 0;
  for (const wire::Member& member : result->members) {
    if (member.entry.role == wire::Role::kDirectory && member.entry.server != context_.self.index) {
      other_files_ += member.last.objects;
      if (member.alive) other_room_ += member.last.free_bytes;
    }
    if (!member.alive || !holds_sites(member.entry)) continue;
    total += member.last.total_bytes;
    free += member.last.free_bytes;
  }
  if (total == 0) co_return;
  total_bytes_ = total;
  free_bytes_ = free;
  volume_known_ = true;
  volume_at_ = context_.loop.now();
}

}  // namespace slice::dirserver
