// Side: what is a server's own where a test has several of a class, between which sites move.
#ifndef SLICE_SERVICE_TESTING_SIDE_H
#define SLICE_SERVICE_TESTING_SIDE_H

#include <string>

#include "common/manual_loop.h"
#include "rpc/in_process.h"
#include "service/context.h"
#include "service/ownership.h"
#include "storage/memory_disk.h"

namespace slice::service::testing {

// `Through`: the channel of the server's calls, made from its network.
template <class Through>
struct SideThrough {
  // Calls what is attached to `same`, as the server with this name. All outlive it.
  SideThrough(ManualLoop& loop, const EnsembleConfig& config, const routing::HandleCodec& handles,
              rpc::InProcessNetwork& same, const std::string& name)
      : self(*config.find(name)),
        network(same, {self.address, self.port}, self.index),
        channel(network),
        disk(loop),
        tables(routing::RoutingTables::make(config, routing::RoutingTables::initial(config)).value()),
        settings(settings_of(config)),
        ownership(loop, disk, self),
        context{.loop = loop,
                .channel = channel,
                .metrics = metrics,
                .disk = disk,
                .config = config,
                .self = self,
                .handles = handles,
                .tables = tables,
                .settings = settings,
                .verifier = verifier,
                .random = [this] { return random += 0x9e3779b97f4a7c15; },
                .crash = crash,
                .ownership = &ownership} {
    // As service::ManagerSession does it.
    ownership.on_change([this, &config] {
      tables.set(routing::RoutingTables::make(config, ownership.applied_to(managers)).value());
    });
    managers = tables.get()->wire();
  }
  SideThrough(const SideThrough&) = delete;
  SideThrough& operator=(const SideThrough&) = delete;
  rpc::Endpoint endpoint() const { return {self.address, self.port}; }

  const ServerConfig& self;
  rpc::InProcessNetwork network;
  Through channel;
  storage::MemoryDisk disk;
  routing::TableHolder tables;
  LiveSettings settings;
  wire::Tables managers;
  VerifierClock verifier{Verifier{1}};
  Metrics metrics;
  CrashPoints crash;
  std::uint64_t random = 1;
  Ownership ownership;
  ServiceContext context;
};
using Side = SideThrough<rpc::InProcessNetwork&>;

}  // namespace slice::service::testing

#endif  // SLICE_SERVICE_TESTING_SIDE_H
