// OfflineData: what check_data() needs of data servers that are stopped, out of their data directories: which
// sites each has by its own record (service/ownership.h), and its objects. One loop; blocks.
#ifndef SLICE_FSCK_OFFLINE_H
#define SLICE_FSCK_OFFLINE_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/config.h"
#include "routing/tables.h"
#include "service/data_directory.h"
#include "service/object_source.h"
#include "storage/disk.h"

namespace slice::fsck {

class OfflineData {
 public:
  // `folders`: data directories, by server, that lie elsewhere than the configuration says.
  OfflineData(Loop& loop, const EnsembleConfig& config, std::map<std::string, std::string> folders)
      : loop_(loop), config_(config), folders_(std::move(folders)) {}

  // kExists: a server is running. kNotFound: no data directory, or no record of its sites. kInvalid: a site
  // that no server has a record of, or two.
  Task<Status> open();
  const std::vector<std::unique_ptr<service::ObjectSource>>& servers() const { return servers_; }
  const routing::RoutingTables& tables() const { return *tables_; }

 private:
  struct Folder {
    const ServerConfig* server;
    std::string path;
    service::DataDirectory claim;  // keeps its server from starting
    std::unique_ptr<storage::Disk> disk;
  };
  Task<Status> open_folder(const ServerConfig& server);
  Status check_sites(const wire::Tables& tables) const;

  Loop& loop_;
  const EnsembleConfig& config_;
  const std::map<std::string, std::string> folders_;
  std::vector<Folder> opened_;
  std::map<std::string, std::vector<std::uint32_t>> records_;  // by server
  std::shared_ptr<const routing::RoutingTables> tables_;
  std::vector<std::unique_ptr<service::ObjectSource>> servers_;
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_OFFLINE_H
