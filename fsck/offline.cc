#include "fsck/offline.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "service/manager_session.h"
#include "service/ownership.h"
#include "smallfile/stopped_objects.h"
#include "storage/posix_disk.h"
#include "storagenode/stopped_objects.h"

namespace slice::fsck {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

constexpr ServerRole kRoles[] = {ServerRole::kStorage, ServerRole::kSmallFile, ServerRole::kCoordinator};

bool is_of(ServerRole role) {
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

}  // namespace

Task<Status> OfflineData::open() {
  SLICE_CO_RETURN_IF_ERROR(co_await open_folders());
  wire::Tables tables = routing::RoutingTables::initial(config_);
  for (ServerRole role : kRoles) {
    for (std::uint32_t& owner : tables.sites[static_cast<std::size_t>(role)]) owner = kNobody;
  }
  for (const Folder& folder : opened_) {
    const ServerConfig& server = *folder.server;
    SLICE_CO_RETURN_IF_ERROR(co_await read_record(server, *folder.disk));
    for (std::uint32_t site : records_[server.name]) {
      std::uint32_t& owner = tables.sites[static_cast<std::size_t>(server.role)].at(site);
      if (owner != kNobody) {
        co_return fail(Errc::kInvalid, "{} and {} both have a record of {} site {}",
                       config_.servers[owner].name, server.name, role_name(server.role), site);
      }
      owner = server.index;
    }
  }
  finish_moves(tables);
  // Sites that none of the coordinators here has are of those that are not.
  if (!absent_.empty()) {
    auto& sites = tables.sites[static_cast<std::size_t>(ServerRole::kCoordinator)];
    std::replace(sites.begin(), sites.end(), kNobody, config_.find(absent_.front())->index);
  }
  SLICE_CO_RETURN_IF_ERROR(check_sites(tables));
  give_layout_sites(tables);
  auto made = routing::RoutingTables::make(config_, tables);
  if (!made) co_return fail(std::move(made).error());
  tables_ = std::move(*made);
  co_return co_await open_sources();
}

// Of sites that no record has for files with a layout: they were of servers that are lost or were removed,
// and stay these servers' for good.
void OfflineData::give_layout_sites(wire::Tables& tables) const {
  tables.layout_sites = layout_sites_;
  auto removed = std::find_if(config_.servers.begin(), config_.servers.end(),
                              [](const ServerConfig& each) { return each.role == ServerRole::kRemoved; });
  for (std::size_t site = 0; site < tables.layout_sites.size(); ++site) {
    std::uint32_t& owner = tables.layout_sites[site];
    if (owner != kNobody) continue;
    if (kept_ && site < kept_->layout_sites.size()) {
      owner = kept_->layout_sites[site];
    } else if (removed != config_.servers.end()) {
      owner = removed->index;
    }
  }
}

Task<Status> OfflineData::open_sources() {
  const routing::HandleCodec handles(config_);
  for (Folder& folder : opened_) {
    const wire::ServerEntry& entry = *tables_->server(folder.server->index);
    if (folder.server->role == ServerRole::kStorage) {
      servers_.push_back(std::make_unique<storagenode::StoppedObjects>(loop_, *folder.disk, entry));
    } else if (folder.server->role == ServerRole::kSmallFile) {
      auto small = co_await smallfile::StoppedObjects::open(loop_, *folder.disk, folder.path, entry, config_,
                                                            *tables_);
      if (!small) co_return fail(std::move(small).error());
      servers_.push_back(std::move(*small));
    } else {
      auto layouts = co_await coordinator::StoppedLayouts::open(loop_, folder.path, handles);
      if (!layouts) co_return fail(layouts.error(), entry.name);
      coordinators_.emplace(entry.server, std::move(*layouts));
    }
  }
  co_return Status{};
}

// A server that was declared lost has nothing that counts, whatever is on its disk.
Task<Status> OfflineData::open_folders() {
  std::map<const ServerConfig*, Error> missing;
  for (const ServerConfig& server : config_.servers) {
    if (!is_of(server.role)) continue;
    Status opened = co_await open_folder(server);
    if (opened) continue;
    if (opened.error().code != Errc::kNotFound) co_return opened;
    missing.emplace(&server, opened.error());
  }
  const auto lost = [this](const ServerConfig& server) {
    return kept_ && server.index < kept_->servers.size() && kept_->servers[server.index].lost.value != 0;
  };
  for (const auto& [server, error] : missing) {
    if (server->role == ServerRole::kCoordinator) {
      absent_.push_back(server->name);
    } else if (!lost(*server)) {
      co_return fail(Error(error));
    }
  }
  std::erase_if(opened_, [&](const Folder& each) { return lost(*each.server); });
  co_return Status{};
}

Task<Status> OfflineData::open_folder(const ServerConfig& server) {
  ServerConfig there = server;
  if (auto given = folders_.find(server.name); given != folders_.end()) there.data = given->second;
  std::error_code error;
  if (!std::filesystem::exists(there.data + "/FORMAT", error)) {
    co_return fail(Errc::kNotFound,
                   "{}: no data directory {} on this host: name a copy with --folder {}=FOLDER", server.name,
                   there.data, server.name);
  }
  auto claim = service::DataDirectory::claim(there, config_.volume.id);
  if (!claim) co_return fail(claim.error(), server.name);
  auto disk = storage::PosixDisk::open(loop_, there.data);
  if (!disk) co_return fail(disk.error(), server.name);
  auto kept = co_await service::read_kept_tables(**disk);
  if (kept && (!kept_ || kept_->generation < kept->generation)) kept_ = std::move(kept);
  opened_.push_back({&server, there.data, std::move(*claim), std::move(*disk)});
  co_return Status{};
}

Task<Status> OfflineData::read_record(const ServerConfig& server, storage::Disk& disk) {
  const std::uint32_t sites = config_.site_counts[static_cast<std::size_t>(server.role)];
  service::Ownership record(loop_, disk, server);
  if (Status read = co_await record.load(); !read) co_return fail(read.error(), server.name);
  if (!record.known()) {
    co_return fail(Errc::kNotFound, "{}: there is no record of its sites", server.name);
  }
  for (const wire::OwnedSite& each : record.sites()) {
    if (each.site >= sites) {
      co_return fail(Errc::kCorrupt, "{}: its record has site {}, which there is not", server.name,
                     each.site);
    }
    records_[server.name].push_back(each.site);
  }
  if (server.role == ServerRole::kStorage) layout_sites_.resize(sites, kNobody);
  for (std::uint32_t site : record.layout_sites()) {
    if (site < layout_sites_.size()) layout_sites_[site] = server.index;
  }
  auto in_order = [sites](const auto& entries) { return entries.empty() || entries.rbegin()->first < sites; };
  if (!in_order(record.given()) || !in_order(record.offered()))
    co_return fail(Errc::kCorrupt, "{}: its record has moves of sites that there are not", server.name);
  const auto role = static_cast<wire::Role>(server.role);
  for (const auto& [site, given] : record.given()) {
    if (!given.freed) moves_.push_back({given.move, role, server.index, given.to, given.begun, {site}});
  }
  for (const auto& [site, offered] : record.offered()) {
    moves_.push_back({offered.move, role, offered.from, server.index, offered.begun, {site}});
  }
  co_return Status{};
}

void OfflineData::finish_moves(wire::Tables& tables) const {
  for (const wire::SiteMove& each : moves_) {
    std::uint32_t& owner = tables.sites[static_cast<std::size_t>(each.site_class)].at(each.sites.front());
    if (owner == kNobody) owner = each.to;
  }
}

Status OfflineData::check_sites(const wire::Tables& tables) const {
  for (ServerRole role : kRoles) {
    const auto& sites = tables.sites[static_cast<std::size_t>(role)];
    for (std::size_t site = 0; site < sites.size(); ++site) {
      if (sites[site] == kNobody) {
        return fail(Errc::kInvalid, "no server has a record of {} site {}", role_name(role), site);
      }
    }
  }
  return {};
}

const coordinator::StoppedLayouts* OfflineData::coordinator_of(FileId file) const {
  const SiteId site = tables_->coordinator_site(file);
  auto found = coordinators_.find(tables_->server_of(wire::Role::kCoordinator, site).server);
  return found == coordinators_.end() ? nullptr : found->second.get();
}

Task<Result<wire::MapPiece>> OfflineData::map_piece(routing::FileHandle handle, std::uint64_t stripe) {
  const coordinator::StoppedLayouts* layouts = coordinator_of(handle.fileid);
  if (layouts == nullptr) co_return fail(Errc::kNotFound, "its coordinator's data directory is not here");
  co_return layouts->piece(handle.fileid, wire::piece_of(stripe));
}

UnderWay OfflineData::under_way(FileId file) const {
  UnderWay found;
  const coordinator::StoppedLayouts* layouts = coordinator_of(file);
  const std::vector<coordinator::Intention>* owed = layouts == nullptr ? nullptr : layouts->owed(file);
  if (owed == nullptr) return found;
  for (const coordinator::Intention& each : *owed) {
    found.removal = found.removal || each.operation == coordinator::Operation::kRemove;
    if (each.operation == coordinator::Operation::kMove)
      found.moves.push_back({each.stripe, SiteId{each.from_site}, SiteId{each.to_site}});
  }
  return found;
}

}  // namespace slice::fsck
