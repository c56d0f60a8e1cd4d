// The storage node's role: what slice-stored serves.
#ifndef SLICE_STORAGENODE_SERVER_H
#define SLICE_STORAGENODE_SERVER_H

#include <memory>

#include "service/nfs_program.h"
#include "service/process.h"
#include "service/site_moves.h"
#include "storagenode/backing/backing_files.h"
#include "storagenode/backing/backing_program.h"
#include "storagenode/node.h"
#include "storagenode/object_program.h"
#include "storagenode/scrubber.h"

namespace slice::storagenode {

class StorageServer : public service::Role {
 public:
  explicit StorageServer(service::ServiceContext& context);
  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override { return {&nfs_, &objects_, &moves_, &backing_}; }
  Task<void> stop() override;
  std::string state() const override;
  void settings_changed() override;

  Node& node() { return node_; }

 private:
  Node node_;
  service::NfsProgram nfs_;
  service::SiteMoves moves_;
  ObjectProgram objects_;
  Scrubber scrubber_;
  BackingFiles backing_files_;
  BackingProgram backing_;
};

std::unique_ptr<service::Role> make_storage_server(service::ServiceContext& context);

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SERVER_H
