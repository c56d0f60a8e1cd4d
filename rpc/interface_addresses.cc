#include "rpc/interface_addresses.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <memory>

#include "rpc/bound_socket.h"

namespace slice::rpc {

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    addresses.push_back({.address = endpoint_of(each->ifa_addr, size).address,
                         .interface = each->ifa_name,
                         .up = (each->ifa_flags & IFF_UP) != 0,
                         .loopback = (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

}  // namespace slice::rpc
