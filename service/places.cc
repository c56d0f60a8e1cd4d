#include "service/places.h"

#include <algorithm>
#include <string>

#include "rpc/endpoint.h"
#include "rpc/interface_addresses.h"

namespace slice::service {

std::set<IpAddress> addresses_of_this_host() {
  std::set<IpAddress> addresses;
  for (const rpc::InterfaceAddress& each : rpc::interface_addresses()) addresses.insert(each.address);
  return addresses;
}

Status choose_place(ServerConfig& server, const std::set<IpAddress>& here) {
  if (server.places.size() < 2 || here.contains(server.address)) return {};
  const auto place = std::find_if(server.places.begin(), server.places.end(),
                                  [&here](IpAddress each) { return here.contains(each); });
  if (place == server.places.end()) {
    std::string places;
    for (IpAddress each : server.places)
      places += (places.empty() ? "" : ", ") + rpc::to_string({each, server.port});
    return fail(Errc::kInvalid, "server '{}' may run at {}: this host has none of these addresses",
                server.name, places);
  }
  server.address = *place;
  return {};
}

}  // namespace slice::service
