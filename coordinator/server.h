// Coordinator: operations over the several servers that hold one file's bytes (docs/architecture.md). It
// serves COMMIT of the NFS program, and the coordinator program (wire/coordinator.h).
#ifndef SLICE_COORDINATOR_SERVER_H
#define SLICE_COORDINATOR_SERVER_H

#include <memory>
#include <string>
#include <vector>

#include "coordinator/block_maps.h"
#include "coordinator/intentions.h"
#include "service/context.h"
#include "service/open_store.h"
#include "service/process.h"

namespace slice::coordinator {

class Coordinator : public service::Role {
 public:
  explicit Coordinator(service::ServiceContext& context, Intentions::Options options = {});
  Coordinator(service::ServiceContext& context, service::OpenStore open_maps,
              Intentions::Options options = {});
  ~Coordinator() override;

  // Scans the intention log. What is owed is fulfilled in the background, since a participant may be away.
  Task<Status> start() override;
  std::vector<rpc::Program*> programs() override;
  Task<void> stop() override;
  std::string state() const override;
  std::string detail() const override;

 private:
  class Programs;

  service::ServiceContext& context_;
  service::OpenStore open_maps_;
  Intentions::Options options_;
  std::unique_ptr<Programs> programs_;
};

// For service::run_process().
service::ServerKind server_kind();

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_SERVER_H
