// Worker: one thread of the data path: its loop, its clients, its connections to servers. Workers share
// nothing but the tables, the attribute cache and the counters. It knows streams and datagrams, and no
// sockets: those are SocketWorker's, and the simulation has others.
#ifndef SLICE_PROXY_WORKER_H
#define SLICE_PROXY_WORKER_H

#include <optional>
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
    const EnsembleConfig* config = nullptr;  // the handles' key; always there
    const LiveSettings* settings = nullptr;  // exports, and limits of clients; always there
    std::size_t workers = 1;                 // that the settings' memory is for
    rpc::Admission::Limits limits = client_limits(256 << 20);
    std::size_t udp_senders = UdpFront::kMostSenders;
    // Servers of this process that run on the worker's loop; none: all are reached over sockets.
    rpc::InProcessNetwork* local = nullptr;
    ServerLatencies* latencies = nullptr;  // of all workers; none: nobody counts them
    service::Tracer* tracer = nullptr;     // likewise; none: nobody can watch
    // Of a proxy outside of the ensemble: the address of its host that its connections come from.
    std::optional<IpAddress> own_address;
    const ServingTime* serving = nullptr;  // until when clients' requests are taken; none: for ever
    const rpc::Tls* tls = nullptr;         // that clients may ask for; none: there is none
    GssService* gss = nullptr;             // by which users may come; none: by none
    // A call that takes so long is told of: a server's restart or takeover is shorter.
    Duration late = std::chrono::seconds(10);
  };
  // What clients of a worker with that much memory may have of it.
  static rpc::Admission::Limits client_limits(std::size_t memory);
  // All of it outlives the worker.
  Worker(Loop& loop, Connector& connector, const Options& options, AttributeCache& cache, MapCache& maps,
         Metrics& metrics);
  ~Worker() override;

  // A client's connection, refused where it is one too many, or, by a proxy outside of the ensemble, where it
  // comes from no reserved port.
  void take_connection(std::unique_ptr<Stream> connection, rpc::Endpoint peer);
  // A call of a client that comes by no connection, but from this process: a whole message, without record
  // mark. False where it is no call.
  bool take(Client& client, Buffer message);
  // From now on datagrams may be given to the front that is returned, which lives as long as the worker; what
  // is answered leaves by `port`. Once.
  UdpFront& serve_datagrams(DatagramPort& port);
  std::size_t memory_in_use() const { return pool_.bytes_in_use(); }
  std::size_t clients() const { return clients_.size(); }
  std::size_t legs() const { return legs_.size(); }

 private:
  Plumbing plumbing() { return {loop_, pool_, legs_, flusher_, local_, connector_}; }
  void on_closed(TcpClient& client) override;
  void tick();
  // Tells of the calls that take long.
  void look_for_late_calls();
  // Takes the limits of the settings, where those have changed.
  void follow_settings();

  Loop& loop_;
  Connector& connector_;
  ChunkPool pool_;
  LegTable legs_;
  Flusher flusher_;
  LocalCalls local_;
  CallEncoder encoder_;
  Backends backends_;
  Services services_;
  CallRouter router_;
  const LiveSettings& live_settings_;
  std::uint64_t settings_version_ = 0;  // whose limits are in force
  const std::size_t memory_, workers_;
  Budget budget_;
  TlsOffer tls_offer_;
  std::shared_ptr<rpc::Admission> admission_;
  Counter &accepted_, &refused_, &late_;
  std::unordered_map<TcpClient*, std::unique_ptr<TcpClient>> clients_;
  std::vector<std::unique_ptr<TcpClient>> closed_;
  const std::size_t udp_senders_;
  const Duration late_after_;
  const bool
      outside_;  // its clients are programs of its own host, and not the ensemble's to judge: root's alone
  std::unique_ptr<UdpFront> udp_;
  LogLimiter refused_log_{1}, late_log_{5};
  TimerId tick_ = TimerId::kNone;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_WORKER_H
