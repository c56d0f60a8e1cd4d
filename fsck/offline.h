// OfflineData: what check_data() needs of data servers and coordinators that are stopped, out of their data
// directories: which sites each has by its own record (service/ownership.h), its objects, and where stripes
// are by block maps. One loop; blocks.
#ifndef SLICE_FSCK_OFFLINE_H
#define SLICE_FSCK_OFFLINE_H

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "coordinator/stopped_layouts.h"
#include "fsck/data_check.h"
#include "routing/tables.h"
#include "service/data_directory.h"
#include "service/object_source.h"
#include "storage/disk.h"
#include "wire/moves.h"

namespace slice::fsck {

class OfflineData {
 public:
  // `folders`: data directories, by server, that lie elsewhere than the configuration says.
  OfflineData(Loop& loop, const EnsembleConfig& config, std::map<std::string, std::string> folders)
      : loop_(loop), config_(config), folders_(std::move(folders)) {}

  // kExists: a server is running. kNotFound: no data directory, but of a coordinator, or no record of its
  // sites. kInvalid: a site that no server has a record of, or two.
  Task<Status> open();
  const std::vector<std::unique_ptr<service::ObjectSource>>& servers() const { return servers_; }
  const std::shared_ptr<const routing::RoutingTables>& tables() const { return tables_; }
  // Moves that have not ended, as far as records tell: the old owner has bytes yet, or the new one already.
  const std::vector<wire::SiteMove>& moves() const { return moves_; }
  // As DataSeams::map_piece: by the maps of the file's coordinator. kNotFound: its data directory is not
  // here.
  Task<Result<wire::MapPiece>> map_piece(routing::FileHandle handle, std::uint64_t stripe);
  UnderWay under_way(FileId file) const;
  // Names of coordinators whose data directories are not here.
  const std::vector<std::string>& absent() const { return absent_; }

 private:
  struct Folder {
    const ServerConfig* server;
    std::string path;
    service::DataDirectory claim;  // keeps its server from starting
    std::unique_ptr<storage::Disk> disk;
  };
  Task<Status> open_folders();
  Task<Status> open_folder(const ServerConfig& server);
  Task<Status> open_sources();
  // Null: its data directory is not here.
  const coordinator::StoppedLayouts* coordinator_of(FileId file) const;
  Task<Status> read_record(const ServerConfig& server, storage::Disk& disk);
  // Of sites without an owner: whose they are by a move of which the new owner was not told.
  void finish_moves(wire::Tables& tables) const;
  void give_layout_sites(wire::Tables& tables) const;
  Status check_sites(const wire::Tables& tables) const;

  Loop& loop_;
  const EnsembleConfig& config_;
  const std::map<std::string, std::string> folders_;
  std::list<Folder> opened_;
  std::map<std::string, std::vector<std::uint32_t>> records_;  // by server
  std::vector<std::uint32_t> layout_sites_;                    // by site: who has it for files with a layout
  std::optional<wire::Tables> kept_;                           // the newest that one of the servers has kept
  std::vector<std::string> absent_;
  std::map<std::uint32_t, std::unique_ptr<coordinator::StoppedLayouts>> coordinators_;  // by server
  std::vector<wire::SiteMove> moves_;
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<std::unique_ptr<service::ObjectSource>> servers_;
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_OFFLINE_H
