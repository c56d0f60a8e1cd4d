// Worker: one thread of the data path: its loop, its clients, its connections to servers. Workers share
// nothing but the tables, the attribute cache and the counters.
#ifndef SLICE_CONTROL_PROXY_WORKER_H
#define SLICE_CONTROL_PROXY_WORKER_H

#include <unordered_map>
#include <unordered_set>

#include "control/proxy/tcp_client.h"
#include "control/proxy/udp_front.h"

namespace slice::proxy {

class Worker : private Services, private Backend::Router, private TcpClient::Owner {
 public:
  struct Options {
    Tables tables;
    Sender sender;
    std::size_t memory_limit = 256 << 20;  // bytes, see Budget
    std::size_t client_limit = 32 << 20;
    std::size_t max_clients = 8192;
    // Servers of this process that run on the worker's loop; none: all are reached over sockets.
    rpc::InProcessNetwork* local = nullptr;
  };
  Worker(rpc::EpollLoop& loop, Options options, AttributeCache& cache, MapCache& maps, Metrics& metrics);
  ~Worker() override;

  // Both before the loop runs, or on its thread.
  Result<rpc::Endpoint> listen_tcp(rpc::Endpoint at);
  Result<rpc::Endpoint> listen_udp(rpc::Endpoint at);
  std::size_t memory_in_use() const { return pool_.bytes_in_use(); }
  std::size_t clients() const { return clients_.size(); }
  std::size_t legs() const { return legs_.size(); }

 private:
  Services& services() { return *this; }
  TcpClient::Owner& owner() { return *this; }
  void route(Leg& leg) override;
  BackendConnection* begin_upload(Leg& leg) override;
  void on_closed(TcpClient& client) override;
  void on_paused(TcpClient& client) override;
  void accept();
  void tick();
  void retry_parked();
  void resume_paused();
  Backend* backend_of(const Leg& leg);
  Backend* backend_of_a_copy(const Leg& leg);
  Backend& backend_at(rpc::Endpoint endpoint);

  rpc::EpollLoop& loop_;
  Options options_;
  ChunkPool pool_;
  LegTable legs_;
  Flusher flusher_;
  LocalCalls local_;
  CallEncoder encoder_;
  CallRouter router_;
  rpc::EpollLoop::RoundEnd resume_;  // tries to go on with paused_
  Budget budget_;
  Counter &accepted_, &refused_;
  std::unordered_map<rpc::Endpoint, std::unique_ptr<Backend>> backends_;
  IntrusiveList<Leg, LegTag> parked_;  // their sites are bound to no server
  IntrusiveList<TcpClient, PausedTag> paused_;
  std::unordered_map<TcpClient*, std::unique_ptr<TcpClient>> clients_;
  std::vector<std::unique_ptr<TcpClient>> closed_;
  std::unique_ptr<UdpFront> udp_;
  int listener_ = -1;
  TimerId tick_ = TimerId::kNone, retry_ = TimerId::kNone;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXY_WORKER_H
