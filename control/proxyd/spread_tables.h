// SpreadTables: the tables by which the kernel sends clients' packets on to other proxies
// (bpf/proxy/spread.h).
#ifndef SLICE_CONTROL_PROXYD_SPREAD_TABLES_H
#define SLICE_CONTROL_PROXYD_SPREAD_TABLES_H

#include <array>
#include <cstdint>
#include <functional>

#include "proxy/tables/tables.h"
#include "wire/share.h"

namespace slice::proxy {

class SpreadTables {
 public:
  // Brings the tables to what `owner` says of each slot: `self` or kNoServer: it stays here. `sharers` are
  // those whom it names; `interface` and `hardware` are this host's. Where there is no program: nothing.
  void bind(const Tables& tables, const wire::Sharers& sharers, std::uint32_t self, unsigned interface,
            const std::array<std::uint8_t, 6>& hardware,
            const std::function<std::uint32_t(std::uint32_t slot)>& owner);

 private:
  // Keys of `ways`, which a proxy keeps for as long as it is a sharer.
  std::uint32_t keys_[SLICE_MAX_SPREAD]{};  // the server's number + 1; 0: free
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_SPREAD_TABLES_H
