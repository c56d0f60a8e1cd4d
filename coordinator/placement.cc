#include "coordinator/placement.h"

#include <algorithm>

namespace slice::coordinator {
namespace {

struct Candidate {
  std::vector<std::uint16_t> sites;
  std::size_t next = 0;     // of them
  std::int64_t weight = 0;  // free MiB
  std::int64_t credit = 0;
};

std::vector<Candidate> candidates(const routing::RoutingTables& tables, const std::vector<Room>& rooms) {
  std::vector<Candidate> all;
  const auto& sites = tables.layout_sites();
  for (const wire::ServerEntry* server : tables.servers(wire::Role::kStorage)) {
    auto room = std::find_if(rooms.begin(), rooms.end(),
                             [&](const Room& each) { return each.server == server->server; });
    Candidate candidate;
    if (room != rooms.end()) candidate.weight = static_cast<std::int64_t>(room->free_bytes >> 20);
    for (std::size_t site = 0; site < sites.size(); ++site) {
      if (sites[site] == server->server) candidate.sites.push_back(static_cast<std::uint16_t>(site));
    }
    if (!candidate.sites.empty()) all.push_back(std::move(candidate));
  }
  return all;
}

}  // namespace

// Smooth weighted round robin: every turn each gets its weight as credit, who has most is taken and pays what
// all got. It begins at a random place of its cycle, or the first piece of every file would begin alike.
std::vector<std::uint16_t> place_by_free_space(const routing::RoutingTables& tables,
                                               const std::vector<Room>& rooms, std::size_t count,
                                               const std::function<std::uint64_t()>& random) {
  std::vector<Candidate> all = candidates(tables, rooms);
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

}  // namespace slice::coordinator
