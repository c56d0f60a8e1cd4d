#include "routing/deal.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/config.h"

namespace slice::routing {
namespace {

bool same_host(const wire::ServerEntry& a, const wire::ServerEntry& b) {
  return !a.host.empty() && a.host == b.host;
}

bool same_rack(const wire::ServerEntry& a, const wire::ServerEntry& b) {
  return !a.rack.empty() && a.rack == b.rack;
}

// How bad it is that copies of one byte are on both.
std::uint32_t harm(const wire::ServerEntry& a, const wire::ServerEntry& b) {
  if (a.server == b.server) return 16;
  return (same_host(a, b) ? 8 : 0) + (same_rack(a, b) ? 2 : 0);
}

struct Holder {
  std::uint32_t wanted = 0, given = 0;
  // Where its next site would be, of all, if its sites were spread evenly.
  double next() const { return (given + 0.5) / wanted; }
};

// Whole numbers nearest to the parts, the largest remainders first, and of equal ones that of the host which
// has least; one at least where there are enough.
std::vector<Holder> shares(const std::vector<wire::ServerEntry>& servers, std::uint32_t sites) {
  const bool weighed = std::all_of(servers.begin(), servers.end(),
                                   [](const wire::ServerEntry& each) { return each.weight > 0; });
  auto weight = [&](const wire::ServerEntry& each) {
    return weighed ? static_cast<double>(each.weight) : 1.0;
  };
  double total = 0;
  for (const wire::ServerEntry& each : servers) total += weight(each);
  std::vector<Holder> holders(servers.size());
  std::vector<double> rests(servers.size());
  // By host: how many its servers have together.
  std::map<std::string, std::uint32_t> named;
  std::vector<std::uint32_t> of_one(servers.size());
  std::vector<std::uint32_t*> of_host(servers.size());
  std::uint32_t given = 0;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const double part = sites * weight(servers[i]) / total;
    holders[i].wanted = static_cast<std::uint32_t>(part);
    rests[i] = part - holders[i].wanted;
    of_host[i] = servers[i].host.empty() ? &of_one[i] : &named[servers[i].host];
    *of_host[i] += holders[i].wanted;
    given += holders[i].wanted;
  }
  for (; given < sites; ++given) {
    std::size_t next = 0;
    for (std::size_t i = 1; i < servers.size(); ++i) {
      const bool less = rests[i] == rests[next] && *of_host[i] < *of_host[next];
      if (rests[i] > rests[next] || less) next = i;
    }
    ++holders[next].wanted;
    ++*of_host[next];
    rests[next] -= 1;
  }
  if (sites < servers.size()) return holders;
  for (Holder& each : holders) {
    if (each.wanted > 0) continue;
    auto most = std::max_element(holders.begin(), holders.end(),
                                 [](const Holder& a, const Holder& b) { return a.wanted < b.wanted; });
    --most->wanted;
    ++each.wanted;
  }
  return holders;
}

}  // namespace

Together together(const std::vector<const wire::ServerEntry*>& servers) {
  Together pairs;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      pairs.hosts += same_host(*servers[i], *servers[j]) ? 1 : 0;
      pairs.racks += same_rack(*servers[i], *servers[j]) ? 1 : 0;
    }
  }
  return pairs;
}

std::vector<std::uint32_t> deal_sites(const std::vector<wire::ServerEntry>& servers, std::uint32_t sites) {
  std::vector<Holder> holders = shares(servers, sites);
  std::vector<std::size_t> dealt;
  std::vector<std::uint32_t> owners;
  while (owners.size() < sites) {
    // Of all that have less than their share: who fits best behind the last ones, and of those who is due.
    std::size_t best = servers.size();
    std::uint32_t least_harm = 0;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (holders[i].given == holders[i].wanted) continue;
      std::uint32_t harms = 0;
      for (std::size_t back = 1; back < kMaxCopies && back <= dealt.size(); ++back) {
        const auto nearer = static_cast<std::uint32_t>(kMaxCopies - back);
        harms += nearer * harm(servers[i], servers[dealt[dealt.size() - back]]);
      }
      const bool better = best == servers.size() || harms < least_harm ||
                          (harms == least_harm && holders[i].next() < holders[best].next());
      if (!better) continue;
      best = i;
      least_harm = harms;
    }
    ++holders[best].given;
    dealt.push_back(best);
    owners.push_back(servers[best].server);
  }
  return owners;
}

}  // namespace slice::routing
