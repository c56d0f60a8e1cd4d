// ClientSlots: which of several proxies has which client: rendezvous hashing of SLICE_CLIENT_SLOTS parts of
// the clients' addresses. A proxy that goes leaves its own clients to the others and moves nobody else's, and
// one that comes takes its share from each. (Maglev's table, which is usual for this, is more even by a few
// parts in a hundred and moves some clients of proxies that had no part in a change; each move costs a client
// its connection.) By address and not by connection, so that one client's calls all go through one proxy, and
// it sees what it wrote at once (docs/proxy.md, "Attributes").
#ifndef SLICE_ROUTING_CLIENT_SLOTS_H
#define SLICE_ROUTING_CLIENT_SLOTS_H

#include <cstdint>
#include <vector>

#include "bpf/shared/map_abi.h"
#include "common/ip_address.h"
#include "wire/share.h"

namespace slice::routing {

class ClientSlots {
 public:
  explicit ClientSlots(const wire::Sharers& sharers = {});
  // Who has the clients of a slot; kNoServer: nobody has any.
  std::uint32_t of_slot(std::uint32_t slot) const {
    return owners_.empty() ? wire::kNoServer : owners_[slot];
  }
  std::uint32_t of(IpAddress client) const;
  // How many slots a proxy has.
  std::size_t count(std::uint32_t server) const;

 private:
  std::vector<std::uint32_t> owners_;  // by slot; empty: no sharers
};

}  // namespace slice::routing

#endif  // SLICE_ROUTING_CLIENT_SLOTS_H
