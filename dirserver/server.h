// DirectoryServer: the role of slice-dird: names and attributes, durable in a key-value store under the data
// directory.
#ifndef SLICE_DIRSERVER_SERVER_H
#define SLICE_DIRSERVER_SERVER_H

#include <functional>
#include <memory>

#include "dirserver/across/peer_service.h"
#include "dirserver/authority_service.h"
#include "dirserver/background/site_cells.h"
#include "dirserver/background/snapshots.h"
#include "dirserver/nfs_service.h"
#include "dirserver/scan_service.h"
#include "dirserver/volume.h"
#include "service/process.h"
#include "service/site_moves.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

using OpenStore = std::function<Result<std::unique_ptr<storage::KvStore>>(service::ServiceContext&)>;
// RocksDB in the folder "cells" of the data directory.
Result<std::unique_ptr<storage::KvStore>> open_rocks_store(service::ServiceContext& context);

class DirectoryServer : public service::Role {
 public:
  explicit DirectoryServer(service::ServiceContext& context, OpenStore open_store = open_rocks_store);
  ~DirectoryServer() override;

  // kInvalid where the store is another volume's or configuration's.
  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override;
  Task<void> stop() override;
  std::string state() const override;
  std::uint64_t objects() const override;
  void refresh_gauges() override;
  void settings_changed() override;

 private:
  service::ServiceContext& context_;
  OpenStore open_store_;
  std::unique_ptr<storage::KvStore> store_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<SiteCells> site_cells_;
  std::unique_ptr<service::SiteMoves> moves_;
  std::unique_ptr<NfsService> nfs_;
  std::unique_ptr<AuthorityService> authority_;
  std::unique_ptr<PeerService> peer_service_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<ScanService> scan_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_SERVER_H
