// DirectoryServer: the role of slice-dird: names and attributes, durable in a key-value store under the data
// directory.
#ifndef SLICE_DIRSERVER_SERVER_H
#define SLICE_DIRSERVER_SERVER_H

#include <memory>

#include "dirserver/across/peer_service.h"
#include "dirserver/authority_service.h"
#include "dirserver/background/site_cells.h"
#include "dirserver/background/snapshots.h"
#include "dirserver/lock_service.h"
#include "dirserver/nfs_service.h"
#include "dirserver/scan_service.h"
#include "dirserver/store/usage_count.h"
#include "dirserver/volume.h"
#include "service/open_store.h"
#include "service/process.h"
#include "service/site_moves.h"
#include "storage/kv_store.h"

namespace slice::dirserver {

class DirectoryServer : public service::Role {
 public:
  // `open_store`: none in front of users.
  explicit DirectoryServer(service::ServiceContext& context, service::OpenStore open_store = nullptr);
  ~DirectoryServer() override;

  // kInvalid where the store is another volume's or configuration's.
  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override;
  Task<void> stop() override;
  std::string state() const override;
  std::uint64_t objects() const override;
  void refresh_gauges() override;
  void settings_changed() override;
  // How much everybody has on its sites. Of one that has started.
  const UsageCount& usage() const;

 private:
  service::ServiceContext& context_;
  service::OpenStore open_store_;
  std::unique_ptr<storage::KvStore> store_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<SiteCells> site_cells_;
  std::unique_ptr<service::SiteMoves> moves_;
  std::unique_ptr<NfsService> nfs_;
  std::unique_ptr<LockService> locks_;
  std::unique_ptr<AuthorityService> authority_;
  std::unique_ptr<PeerService> peer_service_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<ScanService> scan_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_SERVER_H
