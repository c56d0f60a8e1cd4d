#include "dirserver/server.h"

#include <algorithm>

#include "common/log.h"

namespace slice::dirserver {
namespace {

// Bytes of the reserve that are left to removing names; below them nothing is changed.
std::uint64_t min_free(service::ServiceContext& context) {
  return context.settings.get()->reserve_of(context.self) / 4;
}

}  // namespace

DirectoryServer::DirectoryServer(service::ServiceContext& context, service::OpenStore open_store)
    : context_(context), open_store_(std::move(open_store)) {}
DirectoryServer::~DirectoryServer() {
  if (snapshots_) snapshots_->drop_all();
  store_.reset();  // operations that wait for it end now, while there is still a volume
}

Task<Status> DirectoryServer::start() {
  const std::uint64_t share = context_.self.cache_bytes / 4;
  auto store = open_store_
                   ? open_store_(context_)
                   : co_await service::open_store(context_, "cells",
                                                  {.cache_bytes = share,
                                                   .memory_bytes = std::max<std::uint64_t>(share, 4 << 20),
                                                   .min_free_bytes = min_free(context_)});
  if (!store) co_return fail(std::move(store.error()));
  store_ = std::move(*store);
  volume_ = std::make_unique<Volume>(context_, *store_);
  SLICE_CO_RETURN_IF_ERROR(co_await volume_->start());
  site_cells_ = std::make_unique<SiteCells>(context_, volume_->cells, volume_->duplicates);
  moves_ = std::make_unique<service::SiteMoves>(context_, wire::Role::kDirectory, site_cells_->gate(),
                                                *site_cells_);
  nfs_ = std::make_unique<NfsService>(*volume_, site_cells_->gate());
  locks_ = std::make_unique<LockService>(*volume_, site_cells_->gate());
  authority_ = std::make_unique<AuthorityService>(*volume_);
  peer_service_ = std::make_unique<PeerService>(
      volume_->names, volume_->parts, volume_->participant, volume_->intentions, volume_->peers,
      [this](const wire::CellsArgs& args) { return site_cells_->take(args); });
  snapshots_ = std::make_unique<Snapshots>(context_, volume_->cells, site_cells_->gate());
  scan_ = std::make_unique<ScanService>(context_, *store_, *snapshots_);
  moves_->start();
  co_return Status{};
}

std::vector<rpc::Program*> DirectoryServer::programs() {
  return {nfs_.get(),   authority_.get(), peer_service_.get(), scan_.get(),
          moves_.get(), locks_.get(),     &locks_->internal(), &nfs_->acl()};
}

Task<void> DirectoryServer::stop() {
  if (moves_) co_await moves_->stop();
  if (volume_) volume_->stop();
  if (Status status = store_ ? store_->record_end() : Status{}; !status) {
    log_warning("how far the cells go is not recorded reason={}", status.error().message);
  }
}

std::string DirectoryServer::state() const {
  if (!volume_) return "starting";
  return volume_->space.low() ? "no space: names may only be removed" : "serving";
}

std::uint64_t DirectoryServer::objects() const {
  return volume_ ? volume_->cells.objects().value_or(0) : 0;
}

const UsageCount& DirectoryServer::usage() const {
  return volume_->cells.usage();
}

void DirectoryServer::settings_changed() {
  store_->set_min_free(min_free(context_));
  volume_->settings_changed();
}

void DirectoryServer::refresh_gauges() {
  context_.metrics
      .gauge("dir_objects",
             "files, directories, links and nodes of its sites; 0 until they are counted after the start, at "
             "about a million a second")
      .set(objects());
}

service::ServerKind server_kind() {
  return {.role = ServerRole::kDirectory, .make = [](service::ServiceContext& context) {
            return std::make_unique<DirectoryServer>(context);
          }};
}

}  // namespace slice::dirserver
