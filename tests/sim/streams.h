// SimStreams: the connections of a simulated network. Bytes come in order, in any cuts, as far as the other
// end has room for them; a connection breaks between any two bytes, waits while nothing passes between its
// hosts, and hangs half open where a host is gone without a word.
//
// StreamServer: a process's place on it as a server: calls that come by connections go to its dispatcher.
// StreamChannel: a client's: an rpc::Channel over one connection that is made again when it breaks; calls
// that were not answered are then sent again, under their xids, as kernel clients do.
#ifndef SLICE_TESTS_SIM_STREAMS_H
#define SLICE_TESTS_SIM_STREAMS_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/stream/stream.h"
#include "rpc/record.h"
#include "tests/sim/network.h"

namespace slice::sim {

class SimStreams {
 public:
  struct Faults {
    double breaks = 0;         // this share of writes ends the connection, with a part of its bytes
    std::size_t most_cut = 0;  // bytes that one read or write passes at most; 0: all there are
  };
  // Of a process that takes connections.
  using Accept = std::function<void(std::unique_ptr<proxy::Stream> connection, rpc::Endpoint peer)>;

  SimStreams(ManualLoop& loop, SimNetwork& network, Random random, Trace& trace)
      : loop_(loop), network_(network), random_(random), trace_(trace) {}

  void set_faults(const Faults& faults) { faults_ = faults; }
  // From now on `accept` gets what is connected to `at`; on `loop`, the process's.
  void listen(rpc::Endpoint at, ProcessLoop& loop, Accept accept);
  // A connection that is about to be made; ready for writing when it is, or has failed (connect_error()).
  std::unique_ptr<proxy::Stream> connect(ProcessLoop& loop, rpc::Endpoint from, rpc::Endpoint to);
  // The process died that listened at `at`, and all ends on its loop with it. `silent`: with its host: nobody
  // is told until somebody listens there again.
  void die(const ProcessLoop& loop, bool silent);

 private:
  class End;
  struct Connection;
  struct Listener {
    ProcessLoop* loop = nullptr;  // null: nobody listens now
    Accept accept;
    bool host_is_gone = false;
  };

  void try_to_connect(const std::shared_ptr<Connection>& connection);
  void established(const std::shared_ptr<Connection>& connection, Listener& listener);
  rpc::Written write(const std::shared_ptr<Connection>& connection, int side, std::span<const iovec> bytes);
  ssize_t read(const std::shared_ptr<Connection>& connection, int side, ByteSpan into);
  void close(const std::shared_ptr<Connection>& connection, int side);
  // Bytes, or the end of them, on their way from `side`.
  void send(const std::shared_ptr<Connection>& connection, int side, std::optional<Buffer> bytes);
  void deliver(const std::shared_ptr<Connection>& connection, int side);
  void break_later(const std::shared_ptr<Connection>& connection, int side, int error);
  void break_off(const std::shared_ptr<Connection>& connection);
  void poke(const std::shared_ptr<Connection>& connection, int side);
  std::uint32_t ready(const Connection& connection, int side) const;
  std::size_t cut(std::size_t bytes);
  Duration delay();

  ManualLoop& loop_;
  SimNetwork& network_;
  Random random_;
  Trace& trace_;
  Faults faults_;
  std::uint64_t connections_ = 0;
  std::map<rpc::Endpoint, Listener> listeners_;
  std::vector<std::weak_ptr<Connection>> open_;
};

class StreamServer {
 public:
  StreamServer(ProcessLoop& loop, SimNetwork& network, rpc::Endpoint self, rpc::Dispatcher& dispatcher)
      : loop_(loop), network_(network), self_(self), dispatcher_(dispatcher) {}
  void take(std::unique_ptr<proxy::Stream> connection, rpc::Endpoint peer);

 private:
  struct Client;
  static void serve(StreamServer& self, const std::shared_ptr<Client>& client, std::uint32_t ready);
  static Task<void> answer(StreamServer& self, std::shared_ptr<Client> client, Buffer record);

  ProcessLoop& loop_;
  SimNetwork& network_;
  const rpc::Endpoint self_;
  rpc::Dispatcher& dispatcher_;
};

class StreamChannel : public rpc::Channel {
 public:
  // `target`: to whom the next connection is made.
  StreamChannel(ProcessLoop& loop, SimStreams& streams, SimNetwork& network, rpc::Endpoint self,
                std::uint32_t first_xid, std::function<rpc::Endpoint()> target);
  ~StreamChannel() override;

  Task<Result<rpc::Response>> call(rpc::Request request) override;
  // How many connections were made so far: calls between two changes of it went to one peer.
  unsigned connections() const { return connections_; }

 private:
  struct Pending {
    Buffer record;  // with its mark
    OneShot<std::optional<Buffer>> answer;
  };
  void connect();
  void on_ready(std::uint32_t ready);
  void on_broken();
  void send(const Pending& pending);
  void read();
  void flush();

  ProcessLoop& loop_;
  SimStreams& streams_;
  SimNetwork& network_;
  const rpc::Endpoint self_;
  std::uint32_t next_xid_;
  std::function<rpc::Endpoint()> target_;
  rpc::Endpoint peer_;
  std::unique_ptr<proxy::Stream> stream_;
  unsigned connections_ = 0;
  bool up_ = false, retrying_ = false;
  rpc::RecordReader reader_;
  Buffer out_;
  std::size_t written_ = 0;
  MonoTime heard_at_{};
  std::map<std::uint32_t, Pending> pending_;  // by xid
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_STREAMS_H
