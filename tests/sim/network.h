// SimNetwork: datagrams between the processes of a simulation, with everything that a network does to them:
// they are delayed, lost, doubled, overtake one another, and for a while two places cannot reach each other,
// or one not the other.
// SimSocket: a process's place on it: an rpc::Channel that sends a call again until it is answered, as a
// client over UDP and SocketChannel (rpc/client.h) over a connection that breaks do; and what serves calls.
//
// rpc/in_process.h is the reliable network of the unit tests; here nothing is reliable, and peers see calls
// twice.
#ifndef SLICE_TESTS_SIM_NETWORK_H
#define SLICE_TESTS_SIM_NETWORK_H

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/manual_loop.h"
#include "rpc/channel.h"
#include "rpc/dispatcher.h"
#include "tests/sim/process_loop.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

namespace slice::sim {

class SimNetwork {
 public:
  struct Faults {
    Duration least_delay = std::chrono::microseconds(20);
    Duration most_delay = std::chrono::milliseconds(1);
    double loss = 0;
    double duplication = 0;
    double straggling = 0;  // this share of datagrams takes up to `straggler_delay`
    Duration straggler_delay = std::chrono::seconds(2);
  };
  class Receiver {
   public:
    Receiver() = default;
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;
    virtual ~Receiver() = default;
    virtual void receive(rpc::Endpoint from, Buffer bytes) = 0;
  };

  SimNetwork(ManualLoop& loop, Random random, Trace& trace) : loop_(loop), random_(random), trace_(trace) {}

  void set_faults(const Faults& faults) { faults_ = faults; }
  // What `client` sends and gets is neither doubled nor late, as over a connection.
  void set_stream(rpc::Endpoint client) { streams_.insert(client); }
  // nullptr: nobody is there; what arrives is lost. What was sent to one receiver never reaches its
  // successor, and with a receiver go those of its replies that are still on their way: no network keeps them
  // while a process starts again. (Failures are remembered in memory only: a client that got "exists" from a
  // dead process could find the call carried out by its successor.) Calls of a dead process still arrive.
  void attach(rpc::Endpoint at, Receiver* receiver) { receivers_[at] = receiver; }
  void send(rpc::Endpoint from, rpc::Endpoint to, ByteView bytes);
  // Nothing passes between the two for `time`; nor between `one` and anybody.
  enum class Ways { kBoth, kThere };  // kThere: what `one` sends is lost, and nothing else
  void cut(rpc::Endpoint one, rpc::Endpoint other, Duration time, Ways ways = Ways::kBoth);
  void isolate(rpc::Endpoint one, Duration time, Ways ways = Ways::kBoth);
  void heal() { cuts_.clear(); }

  // May change what is on its way: how a test falsifies a reply.
  using Tamper = std::function<void(rpc::Endpoint from, rpc::Endpoint to, Buffer& bytes)>;
  void set_tamper(Tamper tamper) { tamper_ = std::move(tamper); }
  // Lets that happen to one message, which came by whatever way.
  void tamper(rpc::Endpoint from, rpc::Endpoint to, Buffer& bytes) const {
    if (tamper_) tamper_(from, to, bytes);
  }
  // Something can pass between the two now.
  bool reachable(rpc::Endpoint from, rpc::Endpoint to);
  // Whose calls are those of members of the ensemble: what sessions tell elsewhere.
  void add_member(rpc::Endpoint at) { members_.insert(at); }
  bool is_member(rpc::Endpoint at) const { return members_.contains(at); }

 private:
  struct Cut {
    rpc::Endpoint one, other;  // other: {} for anybody
    MonoTime until;
    Ways ways = Ways::kBoth;
  };
  void deliver_later(rpc::Endpoint from, rpc::Endpoint to, ByteView bytes);

  ManualLoop& loop_;
  Random random_;
  Trace& trace_;
  Faults faults_;
  Tamper tamper_;
  std::vector<Cut> cuts_;
  std::set<rpc::Endpoint> streams_, members_;
  std::map<rpc::Endpoint, Receiver*> receivers_;
};

class SimSocket : public rpc::Channel, public SimNetwork::Receiver {
 public:
  struct Options {
    rpc::Endpoint self;
    bool member = false;  // of the ensemble: servers know it as one, as by a session; else a client
    std::uint32_t sender = 0;
    std::uint32_t first_xid = 1;
    Duration resend_after = std::chrono::milliseconds(200);  // doubled at each, up to 8 times of it
  };
  SimSocket(ProcessLoop& loop, SimNetwork& network, const Options& options);

  // Calls that arrive go to `dispatcher` from now on; before, they are lost.
  void serve(rpc::Dispatcher& dispatcher) { dispatcher_ = &dispatcher; }
  // The process died: nothing arrives any more, nothing leaves.
  void close();
  // As SocketChannel (rpc/client.h): calls under way to the one go to the other from now on.
  void moved(rpc::Endpoint from, rpc::Endpoint to);

  Task<Result<rpc::Response>> call(rpc::Request request) override;
  void receive(rpc::Endpoint from, Buffer bytes) override;

 private:
  using Answer = OneShot<std::optional<Buffer>>;  // nothing: time to send again
  Task<void> answer(rpc::Dispatcher& dispatcher, rpc::Endpoint from, Buffer call);
  void send(rpc::Endpoint to, ByteView bytes);

  ProcessLoop& loop_;
  SimNetwork& network_;
  Options options_;
  std::uint32_t next_xid_;
  rpc::Dispatcher* dispatcher_ = nullptr;
  struct Waiting {
    rpc::Endpoint to;
    Answer answer;
  };
  std::map<std::uint32_t, Waiting> waiting_;  // by xid
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_NETWORK_H
