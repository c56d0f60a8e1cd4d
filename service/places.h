// Places: at which of the addresses where a server may run (docs/failover.md) this process is.
#ifndef SLICE_SERVICE_PLACES_H
#define SLICE_SERVICE_PLACES_H

#include <set>

#include "common/config.h"
#include "common/result.h"

namespace slice::service {

// Of all interfaces. None where the system does not say.
std::set<IpAddress> addresses_of_this_host();

// Of a server that may run in several places: its address becomes the one that this host has; where it has
// several, the one that it is served at as far as is known, else the first of its list. kInvalid: this host
// has none of them. Servers of one place are left as they are.
Status choose_place(ServerConfig& server, const std::set<IpAddress>& here);

}  // namespace slice::service

#endif  // SLICE_SERVICE_PLACES_H
