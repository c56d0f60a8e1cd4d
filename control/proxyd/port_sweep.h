// PortSweep: the ports from which clients of the holder before may have connected without its knowledge
// (docs/proxy.md, "Several proxies"): a client that lost its connection to a proxy that was killed may take
// another port for the next, and reach the sockets that the guard keeps, where nobody ever reads. Which port
// nobody can know, but it is a reserved one where the client had such a one before. One thread.
#ifndef SLICE_CONTROL_PROXYD_PORT_SWEEP_H
#define SLICE_CONTROL_PROXYD_PORT_SWEEP_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "wire/address.h"

namespace slice::proxy {

class PortSweep {
 public:
  // Linux's for NFS: sunrpc.min_resvport and max_resvport, where an administrator did not set them.
  static constexpr std::uint16_t kFirst = 665, kLast = 1023;
  static constexpr std::size_t kMaxClients = 256;

  // `known`: connections that the holder before told of, in any order. Who came from a port that is not
  // reserved takes any such port again: too many to try.
  explicit PortSweep(const std::vector<wire::AddressPeer>& known);
  // At most `most` more, those known left out; none at the end of a round, after which the next one begins.
  // Port by port, so that no client gets many at once beside others.
  std::vector<wire::AddressPeer> next(std::size_t most);
  // A client that calls two ports counts as two.
  std::size_t clients() const { return clients_.size(); }
  // More than kMaxClients.
  std::size_t left_out() const { return left_out_; }

 private:
  std::vector<std::pair<IpAddress, std::uint16_t>> clients_;  // address, and the port that it called
  std::vector<wire::AddressPeer> known_;                          // in order
  std::size_t left_out_ = 0, turn_ = 0;                           // turn_: port by port, of each all clients
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_PORT_SWEEP_H
