#include "wire/listed_site.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "wire/codec.h"

namespace slice::wire {

std::uint32_t listed_site(const std::vector<std::uint32_t>& servers) {
  assert(!servers.empty() && servers.size() <= kMaxCopies);
  std::uint32_t numbers = 0;
  for (std::size_t i = 0; i < kMaxCopies; ++i)
    numbers = numbers << kListedBits | (i < servers.size() ? servers[i] : kNoListedServer);
  return kListed | numbers;
}

std::vector<std::uint32_t> listed_servers(std::uint32_t site) {
  std::vector<std::uint32_t> servers;
  for (std::uint32_t i = kMaxCopies; is_listed(site) && i-- > 0;) {
    const std::uint32_t server = site >> (i * kListedBits) & kNoListedServer;
    if (server == kNoListedServer) break;
    servers.push_back(server);
  }
  return servers;
}

bool is_good_site(std::uint32_t site) {
  if (!is_listed(site)) return site < kMaxSites;
  if ((site & ~kListed) >> (kMaxCopies * kListedBits) != 0) return false;
  std::array<std::uint32_t, kMaxCopies> servers{};
  for (std::uint32_t& server : servers) {
    server = site & kNoListedServer;
    site >>= kListedBits;
  }
  // The last one is the first here.
  const auto end = std::find_if(servers.begin(), servers.end(),
                                [](std::uint32_t server) { return server != kNoListedServer; });
  for (auto each = end; each != servers.end(); ++each) {
    if (*each == kNoListedServer || std::find(end, each, *each) != each) return false;
  }
  return end != servers.end();
}

}  // namespace slice::wire
