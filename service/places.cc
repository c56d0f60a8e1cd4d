#include "service/places.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <string>

#include "rpc/endpoint.h"

namespace slice::service {

std::set<std::uint32_t> addresses_of_this_host() {
  std::set<std::uint32_t> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::copy_n(reinterpret_cast<const char*>(each->ifa_addr), sizeof address,
                reinterpret_cast<char*>(&address));
    addresses.insert(ntohl(address.sin_addr.s_addr));
  }
  return addresses;
}

Status choose_place(ServerConfig& server, const std::set<std::uint32_t>& here) {
  if (server.places.size() < 2 || here.contains(server.address)) return {};
  const auto place = std::find_if(server.places.begin(), server.places.end(),
                                  [&here](std::uint32_t each) { return here.contains(each); });
  if (place == server.places.end()) {
    std::string places;
    for (std::uint32_t each : server.places)
      places += (places.empty() ? "" : ", ") + rpc::to_string({each, server.port});
    return fail(Errc::kInvalid, "server '{}' may run at {}: this host has none of these addresses",
                server.name, places);
  }
  server.address = *place;
  return {};
}

}  // namespace slice::service
