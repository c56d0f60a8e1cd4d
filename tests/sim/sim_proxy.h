// SimProxy: a proxy of a simulation: a worker with all that it shares in a process, between the simulated
// network and the servers. What it does not have is the XDP program.
#ifndef SLICE_TESTS_SIM_SIM_PROXY_H
#define SLICE_TESTS_SIM_SIM_PROXY_H

#include <memory>

#include "proxy/programs/grant_program.h"
#include "proxy/shared_state.h"
#include "proxy/worker.h"
#include "service/process.h"
#include "tests/sim/streams.h"

namespace slice::sim {

class SimProxy : public service::Role {
 public:
  // Clients call it at `front`, by connections and datagrams.
  SimProxy(service::ServiceContext& context, ProcessLoop& loop, SimNetwork& network, SimStreams& streams,
           rpc::Endpoint front);
  ~SimProxy() override;

  Task<slice::Status> start() override;
  std::vector<rpc::Program*> programs() override { return {&grants_}; }
  Task<void> stop() override { co_return; }
  std::string state() const override { return "serving"; }
  // Its process died.
  void close();

 private:
  class ToServers;
  class Datagrams;
  // A client's lock manager is at one port, and so needs no rpcbind.
  Task<proxy::ClientCalls::Answer> call_client(rpc::Endpoint to, proxy::ClientCalls::Procedure what,
                                               Buffer arguments, std::vector<Duration> tries);

  service::ServiceContext& context_;
  ProcessLoop& loop_;
  SimNetwork& network_;
  SimStreams& streams_;
  const rpc::Endpoint front_;
  proxy::MemoryTables memory_;
  std::unique_ptr<ToServers> to_servers_;
  std::unique_ptr<Datagrams> datagrams_;
  std::unique_ptr<proxy::SharedState> shared_;
  std::unique_ptr<proxy::Worker> worker_;
  std::unique_ptr<SimSocket> client_calls_;
  proxy::GrantProgram grants_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_SIM_PROXY_H
