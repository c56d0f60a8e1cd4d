// Admission: what the connections of one front may take of it: rpc::Server's and those of a proxy's worker.
// It counts connections, calls under way and memory for each client address and for all of them, ends what is
// slow, idle or in the way, and wakes who waits for room, clients in turn. What the ensemble's own servers
// and tools need is counted apart, so that clients cannot take it.
//
// Rules, in the order of their use (docs/proxy.md, "Limits"):
// - memory is counted by what is allocated, and bytes as they came: a length that was only declared counts 0;
// - an address at its share waits, and nobody else with it: its connections are not read;
// - where clients hold three quarters of all memory, those with more than an equal part wait;
// - where they hold more than all of it, the connection that holds most ends, of the address with most;
// - where another connection would be one too many, the address with the most loses the one that was idle for
//   the longest time.
//
// A process is safe with any number of them; each is its loop's alone.
#ifndef SLICE_RPC_ADMISSION_H
#define SLICE_RPC_ADMISSION_H

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "common/config.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"

namespace slice::rpc {

class Admission : public std::enable_shared_from_this<Admission> {
  struct Share;

 public:
  struct Limits {
    std::size_t connections = 4096;                 // of clients
    std::size_t client_connections = 1024;          // of one address
    std::size_t peer_connections = 4096;            // of the ensemble, beside those
    std::size_t memory = 512 << 20;                 // bytes that clients' connections and calls hold
    std::size_t client_memory = 128 << 20;          // of one address, which waits then; twice that ends one
    std::size_t connection_memory = 8 << 20;        // of one connection
    std::size_t peer_memory = 512 << 20;            // bytes of the ensemble, beside those of clients
    std::size_t peer_connection_memory = 64 << 20;  // of one of its connections
    std::size_t calls = 4096;                       // under way, of clients
    std::size_t client_calls = 256;                 // of one address while no other calls
    std::size_t connection_calls = 64;              // of one connection
    std::size_t shared_calls = 256;           // dealt out equally while several call; 16 are everybody's
    std::size_t peer_calls = 16384;           // of the ensemble, beside those of clients
    std::size_t peer_connection_calls = 256;  // of one of its connections
    Duration first_call = std::chrono::seconds(30);  // from connecting to a whole call
    Duration idle = std::chrono::minutes(6);         // without a call; then the client connects again
    Duration patience = std::chrono::seconds(30);    // with a record, or replies, slower than `rate`
    std::size_t rate = 4096;                         // bytes a second
    Duration tick = std::chrono::seconds(1);         // how often time-outs are looked at
    std::function<bool(IpAddress address)> is_peer;  // of the ensemble; none: nobody
  };

  // One connection, or one sender of datagrams, as long as it is open.
  class Member {
   public:
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    // It is the ensemble's: it comes from one of its addresses, or a sealed call came over it.
    bool peer() const;
    void sealed_call_came();

    // Whether another of its calls may begin now. Where not, wait(): on_room() is called once when that may
    // have changed.
    bool may_take() const;
    void wait();
    bool waiting() const { return waits_ != Waits::kNot; }
    void call_begins();
    void call_ends();
    std::size_t calls() const { return calls_; }
    // Memory that it came to hold, or gave back.
    void hold(std::size_t bytes);
    void release(std::size_t bytes);
    std::size_t memory() const { return memory_; }
    // One of its calls, with these bytes of its memory, waits for a server that cannot be reached, or does no
    // longer: it keeps nobody busy meanwhile, and counts for memory's limits alone.
    void set_aside(std::size_t bytes);
    void take_back(std::size_t bytes);
    // Bytes that came over the connection, or that the client took.
    void received(std::size_t bytes) { received_ += bytes; }
    void sent(std::size_t bytes) { sent_ += bytes; }
    // It is closed: no place of the front's is taken any more. Memory and calls go on to be counted.
    void leave();

   protected:
    struct Standing {
      bool within_record = false;  // some bytes of a record have come, and the front reads on
      bool unread = false;         // replies wait for the client to take them
    };
    Member() = default;
    ~Member();
    virtual Standing standing() const = 0;
    virtual void on_room() = 0;
    // To be closed now. May be called from inside join() of another, or the end of a round.
    virtual void on_end(std::string_view why) = 0;

   private:
    friend class Admission;
    enum class Waits { kNot, kForItself, kForOthers };
    // How far a record, or the unread replies, got since a tick.
    struct Progress {
      std::uint64_t ticks = 0;
      std::uint64_t at_start = 0;
    };
    bool within_own_limits() const;
    void eased();

    std::shared_ptr<Admission> admission_;
    Share* share_ = nullptr;
    std::list<Member*>::iterator place_, waiting_place_;
    bool open_ = false;        // not yet left
    bool connection_ = false;  // or datagrams
    Waits waits_ = Waits::kNot;
    std::size_t calls_ = 0, memory_ = 0;
    std::size_t calls_aside_ = 0, memory_aside_ = 0;  // of these
    std::uint64_t received_ = 0, sent_ = 0, taken_ = 0;
    std::uint64_t taken_at_tick_ = 0, used_at_tick_ = 0, idle_ticks_ = 0;
    Progress record_, unread_;
  };

  Admission(Loop& loop, Limits limits, Metrics& metrics);
  ~Admission();
  // To be shared, since members keep it.
  static std::shared_ptr<Admission> make(Loop& loop, Limits limits, Metrics& metrics);

  // A new connection from `address`. False: there is no room, and it is to be closed.
  bool join(Member& member, IpAddress address);
  // A sender of datagrams: it takes no connection's place.
  void join_datagrams(Member& member, IpAddress address);
  std::size_t connections() const { return clients_.connections + peers_.connections; }
  // Of clients.
  std::size_t memory() const { return clients_.memory; }
  const Limits& limits() const { return limits_; }
  // Other limits of clients from now on; what is 0 is as it was made with. Who is beyond a lower one keeps
  // what it has, and waits, or ends as the rules say; who waited may have room now.
  void limit_clients(const ClientLimits& limits);

 private:
  enum class Why { kIdle, kUnread, kSlowRecord, kCrowded, kMemory, kKinds };
  static constexpr std::size_t kReasons = static_cast<std::size_t>(Why::kKinds);
  struct Pool {
    std::size_t connections = 0, memory = 0, calls = 0;
    std::size_t leaving = 0;  // of the memory: of closed connections, whose calls have not ended
  };
  // What one address has.
  struct Share {
    IpAddress address;
    bool peer = false;
    std::size_t connections = 0, memory = 0, calls = 0;
    std::size_t calls_aside = 0, memory_aside = 0;  // of these
    std::list<Member*> members;                     // the one that was idle longest first
    std::list<Member*> waiting;                     // for others' room
    bool in_turn = false;                           // stands in waiting_
    std::uint64_t called_at_tick = 0;
    MonoTime round{};
    std::size_t calls_of_round = 0;
  };
  using Key = std::pair<IpAddress, bool>;

  void enter(Member& member, IpAddress address, bool connection);
  void put_into(Member& member, Share& share, int sign);
  Share& share_of(IpAddress address, bool peer);
  void drop_if_empty(Share& share);
  bool is_peer(IpAddress address) const { return limits_.is_peer && limits_.is_peer(address); }
  Pool& pool_of(const Share& share) { return share.peer ? peers_ : clients_; }
  bool make_room(IpAddress address);
  Share* most_connected();
  static Member* longest_idle(Share& share);
  Member* too_large();
  bool may_take(const Share& share) const;
  bool at_round_limit(const Share& share) const;
  std::size_t call_limit() const;
  std::size_t weight(const Share& share) const;
  void begins(Member& member);
  void end(Member& member, Why why);
  void keep_memory();
  void wake() { round_end_.want(); }
  void queue(Share& share);
  void round_ends();
  bool go_on(Share& share);
  void tick();
  void look_at(Member& member);
  static bool too_slow(Member::Progress& progress, bool under_way, std::uint64_t counter,
                       const Limits& limits);
  void give_memory_back();

  Loop& loop_;
  const Limits made_with_;
  Limits limits_;  // in force
  Pool clients_, peers_;
  std::map<Key, std::unique_ptr<Share>> shares_;
  std::list<Share*> waiting_;  // shares with members that wait, in turn
  bool look_at_memory_ = false;
  std::size_t active_ = 0;  // clients' addresses that call
  std::uint64_t ticks_ = 2;
  std::size_t peak_memory_ = 0, shown_memory_ = 0;
  TimerId timer_ = TimerId::kNone;
  Loop::RoundEnd round_end_;
  std::array<Counter*, kReasons> ended_{};
  Counter &waited_, &memory_now_;
  LogLimiters<Why> log_limits_{1};
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_ADMISSION_H
