// Probe: asks a server that has been silent whether it is there, by NULL over a connection of its own. On the
// others an answer may wait behind much else: a server that waits for its disk stops reading them.
#ifndef SLICE_PROXY_SERVERS_PROBE_H
#define SLICE_PROXY_SERVERS_PROBE_H

#include <memory>

#include "proxy/servers/call_encoder.h"
#include "proxy/servers/connection.h"

namespace slice::proxy {

class Probe : private LegOwner, private BackendConnection::Listener {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_alive() = 0;
    // Not there: the connection was refused or broke, or the answer is overdue.
    virtual void on_dead(std::string_view why) = 0;
  };
  Probe(Plumbing plumbing, rpc::Endpoint to, CallEncoder& encoder, Listener& listener);
  ~Probe() override;

  // Asks, unless an answer is due already. Not from the listener's calls.
  void ask();
  MonoTime answered_at() const { return answered_at_; }
  // Says on_dead() where the answer is overdue. Call it a few times a second.
  void tick();
  // Closes the connection, where no answer is due. Not from the listener's calls.
  void rest();

 private:
  void send();
  void on_reply(Leg& leg, const BufferChain& reply) override;
  void on_connected(BackendConnection&) override {}
  void on_broken(BackendConnection& connection, IntrusiveList<Leg, LegTag>& orphans,
                 std::string_view why) override;

  Plumbing plumbing_;
  rpc::Endpoint to_;
  CallEncoder& encoder_;
  Listener& listener_;
  std::unique_ptr<BackendConnection> connection_;
  std::unique_ptr<Leg> question_;  // while its answer is due
  MonoTime asked_at_{}, answered_at_{};
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_PROBE_H
