// SmallFileServer: the role of slice-smallfiled: a Store on its data directory, the NFS and object programs.
#ifndef SLICE_SMALLFILE_SERVER_H
#define SLICE_SMALLFILE_SERVER_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/open_store.h"
#include "service/process.h"
#include "service/site_gate.h"
#include "service/site_moves.h"
#include "smallfile/object_program.h"
#include "smallfile/ops/ops.h"
#include "smallfile/store.h"
#include "storage/kv_store.h"

namespace slice::smallfile {

class SmallFileServer : public service::Role {
 public:
  // `open_records`, of the store of map records: none in front of users.
  explicit SmallFileServer(service::ServiceContext& context, service::OpenStore open_records = nullptr);

  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override;
  Task<void> stop() override;
  std::string state() const override;
  void settings_changed() override;
  std::string detail() const override;

  Store& store() { return *store_; }

 private:
  void add_operations();
  std::optional<std::uint64_t> stored(FileId file);

  service::ServiceContext& context_;
  service::OpenStore open_records_;
  std::unique_ptr<storage::KvStore> records_;
  DiskZoneStore zones_;
  std::unique_ptr<Store> store_;
  service::AuthorityClient authority_;
  service::SiteGate gate_;
  service::NfsProgram nfs_;
  // From start() on.
  std::optional<Sites> sites_;
  std::optional<Shared> shared_;
  std::unique_ptr<service::SiteMoves> moves_;
  std::unique_ptr<ObjectProgram> objects_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_SERVER_H
