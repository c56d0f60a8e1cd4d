// AddressLease: which of several proxies has the virtual address (docs/proxy.md, "Several proxies"). It knows
// them by their questions alone, and answers at once. Nothing of it is durable, and each term of a leading
// manager has one of its own: where no proxy was heard of for one patience, since the manager has just begun
// to lead, was cut off or stood still, it gives the address to nobody for one patience from the next question
// on, so that who has it is heard of first. One loop.
#ifndef SLICE_CONTROL_MANAGER_ADDRESS_LEASE_H
#define SLICE_CONTROL_MANAGER_ADDRESS_LEASE_H

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "wire/address.h"

namespace slice::manager {

class AddressLease {
 public:
  // A holder that is not heard of for longer than `patience` is one no more. `members`, by number, and the
  // others outlive this.
  AddressLease(Loop& loop, Duration patience, const std::vector<wire::ServerEntry>& members,
               Metrics& metrics);

  // A proxy's question, or an operator's.
  wire::HoldAddressResult ask(const wire::HoldAddressArgs& args);

 private:
  struct Heard {
    MonoTime at;
    std::uint64_t run = 0, number = 0;
    bool ready = false, holds = false;
  };

  bool is_proxy(std::uint32_t server) const;
  bool lately(const Heard& heard) const { return loop_.now() - heard.at <= patience_; }
  const Heard* heard_lately(std::uint32_t server) const;
  // It came after a later one of the same process.
  bool is_late(const wire::HoldAddressArgs& args) const;
  void hear(const wire::HoldAddressArgs& args);
  // It has listened for long enough: who has the address has been heard of, or is silent.
  bool knows() const { return heard_at_ && loop_.now() - listens_since_ > patience_; }
  // Why it cannot be moved there; empty: it is on its way, or there.
  std::string move_to(std::uint32_t server);
  // Where its aim could not serve any more.
  void give_up_move();
  // Why the holder is one no more; nothing where it is.
  std::optional<std::string> reason_to_end(std::uint32_t holder) const;
  void settle(std::uint32_t asker);
  void give_to(std::uint32_t server, const std::string& why);
  // Who is to have it where nobody does, when `asker` is there.
  std::optional<std::uint32_t> successor(std::uint32_t asker) const;
  std::vector<wire::AddressAsker> askers() const;

  Loop& loop_;
  const Duration patience_;
  const std::vector<wire::ServerEntry>& members_;
  std::optional<MonoTime> heard_at_;  // the last question of any proxy; none: there was none
  MonoTime listens_since_{};          // if there was one
  std::map<std::uint32_t, Heard> heard_;
  std::optional<std::uint32_t> holder_;
  std::optional<std::uint32_t> moving_to_;    // who gets it as soon as the holder has let go of it
  std::uint32_t peers_of_ = wire::kNoServer;  // the holder that told of them
  std::vector<wire::AddressPeer> peers_;
  std::string why_;  // nobody has it
  Counter& moves_;
  LogLimiter stranger_log_{1};
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_ADDRESS_LEASE_H
