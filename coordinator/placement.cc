#include "coordinator/placement.h"

#include <algorithm>
#include <tuple>

#include "routing/deal.h"
#include "wire/listed_site.h"

namespace slice::coordinator {
namespace {

std::uint32_t listed(const std::vector<const wire::ServerEntry*>& servers) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(servers.size());
  for (const wire::ServerEntry* each : servers) numbers.push_back(each->server);
  return wire::listed_site(numbers);
}

}  // namespace

Placement::Placement(const routing::RoutingTables& tables, const std::vector<Room>& rooms,
                     std::uint32_t copies, const Random& random)
    : tables_(tables), copies_(copies), random_(random) {
  std::int64_t total = 0;
  for (std::uint32_t server : tables.layout_servers()) {
    auto room =
        std::find_if(rooms.begin(), rooms.end(), [&](const Room& each) { return each.server == server; });
    const auto weight = room == rooms.end() ? 0 : static_cast<std::int64_t>(room->free_bytes >> 20);
    candidates_.push_back({.server = tables.server(server), .weight = weight});
  }
  const auto in_use = std::count_if(candidates_.begin(), candidates_.end(),
                                    [](const Candidate& each) { return !each.server->drained; });
  enough_ = in_use >= static_cast<std::ptrdiff_t>(copies);
  if (enough_) std::erase_if(candidates_, [](const Candidate& each) { return each.server->drained; });
  for (const Candidate& each : candidates_) total += each.weight;
  for (Candidate& each : candidates_) each.weight = total == 0 ? 1 : each.weight;
}

std::vector<const Placement::Candidate*> Placement::best_beside(const Servers& chosen) const {
  using Doubts = std::tuple<bool, routing::Together>;  // without space; beside others of one host or rack
  std::vector<const Candidate*> best;
  Doubts least;
  for (const Candidate& each : candidates_) {
    if (std::find(chosen.begin(), chosen.end(), each.server) != chosen.end()) continue;
    Servers beside = chosen;
    beside.push_back(each.server);
    const Doubts doubts{each.weight == 0, routing::together(beside)};
    if (best.empty() || doubts < least) {
      best.clear();
      least = doubts;
    }
    if (doubts == least) best.push_back(&each);
  }
  return best;
}

// Smooth weighted round robin: every turn each gets its weight as credit for each copy, who has most is taken
// and pays what all got for one. It begins at a random place of its cycle, or the first piece of every file
// would begin alike.
std::vector<std::uint32_t> Placement::sites(std::size_t count) {
  std::int64_t total = 0;
  for (Candidate& each : candidates_) {
    total += each.weight;
    each.credit =
        each.weight == 0
            ? 0
            : static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(each.weight * copies_));
  }
  std::vector<std::uint32_t> placed;
  while (placed.size() < count) {
    for (Candidate& each : candidates_) each.credit += each.weight * copies_;
    Servers chosen;
    while (chosen.size() < std::min<std::size_t>(copies_, candidates_.size())) {
      const auto best = best_beside(chosen);
      const Candidate* most =
          *std::max_element(best.begin(), best.end(),
                            [](const Candidate* a, const Candidate* b) { return a->credit < b->credit; });
      candidates_[static_cast<std::size_t>(most - candidates_.data())].credit -= total;
      chosen.push_back(most->server);
    }
    // Servers that are alike would come in the same order each time, and the first copy has more to do.
    const auto first = random_() % chosen.size();
    std::rotate(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(first), chosen.end());
    placed.push_back(listed(chosen));
  }
  return placed;
}

std::optional<std::uint32_t> Placement::instead_of(SiteId site) const {
  if (!enough_) return std::nullopt;
  Servers chosen;
  for (std::uint32_t number : tables_.copies_of(site, copies_)) {
    const wire::ServerEntry* server = tables_.server(number);
    if (server != nullptr && server->role == wire::Role::kStorage && !server->drained)
      chosen.push_back(server);
  }
  auto weight_of = [](const Candidate* each) { return static_cast<std::uint64_t>(each->weight); };
  while (chosen.size() < copies_)
    chosen.push_back(weighted_choice(best_beside(chosen), weight_of, random_)->server);
  return listed(chosen);
}

}  // namespace slice::coordinator
