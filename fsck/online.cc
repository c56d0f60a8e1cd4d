#include "fsck/online.h"

#include <utility>

#include "routing/file_handle.h"
#include "service/internal_call.h"
#include "service/managers.h"
#include "wire/coordinator.h"
#include "wire/nfs_status.h"

namespace slice::fsck {

Task<std::vector<std::string>> OnlineData::find_servers() {
  std::vector<std::string> silent;
  for (const wire::ServerEntry& server : tables_->wire().servers) {
    const bool has_data = server.role == wire::Role::kStorage || server.role == wire::Role::kSmallFile;
    if (!has_data || server.lost.value != 0) continue;
    auto source = std::make_unique<service::RemoteObjects>(channel_, server, timeout_);
    if (wire::sites_of(tables_->wire(), server.name).empty()) {
      auto listed = co_await source->list({.after = {.volume = config_.volume.id, .fileid = {}}, .limit = 1});
      if (!listed) {
        silent.push_back(server.name);
        continue;
      }
    }
    servers_.push_back(std::move(source));
  }
  co_return silent;
}

Task<Status> OnlineData::refresh() {
  service::Managers managers(config_);
  auto ask = [&]<class R>(wire::ManagerProcedure procedure) {
    return managers.call<R>(channel_, procedure, service::NoArguments{}, timeout_);
  };
  const std::string manager = config_.first(ServerRole::kManager)->name;
  auto moves = co_await ask.template operator()<wire::MovesListResult>(wire::ManagerProcedure::kMoves);
  if (!moves) co_return fail(moves.error(), manager);
  auto tables = co_await ask.template operator()<wire::Tables>(wire::ManagerProcedure::kGetTables);
  if (!tables) co_return fail(tables.error(), manager);
  auto made = routing::RoutingTables::make(config_, *tables);
  if (!made) co_return fail(std::move(made).error());
  tables_ = std::move(*made);
  moves_.clear();
  for (wire::MoveState& each : moves->moves) {
    if (each.ended_ns == 0) moves_.push_back(std::move(each.move));
  }
  co_return Status{};
}

Task<Result<wire::MapPiece>> OnlineData::map_piece(routing::FileHandle handle, std::uint64_t stripe) {
  const wire::ServerEntry& server =
      tables_->server_of(wire::Role::kCoordinator, tables_->coordinator_site(handle.fileid));
  auto result = co_await service::internal_call<wire::MapResult>(
      channel_, server.endpoint, wire::kCoordinatorProgram, wire::CoordinatorProcedure::kMap,
      wire::MapArgs{routing::HandleCodec(config_).mint(handle), stripe}, timeout_);
  if (!result) co_return fail(result.error(), server.name);
  if (result->status != nfs3::Status::kOk) {
    co_return fail(Errc::kUnavailable, "{} answered {}", server.name, nfs3::status_name(result->status));
  }
  co_return std::move(result->piece);
}

}  // namespace slice::fsck
