// Backends: all servers as a worker sees them. Finds the one that has a leg's site by the tables, a copy of a
// mirrored stripe that can be reached, and keeps what has nowhere to go.
#ifndef SLICE_PROXY_SERVERS_BACKENDS_H
#define SLICE_PROXY_SERVERS_BACKENDS_H

#include <memory>
#include <unordered_map>

#include "proxy/servers/backend.h"
#include "proxy/servers/servers.h"
#include "proxy/tables/server_latencies.h"
#include "proxy/tables/tables.h"

namespace slice::proxy {

class Backends : public Servers {
 public:
  // What it is given outlives it. `latencies` may be null.
  Backends(Plumbing plumbing, Tables tables, CallEncoder& encoder, Metrics& metrics,
           ServerLatencies* latencies);
  ~Backends() override;
  Backends(const Backends&) = delete;
  Backends& operator=(const Backends&) = delete;

  void send(Leg& leg) override;
  BackendConnection* begin_upload(Leg& leg) override;

 private:
  Backend* backend_of(const Leg& leg);
  Backend* backend_of_a_copy(const Leg& leg);
  Backend& backend_at(rpc::Endpoint endpoint);
  Backend& or_by_virtual_address(Backend& direct);
  void tick();
  void retry_parked();

  Plumbing plumbing_;
  Tables tables_;
  CallEncoder& encoder_;
  Metrics& metrics_;
  ServerLatencies* latencies_;
  std::unordered_map<rpc::Endpoint, std::unique_ptr<Backend>> backends_;
  IntrusiveList<Leg, LegTag> parked_;  // their sites are bound to no server
  TimerId tick_ = TimerId::kNone, retry_ = TimerId::kNone;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_BACKENDS_H
