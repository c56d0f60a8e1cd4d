// The IPv4 addresses of this host, by interface. Any thread.
#ifndef SLICE_RPC_INTERFACE_ADDRESSES_H
#define SLICE_RPC_INTERFACE_ADDRESSES_H

#include <cstdint>
#include <string>
#include <vector>

namespace slice::rpc {

struct InterfaceAddress {
  std::uint32_t address = 0;  // host byte order
  std::string interface;
  bool up = false, loopback = false;  // the interface
};

// In the system's order; none where the system does not say.
std::vector<InterfaceAddress> interface_addresses();

}  // namespace slice::rpc

#endif  // SLICE_RPC_INTERFACE_ADDRESSES_H
