// ROUTES, a program of slice-proxyd beside MOUNT: what a proxy on a client's own host needs in order to send
// each request to its server by itself (docs/client-proxy.md). For every client that an export names: it is
// what clients see of the ensemble anyway, and has no secrets.
#ifndef SLICE_WIRE_ROUTES_H
#define SLICE_WIRE_ROUTES_H

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "rpc/endpoint.h"
#include "rpc/xdr.h"
#include "wire/internal.h"
#include "wire/manager.h"

namespace slice::wire {

enum class RoutesProcedure : std::uint32_t { kNull = 0, kGet = 1 };

struct RoutesArgs {
  Generation known;  // of the tables that the caller has; 0: none
};

inline constexpr std::uint32_t kUnbound = ~std::uint32_t{0};

// What of the routing core's configuration is no secret, and the tables. Numbers as bpf/shared/map_abi.h has
// them.
struct Routes {
  Generation generation;
  bool changed = false;  // since the generation that was asked about; if not, nothing follows
  std::uint32_t volume = 0;
  std::uint32_t policy = 0;     // enum slice_policy
  std::uint32_t name_hash = 0;  // enum slice_name_hash_kind; the key of a keyed one is not told
  bool maps = false;            // SLICE_CONFIG_MAPS
  std::uint64_t threshold = 0;  // bytes
  std::uint64_t mkdir_limit = 0;
  std::vector<rpc::Endpoint> servers;              // by number; port 0: there is none
  std::vector<std::uint32_t> sites[kSiteClasses];  // numbers of servers, or kUnbound; of each class 2^n
};

void encode(rpc::XdrWriter& out, const RoutesArgs& args);
bool decode(ByteView bytes, RoutesArgs& out);
void encode(rpc::XdrWriter& out, const Routes& routes);
// False also where a site is bound to a number that no server has, or the sites of a class are not 2^n.
bool decode(ByteView bytes, Routes& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_ROUTES_H
