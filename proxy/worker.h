// Worker: one thread of the data path: its loop, its clients, its connections to servers. Workers share
// nothing but the tables, the attribute cache and the counters.
#ifndef SLICE_PROXY_WORKER_H
#define SLICE_PROXY_WORKER_H

#include <unordered_map>
#include <unordered_set>

#include "proxy/front/tcp_client.h"
#include "proxy/front/udp_front.h"
#include "proxy/servers/backends.h"
#include "proxy/servers/local_calls.h"

namespace slice::proxy {

class Worker : private TcpClient::Owner {
 public:
  struct Options {
    Tables tables;
    Sender sender;
    const rpc::KeyRing* keys = nullptr;      // of sessions with servers; outlives the worker
    const EnsembleConfig* config = nullptr;  // exports, and the handles' key; always there
    rpc::Admission::Limits limits = client_limits(256 << 20);
    std::size_t udp_senders = UdpFront::kMostSenders;
    // Servers of this process that run on the worker's loop; none: all are reached over sockets.
    rpc::InProcessNetwork* local = nullptr;
  };
  // What clients of a worker with that much memory may have of it.
  static rpc::Admission::Limits client_limits(std::size_t memory);
  Worker(rpc::EpollLoop& loop, const Options& options, AttributeCache& cache, MapCache& maps,
         Metrics& metrics);
  ~Worker() override;

  // Before the loop runs, or on its thread. The first two bind sockets of their own, shared with other
  // workers.
  Result<rpc::Endpoint> listen_tcp(rpc::Endpoint at);
  Result<rpc::Endpoint> listen_udp(rpc::Endpoint at);
  // Sockets as bind_socket() makes them, which are the worker's from here on.
  void serve_tcp(int listener);
  void serve_udp(int socket);
  std::size_t memory_in_use() const { return pool_.bytes_in_use(); }
  std::size_t clients() const { return clients_.size(); }
  std::size_t legs() const { return legs_.size(); }

 private:
  Plumbing plumbing(const Options& options);
  void on_closed(TcpClient& client) override;
  void accept();
  void tick();

  rpc::EpollLoop& loop_;
  ChunkPool pool_;
  LegTable legs_;
  Flusher flusher_;
  LocalCalls local_;
  CallEncoder encoder_;
  Backends backends_;
  Services services_;
  CallRouter router_;
  Budget budget_;
  std::shared_ptr<rpc::Admission> admission_;
  Counter &accepted_, &refused_;
  std::unordered_map<TcpClient*, std::unique_ptr<TcpClient>> clients_;
  std::vector<std::unique_ptr<TcpClient>> closed_;
  const std::size_t udp_senders_;
  std::unique_ptr<UdpFront> udp_;
  int listener_ = -1;
  LogLimiter refused_log_{1}, accept_log_{1};
  TimerId tick_ = TimerId::kNone;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_WORKER_H
