// Backend: one server as a worker sees it: a connection for short records, a few for long ones, and the legs
// that wait while it cannot be reached. A server of the worker's own loop is called directly.
// One that owes replies and is silent is probed (probe.h): while it answers, it is slow, and what is on its
// way stays there; one that does not answer cannot be reached.
#ifndef SLICE_PROXY_SERVERS_BACKEND_H
#define SLICE_PROXY_SERVERS_BACKEND_H

#include <memory>
#include <vector>

#include "common/metrics.h"
#include "proxy/servers/connection.h"
#include "proxy/servers/local_calls.h"
#include "proxy/servers/probe.h"
#include "proxy/servers/servers.h"

namespace slice::proxy {

class Backend : private BackendConnection::Listener, private Probe::Listener {
 public:
  // `all`: where a leg goes that could not be sent, since the table may name another server by now.
  // `latency`: what counts the time that the server takes; null: nothing does.
  Backend(Plumbing plumbing, rpc::Endpoint to, CallEncoder& encoder, Servers& all, Metrics& metrics,
          Histogram* latency);
  ~Backend() override;

  // Sends a whole request, now or when the server can be reached.
  void send(Leg& leg);
  // Begins a request whose bytes still come; null where no connection is free for that: then the caller sends
  // it when it is whole.
  BackendConnection* begin_upload(Leg& leg);
  // Four times a second: time-outs.
  void tick();
  bool reachable() const { return !down_; }
  rpc::Endpoint endpoint() const { return to_; }

 private:
  static constexpr std::size_t kBulkConnections = 4;

  void on_connected(BackendConnection&) override {}
  void on_broken(BackendConnection& connection, IntrusiveList<Leg, LegTag>& orphans,
                 std::string_view why) override;
  void on_alive() override;
  void on_dead(std::string_view why) override;
  void wait(Leg& leg);
  void go_down();
  void come_up();
  bool owes_replies(MonoTime now) const;
  rpc::Dispatcher* local_server();
  BackendConnection* short_connection();
  BackendConnection* bulk_connection();
  std::unique_ptr<BackendConnection> connect();
  void retire(BackendConnection& connection);
  void try_again();
  void release_waiting();

  Plumbing plumbing_;
  rpc::Endpoint to_;
  rpc::Dispatcher* local_ = nullptr;  // as soon as it serves
  Servers& all_;
  Counter& reconnects_;
  Counter& resends_;
  Histogram* latency_;
  std::unique_ptr<BackendConnection> short_;
  std::vector<std::unique_ptr<BackendConnection>> bulk_;
  IntrusiveList<Leg, LegTag> waiting_;
  Probe probe_;
  bool down_ = false;  // a connection was lost, and none has been had since
  Duration backoff_;
  TimerId timer_ = TimerId::kNone;
  std::vector<std::unique_ptr<BackendConnection>> retired_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_BACKEND_H
