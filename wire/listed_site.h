// Listed sites: where a stripe of a file with a layout is that is on no storage site, but on servers of its
// own (docs/block-maps.md). Their numbers, in order, are the site's: so nobody needs a table to know them,
// and they stay what they are whoever comes or goes.
#ifndef SLICE_WIRE_LISTED_SITE_H
#define SLICE_WIRE_LISTED_SITE_H

#include <cstdint>
#include <vector>

#include "common/config.h"

namespace slice::wire {

// As docs/formats/block-map.md has it: the highest bit, and kMaxCopies numbers of 10 bits, the first server's
// the highest; kNoListedServer behind the last server.
inline constexpr std::uint32_t kListed = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kListedBits = 10, kNoListedServer = (1u << kListedBits) - 1;
static_assert(kMaxServers <= kNoListedServer && kMaxCopies * kListedBits < 31);

constexpr bool is_listed(std::uint32_t site) {
  return (site & kListed) != 0;
}

// Of 1 to kMaxCopies servers.
std::uint32_t listed_site(const std::vector<std::uint32_t>& servers);

// In order; none where it is no listed site.
std::vector<std::uint32_t> listed_servers(std::uint32_t site);

// Whether it can be a storage site's number, or is a listed one of one server at least, each once.
bool is_good_site(std::uint32_t site);

}  // namespace slice::wire

#endif  // SLICE_WIRE_LISTED_SITE_H
