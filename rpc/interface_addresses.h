// The addresses of this host, by interface. Any thread.
#ifndef SLICE_RPC_INTERFACE_ADDRESSES_H
#define SLICE_RPC_INTERFACE_ADDRESSES_H

#include <string>
#include <vector>

#include "common/ip_address.h"

namespace slice::rpc {

struct InterfaceAddress {
  IpAddress address;
  std::string interface;
  bool up = false, loopback = false;  // the interface
};

// In the system's order; none where the system does not say.
std::vector<InterfaceAddress> interface_addresses();

}  // namespace slice::rpc

#endif  // SLICE_RPC_INTERFACE_ADDRESSES_H
