// DataPath: the proxy's data path within this process, for calls of its own: tables that follow the
// manager's, and a worker. One loop.
#ifndef SLICE_BLOCK_DATA_PATH_H
#define SLICE_BLOCK_DATA_PATH_H

#include <memory>

#include "common/settings.h"
#include "proxy/shared_state.h"
#include "proxy/stream/socket_stream.h"
#include "proxy/worker.h"
#include "rpc/client.h"
#include "service/managers.h"

namespace slice::block {

class DataPath {
 public:
  // All outlive it. `config`: with the members that there are (service/membership.h).
  DataPath(rpc::EpollLoop& loop, const EnsembleConfig& config, const rpc::KeyRing& keys, Metrics& metrics);

  // Ends when the manager has said where everything is, which it is asked until it does.
  Task<void> start();

  // These after start().
  proxy::Worker& worker() { return *worker_; }
  const std::shared_ptr<const routing::RoutingTables>& tables() const { return known_; }
  rpc::Channel& channel() { return channel_; }
  // With which of its addresses this host reaches the ensemble.
  IpAddress own_address() const;

 private:
  Task<Status> ask();
  void follow(std::shared_ptr<const routing::RoutingTables> tables);
  Task<void> keep_asking();

  rpc::EpollLoop& loop_;
  const EnsembleConfig& config_;
  Metrics& metrics_;
  const LiveSettings settings_;
  const routing::HandleCodec handles_;
  const proxy::MemoryTables memory_;
  const proxy::Tables& tables_;
  rpc::SocketChannel channel_;
  proxy::SocketConnector connector_;
  service::Managers managers_;
  proxy::SharedState shared_;
  std::shared_ptr<const routing::RoutingTables> known_;
  std::unique_ptr<proxy::Worker> worker_;
  bool answered_ = true;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_DATA_PATH_H
