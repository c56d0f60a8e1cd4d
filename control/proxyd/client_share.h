// ClientShare: the part of the clients that this proxy serves over TCP, of several that do so behind one
// virtual address (docs/proxy.md, "Several proxies that serve"). Asks the manager who they are, has this host
// take what the holder of the address sends on, and ends connections of clients that are others'. What it
// does to the host and to the proxy goes through seams, so that it runs on simulated time. One loop.
#ifndef SLICE_CONTROL_PROXYD_CLIENT_SHARE_H
#define SLICE_CONTROL_PROXYD_CLIENT_SHARE_H

#include <functional>
#include <string>
#include <vector>

#include "common/loop.h"
#include "common/metrics.h"
#include "common/result.h"
#include "common/task.h"
#include "control/proxyd/address_host.h"
#include "control/proxyd/client_waker.h"
#include "control/proxyd/manager_patience.h"
#include "control/proxyd/spread_tables.h"
#include "routing/client_slots.h"
#include "wire/share.h"

namespace slice::proxy {

class ClientShare {
 public:
  static constexpr Duration kRound = kManagerRound;
  static constexpr Duration kAskPatience = kManagerAnswers;

  // Of the program that sends packets on.
  struct Program {
    bool there = false;
    bool loading = false;  // not there yet; one of a run before may be
    std::string reason;    // why it is not there
  };
  struct Seams {
    Loop& loop;
    Metrics& metrics;
    AddressHost& host;
    const Tables& tables;
    std::uint32_t self = 0;            // the proxy's number
    std::uint64_t run = 0;             // no other process of it has the same
    Duration patience{};               // until the manager has said its own
    std::vector<IpAddress> addresses;  // the virtual ones
    std::uint16_t nfs_port = 0;
    std::function<std::string(std::uint32_t server)> name_of;
    std::function<Task<Result<wire::ShareClientsResult>>(const wire::ShareClientsArgs& args,
                                                         Duration patience)>
        ask;
    std::function<Program()> program;
    // Whether this proxy has the virtual address.
    std::function<bool()> holds;
    // The same as of AddressHolder.
    std::function<bool()> begin_anew;
    std::function<Task<void>()> save;
    std::function<void(MonoTime)> serve_until;
    std::function<void(bool)> remember_nothing;
  };
  explicit ClientShare(Seams seams);

  // Before anything is served: whether this host still serves what a run before did.
  Task<void> start();
  // All is there that it takes to serve.
  void begin();
  // Leaves its clients to others. Nothing happens after that.
  Task<void> stop();

  // As of AddressHolder.
  void connected();
  // Whether it serves this connection as a part of its own.
  bool keeps(const wire::AddressPeer& peer) const;
  // For status: "serves 33 % of the clients over TCP, beside proxy2, proxy3", or why it does not.
  std::string describe() const;

 private:
  void round_and_wait();
  void round();
  void look(MonoTime now);
  void renew_loopback(MonoTime now);
  // False where this process stood still for so long that others may have its clients.
  bool moves(MonoTime now);
  void be_careful(MonoTime now);
  void end_foreign();
  // All of NFS over TCP.
  void end_all();
  bool is_mine(IpAddress client) const;
  std::uint32_t owner(std::uint32_t slot) const;
  static Task<void> ask_and_follow(ClientShare& self);
  void follow(const wire::ShareClientsResult& told);
  void follow_current(const wire::Sharers& current);
  void follow_wanted(const wire::Sharers& wanted);
  static Task<void> prepare(ClientShare& self, wire::Sharers wanted);
  void serve(bool on);
  void bind();

  const Seams seams_;
  Duration patience_;
  AddressHost::Look seen_;
  bool started_ = false, stopping_ = false, asking_ = false;
  bool serves_ = false;    // clients' calls are taken
  bool sends_on_ = false;  // the program is there, or that of a run before may be
  bool heard_ = false;     // who serve, from a manager: current_
  bool all_mine_ = false;  // a run before served, and the manager has not said yet whom
  bool preparing_ = false, careful_ = false;
  std::string unfit_ = "starting";
  wire::Sharers current_, wanted_;
  routing::ClientSlots slots_, wanted_slots_;
  std::uint64_t prepared_ = 0;                       // digest of wanted_ when all is ready for it
  std::vector<wire::AddressPeer> peers_;             // while it serves
  std::uint64_t peers_digest_ = 0, peers_told_ = 0;  // of peers_; of what the manager has
  std::uint64_t woken_ = 0;                          // ShareClientsResult::left_ns of the clients woken last
  std::uint64_t questions_ = 0;
  unsigned rounds_ = 0;
  MonoTime last_round_{}, confirmed_at_{}, put_at_{}, served_at_{}, changed_at_{};
  SpreadTables spread_;
  ClientWaker waker_;
  Gauge& slots_gauge_;
  Counter &unanswered_, &ended_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_CLIENT_SHARE_H
