#include "dirserver/background/new_directories.h"

namespace slice::dirserver {
namespace {

constexpr std::size_t kDirectory = static_cast<std::size_t>(wire::Role::kDirectory);

}  // namespace

NewDirectories::NewDirectories(service::ServiceContext& context, Members& members)
    : context_(context),
      members_(members),
      used_(context.config.volume.policy == VolumeConfig::NamePolicy::kMkdirSwitching &&
            !context.config.volume.mkdir_probability) {}

std::optional<SiteId> NewDirectories::elsewhere(const NamePlace& place) {
  follow();
  const auto& owners = tables_->wire().sites[kDirectory];
  const Server& self = servers_[context_.self.index];
  const double share = objects_ * static_cast<double>(self.sites.size()) / static_cast<double>(owners.size());
  if (self.objects <= share * (1 + kTolerance) + kFew) return std::nullopt;
  // The better of two, and not the best of all, to which every server would send all of its own at once.
  std::optional<SiteId> best;
  for (const std::uint64_t draw : {place.hash, place.hash >> 16}) {
    const SiteId site{static_cast<std::uint32_t>(draw % owners.size())};
    const Server& server = server_of(site);
    if (!server.alive) continue;
    if (!best || server.of_each_site() < server_of(*best).of_each_site()) best = site;
  }
  if (!best || &server_of(*best) == &self) return std::nullopt;
  count(server_of(*best));
  return best;
}

SiteId NewDirectories::here(const NamePlace& place) {
  follow();
  Server& self = servers_[context_.self.index];
  if (self.sites.empty()) return place.site;  // they have just gone, which the commit notices
  count(self);
  return self.sites[(place.hash >> 32) % self.sites.size()];
}

void NewDirectories::count(Server& server) {
  server.objects += kObjectsOfOne;
  objects_ += kObjectsOfOne;
}

NewDirectories::Server& NewDirectories::server_of(SiteId site) {
  return servers_[tables_->wire().sites[kDirectory][site.value]];
}

void NewDirectories::follow() {
  const std::vector<wire::Member>& members = members_.get();
  if (tables_ == context_.tables.get() && members_version_ == members_.version()) return;
  tables_ = context_.tables.get();
  members_version_ = members_.version();
  const auto& owners = tables_->wire().sites[kDirectory];
  servers_.assign(tables_->wire().servers.size(), {});
  for (std::size_t site = 0; site < owners.size(); ++site)
    servers_[owners[site]].sites.push_back(SiteId{static_cast<std::uint32_t>(site)});
  objects_ = 0;
  for (const wire::Member& member : members) {
    const std::uint32_t index = member.entry.server;
    if (index >= servers_.size() || servers_[index].sites.empty()) continue;
    servers_[index].alive = member.alive;
    servers_[index].objects = static_cast<double>(member.last.objects);
    objects_ += servers_[index].objects;
  }
}

}  // namespace slice::dirserver
