#include "coordinator/placement.h"

#include <algorithm>

#include "routing/copies.h"
#include "routing/deal.h"

namespace slice::coordinator {
namespace {

struct Candidate {
  std::vector<std::uint16_t> sites;
  std::size_t next = 0;     // of them
  std::int64_t weight = 0;  // free MiB
  std::int64_t credit = 0;
};

// What speaks against a site for a file with so many copies.
struct Doubts {
  bool left = false;  // as RoutingTables::is_left()
  routing::Together together;
  auto operator<=>(const Doubts&) const = default;
};

Doubts doubts_of(const routing::RoutingTables& tables, SiteId site, std::uint32_t copies) {
  Doubts doubts{.left = tables.is_left(site, copies)};
  std::vector<const wire::ServerEntry*> servers;
  for (std::uint32_t server : tables.copies_of(site, copies)) servers.push_back(tables.server(server));
  doubts.together = routing::together(servers);
  return doubts;
}

// The sites of a server that nothing speaks more against than against its others.
std::vector<std::uint16_t> best_sites(const routing::RoutingTables& tables, std::uint32_t server,
                                      std::uint32_t copies, Doubts& least) {
  std::vector<std::uint16_t> best;
  const auto& owners = tables.layout_sites();
  for (std::uint32_t site = 0; site < owners.size(); ++site) {
    if (owners[site] != server) continue;
    const Doubts doubts = doubts_of(tables, SiteId{site}, copies);
    if (best.empty() || doubts < least) {
      best.clear();
      least = doubts;
    }
    if (doubts == least) best.push_back(static_cast<std::uint16_t>(site));
  }
  return best;
}

std::vector<Candidate> candidates(const routing::RoutingTables& tables, const std::vector<Room>& rooms,
                                  std::uint32_t copies) {
  std::vector<Candidate> used, left;
  for (const wire::ServerEntry* server : tables.servers(wire::Role::kStorage)) {
    auto room = std::find_if(rooms.begin(), rooms.end(),
                             [&](const Room& each) { return each.server == server->server; });
    Doubts doubts;
    Candidate candidate{.sites = best_sites(tables, server->server, copies, doubts)};
    if (room != rooms.end()) candidate.weight = static_cast<std::int64_t>(room->free_bytes >> 20);
    if (!candidate.sites.empty()) (doubts.left ? left : used).push_back(std::move(candidate));
  }
  return used.empty() ? left : used;
}

}  // namespace

// Smooth weighted round robin: every turn each gets its weight as credit, who has most is taken and pays what
// all got. It begins at a random place of its cycle, or the first piece of every file would begin alike.
std::vector<std::uint16_t> place_by_free_space(const routing::RoutingTables& tables,
                                               const std::vector<Room>& rooms, std::uint32_t copies,
                                               std::size_t count,
                                               const std::function<std::uint64_t()>& random) {
  std::vector<Candidate> all = candidates(tables, rooms, copies);
  std::int64_t total = 0;
  for (const Candidate& each : all) total += each.weight;
  if (total == 0) {
    for (Candidate& each : all) each.weight = 1;
    total = static_cast<std::int64_t>(all.size());
  }
  for (Candidate& each : all) {
    each.next = random() % each.sites.size();
    if (each.weight > 0)
      each.credit = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(each.weight));
  }
  std::vector<std::uint16_t> placed;
  while (placed.size() < count) {
    for (Candidate& each : all) each.credit += each.weight;
    auto most = std::max_element(all.begin(), all.end(),
                                 [](const Candidate& a, const Candidate& b) { return a.credit < b.credit; });
    most->credit -= total;
    placed.push_back(most->sites[most->next++ % most->sites.size()]);
  }
  return placed;
}

std::vector<std::uint16_t> sites_instead_of(const routing::RoutingTables& tables, SiteId site,
                                            std::uint32_t copies) {
  std::vector<std::uint16_t> best;
  std::size_t most = 0;
  const auto now = tables.copies_of(site, copies);
  for (std::uint32_t other = 0; other < tables.layout_sites().size(); ++other) {
    if (tables.is_left(SiteId{other}, copies)) continue;
    std::size_t common = 0;
    for (std::uint32_t server : tables.copies_of(SiteId{other}, copies)) common += routing::has(now, server);
    if (common > most) best.clear();
    most = std::max(most, common);
    if (common == most) best.push_back(static_cast<std::uint16_t>(other));
  }
  return best;
}

}  // namespace slice::coordinator
