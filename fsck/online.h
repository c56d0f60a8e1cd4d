// OnlineData: what check_data() needs of an ensemble that serves. One loop.
#ifndef SLICE_FSCK_ONLINE_H
#define SLICE_FSCK_ONLINE_H

#include <memory>
#include <string>
#include <vector>

#include "common/config.h"
#include "routing/file_handle.h"
#include "routing/tables.h"
#include "rpc/channel.h"
#include "service/object_source.h"
#include "wire/layout.h"
#include "wire/moves.h"

namespace slice::fsck {

class OnlineData {
 public:
  // All outlive it. `timeout`: of each answer.
  OnlineData(rpc::Channel& channel, const EnsembleConfig& config,
             std::shared_ptr<const routing::RoutingTables> tables, Duration timeout)
      : channel_(channel), config_(config), tables_(std::move(tables)), timeout_(timeout) {}

  // Finds the data servers: those that hold sites, and of the others those that answer; who does not, by
  // name.
  Task<std::vector<std::string>> find_servers();
  const std::vector<std::unique_ptr<service::ObjectSource>>& servers() const { return servers_; }
  const std::shared_ptr<const routing::RoutingTables>& tables() const { return tables_; }
  const std::vector<wire::SiteMove>& moves() const { return moves_; }
  // Asks the manager for both anew: first for the moves, since one that ends meanwhile is in the tables then.
  Task<Status> refresh();
  Task<Result<wire::MapPiece>> map_piece(routing::FileHandle handle, std::uint64_t stripe);

 private:
  rpc::Channel& channel_;
  const EnsembleConfig& config_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<wire::SiteMove> moves_;
  const Duration timeout_;
  std::vector<std::unique_ptr<service::ObjectSource>> servers_;
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_ONLINE_H
