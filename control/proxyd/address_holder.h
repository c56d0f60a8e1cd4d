// AddressHolder: one of several proxies that can have the virtual address (docs/proxy.md, "Several proxies").
// Asks the manager who is to have it, puts it on this host or takes it away, and yields where another has it.
// What it does to the host and to the proxy goes through seams, so that it runs on simulated time. One loop.
#ifndef SLICE_CONTROL_PROXYD_ADDRESS_HOLDER_H
#define SLICE_CONTROL_PROXYD_ADDRESS_HOLDER_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/result.h"
#include "common/task.h"
#include "control/proxyd/address_host.h"
#include "control/proxyd/client_waker.h"
#include "control/proxyd/manager_patience.h"
#include "wire/address.h"

namespace slice::proxy {

class AddressHolder {
 public:
  static constexpr Duration kRound = kManagerRound;
  static constexpr Duration kAskPatience = kManagerAnswers;
  // A claim by another host is an emergency.
  static constexpr Duration kContestPatience = std::chrono::milliseconds(300);

  struct Seams {
    Loop& loop;
    Metrics& metrics;
    AddressHost& host;
    std::uint32_t self = 0;  // the proxy's number
    std::uint64_t run = 0;   // no other process of it has the same
    Duration patience{};     // until the manager has said its own
    std::function<std::string(std::uint32_t server)> name_of;
    std::function<Task<Result<wire::HoldAddressResult>>(const wire::HoldAddressArgs& args, Duration patience)>
        ask;
    // Before it has the address: forgets what others may have changed since. False: not yet.
    std::function<bool()> begin_anew;
    // It has no address any more: tells servers what they should know before another has it.
    std::function<Task<void>()> save;
    // What clients send is to be taken until then.
    std::function<void(MonoTime)> serve_until;
    // Another may take over soon without a word to this one, or that is over.
    std::function<void(bool)> remember_nothing;
    // Connections that this proxy serves whether it has the address or not (ClientShare).
    AddressHost::Keep keeps;
  };
  explicit AddressHolder(Seams seams);

  // Before anything is served: finds out whether the address that this host may have from a run before is
  // still its own.
  Task<void> start();
  // All is there that it takes to serve: from now on it may be given the address.
  void begin();
  // Gives the address up, and tells the manager so. Nothing happens after that.
  Task<void> stop();
  // Clients have connected: the manager is to know of them, should this proxy die in a moment.
  void connected();
  // Another host says by ARP that it has the address.
  void claimed(const std::string& by);

  bool holds() const { return holds_; }
  // For status: "holds the address", "stands by", and why it could not serve.
  std::string describe() const;

 private:
  void round_and_wait();
  void round();
  void look();
  void renew();
  void look_at_peers();
  // False where this process stood still for so long that another may have the address: it is away then.
  bool moves(MonoTime now);
  void be_careful(MonoTime now);
  Task<std::optional<wire::HoldAddressResult>> ask(Duration patience);
  static Task<void> ask_and_follow(AddressHolder& self);
  static Task<void> contest(AddressHolder& self, std::string by);
  void follow(const wire::HoldAddressResult& told);
  void take(const std::string& why);
  // From this moment on it serves nothing; what it knows is saved when the task ends.
  static Task<void> let_go(AddressHolder& self, std::string why);
  void take_off();
  void announce_again(std::size_t number, std::uint64_t term);
  void defend(const std::string& against);
  static Task<void> look_whether_alone(AddressHolder& self);
  bool ready() const;

  const Seams seams_;
  Duration patience_;
  bool holds_ = false, letting_go_ = false, stopping_ = false, started_ = false;
  bool asking_ = false, contesting_ = false, careful_ = false;
  bool alone_ = false;  // it yielded to a claim while no manager answered
  std::string unfit_ = "starting";
  unsigned rounds_ = 0;
  std::vector<wire::AddressPeer> peers_;  // while it holds it
  // Of peers_; of what the manager has; of what the last question told.
  std::uint64_t peers_digest_ = 0, peers_told_ = 0, peers_asked_ = 0;
  std::uint64_t questions_ = 0;  // so far
  std::uint64_t term_ = 0;  // grows where the address comes or goes: what was asked before counts no more
  MonoTime last_round_{}, confirmed_at_{}, put_at_{}, failed_at_{}, claimed_at_{}, announced_at_{};
  bool failed_ = false, defends_ = false, said_silent_ = false;
  Gauge& holds_gauge_;
  Counter &taken_, &lost_, &claims_, &unanswered_;
  ClientWaker waker_;  // of the clients of the holder before
  LogLimiter claim_log_{1};
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_ADDRESS_HOLDER_H
