// The parts of rpc::Server: what is shared, one TCP connection, one UDP socket. For server*.cc alone.
#ifndef SLICE_RPC_SERVER_INTERNAL_H
#define SLICE_RPC_SERVER_INTERNAL_H

#include <netinet/in.h>

#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/log.h"
#include "rpc/bound_socket.h"
#include "rpc/refusals.h"
#include "rpc/server.h"
#include "rpc/session_reader.h"

namespace slice::rpc {

class TcpConnection;
class UdpSocket;

// Kinds of log lines that clients can cause.
enum class ServerLine {
  kCannotAccept,
  kNoRoom,
  kRecordTooLong,
  kReplyTooLong,
  kKinds,
};

inline constexpr std::size_t kCallMemory =
    2048;  // bytes that a call holds beside its record: frames, a short reply

// What connections and sockets of one server share. Lives until the last call under way has ended; `open`
// says whether the server still does.
class ServerShared : public std::enable_shared_from_this<ServerShared> {
 public:
  ServerShared(EpollLoop& event_loop, Dispatcher& to, Metrics& metrics, Server::Options limits);
  void start();  // once, when it is shared

  Result<Endpoint> listen_tcp(Endpoint at);
  Result<Endpoint> listen_udp(Endpoint at);
  void serve_tcp(int listener);
  void serve_udp(int socket);
  void close_all();
  void closed(const std::shared_ptr<TcpConnection>& connection);
  std::size_t end_sessions_of_other_keys();

  // Connections with replies to flush at the end of the round.
  void flush_later(std::shared_ptr<TcpConnection> connection) {
    dirty_.push_back(std::move(connection));
    flush_.want();
  }
  void flush_later(std::shared_ptr<UdpSocket> socket) {
    dirty_udp_.push_back(std::move(socket));
    flush_.want();
  }
  ByteSpan scratch() { return scratch_.span(); }
  bool may_be_member(Endpoint peer) const { return !options.internal || options.internal(peer.address); }

  EpollLoop& loop;
  Dispatcher& dispatcher;
  const Server::Options options;
  const std::shared_ptr<Admission> admission;
  bool open = true;
  Counter& connections_now;
  Counter& connections_total;
  Counter& connections_refused;
  Counter& connections_broken;
  Counter& sessions_total;
  Counter& sessions_refused;
  Counter& sessions_forged;
  Counter& udp_dropped;
  Counter& udp_too_large;
  Counter& udp_withheld;
  Refusals refusals;
  LogLimiters<ServerLine> log_limits{5};

 private:
  void accept_some(int listener);
  void flush();

  std::vector<int> listeners_;
  std::vector<std::shared_ptr<UdpSocket>> udp_;
  std::unordered_set<std::shared_ptr<TcpConnection>> connections_;
  std::vector<std::shared_ptr<TcpConnection>> dirty_, flushing_;
  std::vector<std::shared_ptr<UdpSocket>> dirty_udp_;
  Loop::RoundEnd flush_;  // of dirty_
  Buffer scratch_;        // every connection reads into it; nothing stays there
};

class TcpConnection final : public std::enable_shared_from_this<TcpConnection>, public Admission::Member {
 public:
  TcpConnection(ServerShared& server, int fd, Endpoint peer);
  ~TcpConnection();
  void start();
  void close();
  void flush();  // at the end of a round
  // False where it has no session, or one under a key that is not valid any more.
  bool key_is_valid();
  bool has_session() { return reader_.session() != nullptr; }

 private:
  static Task<void> serve(std::shared_ptr<TcpConnection> self, std::shared_ptr<ServerShared> server,
                          Buffer record);
  Standing standing() const override;
  void on_room() override { resume(); }
  void on_end(std::string_view why) override;
  void on_events(std::uint32_t events);
  bool read_some();  // false where there was less than asked for
  void take_records();
  void send(Buffer reply);
  void resume();  // with records that wait
  void count_memory();
  void greeted();
  void unreadable();
  void update_interest();

  ServerShared& server_;
  int fd_;
  Endpoint peer_;
  SessionReader reader_;
  SendQueue queue_;
  std::deque<Buffer> held_;  // records that came with others when a limit was reached
  std::size_t held_memory_ = 0;
  std::size_t counted_ = 0;  // memory of reader_, queue_ and held_, as far as it is counted
  std::uint32_t interest_ = 0;
  bool member_ = false;  // its session has shown that it has the ensemble's key
  bool dirty_ = false;
  bool blocked_ = false;
  bool resuming_ = false;
  bool again_ = false;  // reads what TLS has, in a moment
};

class UdpSocket : public std::enable_shared_from_this<UdpSocket> {
 public:
  UdpSocket(ServerShared& server, int fd);
  ~UdpSocket();
  void start();
  void close();
  void flush();

 private:
  struct Datagram {
    Buffer bytes;
    Endpoint peer;
    IpAddress local;  // the address that a call was sent to, and its answer comes from
  };
  // Who calls from one address. Lives while calls of it are pending, and a while longer.
  class Sender final : public Admission::Member {
   public:
    Sender(UdpSocket& socket, IpAddress of) : address(of), socket_(socket) {}
    std::size_t pending() const { return calls() + held.size(); }

    const IpAddress address;
    std::deque<Datagram> held;    // calls that may not begin yet
    std::size_t held_memory = 0;  // which is not counted, as what waits in the kernel for a connection is not
    std::uint64_t heard_at_tick = 0;

   private:
    Standing standing() const override { return {}; }
    void on_room() override { socket_.resume(*this); }
    void on_end(std::string_view) override {}

    UdpSocket& socket_;
  };
  using Place = std::list<Sender>::iterator;
  static Task<void> serve(std::shared_ptr<UdpSocket> self, std::shared_ptr<ServerShared> server,
                          Sender& sender, Datagram call);
  void receive();
  void take(ByteView bytes, Endpoint peer, IpAddress local);
  void resume(Sender& sender);  // with calls that it held
  Sender* sender_at(IpAddress address);
  void heard(Place place);
  Place forget(Place place);
  void tick();
  void keep_short(Buffer& reply, std::size_t call) const;

  ServerShared& server_;
  int fd_;
  std::list<Sender> senders_;  // the one that was silent for longest first
  std::unordered_map<IpAddress, Place> places_;
  std::size_t pending_ = 0, pending_of_peers_ = 0;  // of all senders
  std::uint64_t ticks_ = 0;
  TimerId timer_ = TimerId::kNone;
  std::vector<Datagram> answers_;
  Buffer scratch_;
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_SERVER_INTERNAL_H
