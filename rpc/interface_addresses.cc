#include "rpc/interface_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

namespace slice::rpc {

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::copy_n(reinterpret_cast<const char*>(each->ifa_addr), sizeof address,
                reinterpret_cast<char*>(&address));
    addresses.push_back({.address = ntohl(address.sin_addr.s_addr),
                         .interface = each->ifa_name,
                         .up = (each->ifa_flags & IFF_UP) != 0,
                         .loopback = (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

}  // namespace slice::rpc
