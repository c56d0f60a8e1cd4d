// deal_sites: which server of a class gets each site when a volume is born. A pure function.
#ifndef SLICE_ROUTING_DEAL_H
#define SLICE_ROUTING_DEAL_H

#include <cstdint>
#include <vector>

#include "wire/manager.h"

namespace slice::routing {

// By site, the index of one of `servers`, all of one class: as many for each as its weight's part of all
// weights, one at least; all alike unless each of them has a weight. Copies of what is on a site are on its
// server and on those of the sites behind it (docs/mirrors.md), so that neighbours are on distinct hosts, and
// in distinct racks, as far as their shares allow. Whose host or rack is not said has one of its own. Where
// all are distinct, and there are no weights, in turn.
std::vector<std::uint32_t> deal_sites(const std::vector<wire::ServerEntry>& servers, std::uint32_t sites);

// How many pairs of these are of one host, and how many of one rack beside that: fewer is better. Servers
// that do not say are as above.
struct Together {
  std::uint32_t hosts = 0, racks = 0;
  auto operator<=>(const Together&) const = default;
};
Together together(const std::vector<const wire::ServerEntry*>& servers);

}  // namespace slice::routing

#endif  // SLICE_ROUTING_DEAL_H
