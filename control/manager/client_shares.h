// ClientShares: which of several proxies serve clients over TCP, each a part (docs/proxy.md, "Several proxies
// that serve"). It knows them by their questions alone, and answers at once. Nothing of it is durable: after
// the start of a term it listens for one patience for who says that it serves, as AddressLease does for the
// virtual address. One loop.
#ifndef SLICE_CONTROL_MANAGER_CLIENT_SHARES_H
#define SLICE_CONTROL_MANAGER_CLIENT_SHARES_H

#include <map>
#include <optional>
#include <vector>

#include "common/log.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "wire/share.h"

namespace slice::manager {

class ClientShares {
 public:
  // A proxy that is not heard of for longer than `patience` serves no more, and one is to be fit for as long
  // before it serves. `members`, by number, and the others outlive this.
  ClientShares(Loop& loop, Duration patience, const std::vector<wire::ServerEntry>& members,
               Metrics& metrics);

  // A proxy's question, or an operator's (kNoServer), who takes no part.
  wire::ShareClientsResult ask(const wire::ShareClientsArgs& args);

 private:
  struct Heard {
    MonoTime at{}, fit_since{};
    wire::ShareClientsArgs last;
    std::vector<wire::AddressPeer> peers;
    // Of others before the last change, by which their clients became this one's: they may have come since.
    std::vector<wire::AddressPeer> given;
    MonoTime given_at{};
  };

  bool is_proxy(std::uint32_t server) const;
  bool lately(const Heard& heard) const { return loop_.now() - heard.at <= patience_; }
  void hear(const wire::ShareClientsArgs& args);
  bool knows() const { return heard_at_ && loop_.now() - listens_since_ > patience_; }
  bool serves(std::uint32_t server) const;
  void settle();
  // When it has listened for long enough.
  void begin();
  // Who are to serve, by what was heard.
  wire::Sharers fit_ones() const;
  bool all_prepared() const;
  void change();
  // What a proxy has told of, and what may have come to it besides.
  std::vector<wire::AddressPeer> all_peers(const Heard& heard) const;
  std::string names(const wire::Sharers& sharers) const;

  Loop& loop_;
  const Duration patience_;
  const std::vector<wire::ServerEntry>& members_;
  std::optional<MonoTime> heard_at_;  // the last question of any proxy; none: there was none
  MonoTime listens_since_{};          // if there was one
  bool began_ = false;                // it has listened, and current_ is what it heard
  std::map<std::uint32_t, Heard> heard_;
  wire::Sharers current_, wanted_;
  std::vector<wire::AddressPeer> left_;  // of sharers that are none any more
  MonoTime left_at_{};                   // the last of them
  std::uint64_t left_ns_ = 0;            // the same by the wall clock
  Counter& changes_;
  LogLimiter stranger_log_{1};
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_CLIENT_SHARES_H
