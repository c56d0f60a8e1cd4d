// AddressHost: what a proxy does to its host so that this host has the virtual address, or serves a part of
// its clients (host_address.h does it; tests have others).
#ifndef SLICE_CONTROL_PROXYD_ADDRESS_HOST_H
#define SLICE_CONTROL_PROXYD_ADDRESS_HOST_H

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/result.h"
#include "wire/address.h"

namespace slice::proxy {

class AddressHost {
 public:
  // How it is now.
  struct Look {
    bool has = false;          // on the interface
    bool at_loopback = false;  // as put_at_loopback() puts it
    std::string unfit;         // why this host could not have the address; empty: it could
    std::string unshared;      // why it could not serve a part of the clients, if it is fit; empty: it could
    unsigned interface = 0;    // its index; 0: there is none
    std::array<std::uint8_t, 6> hardware{};  // the interface's
  };
  using Keep = std::function<bool(const wire::AddressPeer&)>;
  virtual ~AddressHost() = default;
  virtual Look look() = 0;
  // Puts the address on the interface, or lets it stay for longer: the kernel takes it away after so many
  // seconds, whatever becomes of this process.
  virtual Status put(unsigned seconds) = 0;
  // What is not there is taken off.
  virtual Status take_off() = 0;
  // The same at the loopback interface: this host takes what comes to it for the address, and nobody learns
  // from ARP that it has it.
  virtual Status put_at_loopback(unsigned seconds) = 0;
  virtual Status take_off_loopback() = 0;
  // Ends TCP connections of the address that the kernel knows of, but for those that are to be kept. Their
  // other ends get a reset where this host has the address still.
  virtual void drop_connections(const Keep& keep) = 0;
  // A gratuitous ARP: the address is here.
  virtual void announce() = 0;
  // Asks who has the address, if it is not here.
  virtual void probe() = 0;
  // Clients' TCP connections to the address, in order.
  virtual std::vector<wire::AddressPeer> peers() = 0;
  // Has these clients send something on connections that they may have: what this host does not know it
  // resets.
  virtual void wake(const std::vector<wire::AddressPeer>& peers) = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_ADDRESS_HOST_H
