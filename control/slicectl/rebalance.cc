#include "control/slicectl/rebalance.h"

#include <algorithm>

namespace slice::slicectl {
namespace {

// How many of `sites` each server is to have: whole numbers nearest to its part, the largest remainders
// first; of equal ones the server that has more now, so that nothing moves for nothing.
std::map<std::uint32_t, std::size_t> targets(std::size_t sites, const std::vector<Share>& shares,
                                             const std::map<std::uint32_t, std::vector<std::uint32_t>>& has) {
  double total = 0;
  for (const Share& each : shares) total += static_cast<double>(each.weight);
  std::map<std::uint32_t, std::size_t> wanted;
  struct Rest {
    double rest = 0;
    std::size_t now = 0;
    std::uint32_t server = 0;
  };
  std::vector<Rest> rests;
  std::size_t given = 0;
  for (const Share& each : shares) {
    const double part = static_cast<double>(sites) * static_cast<double>(each.weight) / total;
    wanted[each.server] = static_cast<std::size_t>(part);
    given += wanted[each.server];
    auto now = has.find(each.server);
    rests.push_back({part - static_cast<double>(wanted[each.server]),
                     now == has.end() ? 0 : now->second.size(), each.server});
  }
  std::sort(rests.begin(), rests.end(), [](const Rest& a, const Rest& b) {
    if (a.rest != b.rest) return a.rest > b.rest;
    return a.now != b.now ? a.now > b.now : a.server < b.server;
  });
  for (std::size_t i = 0; given < sites; i = (i + 1) % rests.size()) {
    if (rests[i].rest <= 0) continue;  // of weight 0, or exactly its part
    ++wanted[rests[i].server];
    ++given;
  }
  return wanted;
}

}  // namespace

Result<std::vector<SitesToMove>> plan_rebalance(const std::vector<std::uint32_t>& owners,
                                                const std::vector<Share>& shares) {
  const bool some =
      std::any_of(shares.begin(), shares.end(), [](const Share& each) { return each.weight > 0; });
  if (!some) return fail(Errc::kInvalid, "no server that is alive could have the sites");
  std::map<std::uint32_t, std::vector<std::uint32_t>> has;
  std::size_t sites = 0;
  for (std::uint32_t site = 0; site < owners.size(); ++site) {
    const bool counts = std::any_of(shares.begin(), shares.end(),
                                    [&](const Share& each) { return each.server == owners[site]; });
    if (!counts) continue;
    has[owners[site]].push_back(site);
    ++sites;
  }
  const auto wanted = targets(sites, shares, has);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> free;  // site, owner
  for (const auto& [server, own] : has) {
    for (std::size_t i = wanted.at(server); i < own.size(); ++i) free.emplace_back(own[i], server);
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> moves;
  auto next = free.begin();
  for (const auto& [server, count] : wanted) {
    auto own = has.find(server);
    for (std::size_t i = own == has.end() ? 0 : own->second.size(); i < count && next != free.end();
         ++i, ++next)
      moves[{next->second, server}].push_back(next->first);
  }
  std::vector<SitesToMove> plan;
  for (auto& [way, list] : moves) {
    std::sort(list.begin(), list.end());
    plan.push_back({way.first, way.second, std::move(list)});
  }
  return plan;
}

}  // namespace slice::slicectl
