#include "fsck/offline.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "service/ownership.h"
#include "smallfile/stopped_objects.h"
#include "storage/posix_disk.h"
#include "storagenode/stopped_objects.h"

namespace slice::fsck {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

bool has_bytes(ServerRole role) {
  return role == ServerRole::kStorage || role == ServerRole::kSmallFile;
}

}  // namespace

Task<Status> OfflineData::open() {
  wire::Tables tables = routing::RoutingTables::initial(config_);
  for (ServerRole role : {ServerRole::kStorage, ServerRole::kSmallFile}) {
    for (std::uint32_t& owner : tables.sites[static_cast<std::size_t>(role)]) owner = kNobody;
  }
  for (const ServerConfig& server : config_.servers) {
    if (!has_bytes(server.role)) continue;
    if (Status opened = co_await open_folder(server); !opened) co_return opened;
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
  SLICE_CO_RETURN_IF_ERROR(check_sites(tables));
  tables.layout_sites = layout_sites_;
  // Sites of servers that were removed, which are nobody's for good.
  auto removed = std::find_if(config_.servers.begin(), config_.servers.end(),
                              [](const ServerConfig& each) { return each.role == ServerRole::kRemoved; });
  if (removed != config_.servers.end())
    std::replace(tables.layout_sites.begin(), tables.layout_sites.end(), kNobody, removed->index);
  auto made = routing::RoutingTables::make(config_, tables);
  if (!made) co_return fail(std::move(made).error());
  tables_ = std::move(*made);
  for (Folder& folder : opened_) {
    const wire::ServerEntry& entry = *tables_->server(folder.server->index);
    if (folder.server->role == ServerRole::kStorage) {
      servers_.push_back(std::make_unique<storagenode::StoppedObjects>(loop_, *folder.disk, entry));
      continue;
    }
    auto small =
        co_await smallfile::StoppedObjects::open(loop_, *folder.disk, folder.path, entry, config_, *tables_);
    if (!small) co_return fail(std::move(small).error());
    servers_.push_back(std::move(*small));
  }
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
  SLICE_CO_RETURN_IF_ERROR(co_await read_record(server, **disk));
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
  for (ServerRole role : {ServerRole::kStorage, ServerRole::kSmallFile}) {
    const auto& sites = tables.sites[static_cast<std::size_t>(role)];
    for (std::size_t site = 0; site < sites.size(); ++site) {
      if (sites[site] == kNobody) {
        return fail(Errc::kInvalid, "no server has a record of {} site {}", role_name(role), site);
      }
    }
  }
  return {};
}

}  // namespace slice::fsck
