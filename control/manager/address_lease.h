// AddressLease: which of several proxies has the virtual address (docs/proxy.md, "Several proxies"). It knows
// them by their questions alone, and answers at once. Nothing of it is durable: a manager that has just
// started first listens for one patience to who has the address. One loop.
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
    bool ready = false, holds = false;
  };

  bool is_proxy(std::uint32_t server) const;
  bool lately(const Heard& heard) const { return loop_.now() - heard.at <= patience_; }
  const Heard* heard_lately(std::uint32_t server) const;
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
  const MonoTime started_;
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
