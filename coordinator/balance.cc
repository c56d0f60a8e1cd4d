#include "coordinator/balance.h"

#include <algorithm>
#include <cmath>

#include "routing/copies.h"
#include "routing/deal.h"

namespace slice::coordinator {
namespace {

routing::Together together(const Balance::Servers& copies, const routing::RoutingTables& tables) {
  std::vector<const wire::ServerEntry*> servers;
  for (std::uint32_t each : copies) {
    if (const wire::ServerEntry* server = tables.server(each)) servers.push_back(server);
  }
  return routing::together(servers);
}

}  // namespace

Balance::Balance(const std::vector<wire::ServerShare>& shares) {
  for (const wire::ServerShare& each : shares) {
    if (each.weight > 0) loads_[each.server].weight = each.weight;
  }
}

void Balance::count(const Servers& copies) {
  for (std::uint32_t server : copies) {
    if (auto load = loads_.find(server); load != loads_.end()) ++load->second.has;
  }
}

bool Balance::plan() {
  double weights = 0, all = 0;
  for (const auto& [server, load] : loads_) {
    weights += static_cast<double>(load.weight);
    all += static_cast<double>(load.has);
  }
  bool strays = false;
  for (auto& [server, load] : loads_) {
    const double share = all * static_cast<double>(load.weight) / weights;
    const double more = static_cast<double>(load.has) - share;
    strays = strays || std::abs(more) > std::max(1.0, kStray * share);
    load.gives = more > 0 ? static_cast<std::uint64_t>(std::llround(more)) : 0;
    load.takes = more < 0 ? static_cast<std::uint64_t>(std::llround(-more)) : 0;
    load.rate = load.has == 0 ? 0 : static_cast<double>(load.gives) / static_cast<double>(load.has);
  }
  return strays;
}

// As many as a server is to give, evenly over all that it has; what cannot go is made good by the next that
// can.
std::optional<Balance::Servers> Balance::instead_of(const Servers& copies,
                                                    const routing::RoutingTables& tables,
                                                    const Random& random) {
  std::optional<Servers> there;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    auto found = loads_.find(copies[i]);
    if (found == loads_.end() || found->second.has == 0) continue;
    Load& load = found->second;
    load.due += load.rate;
    if (load.due < 1 || load.gives == 0 || there) continue;
    Servers others = copies;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const auto to = taker(others, copies[i], tables, random);
    if (!to) continue;
    there = copies;
    (*there)[i] = *to;
    load.due -= 1;
    --load.gives;
    --loads_[*to].takes;
  }
  return there;
}

std::optional<std::uint32_t> Balance::taker(const Servers& others, std::uint32_t giver,
                                            const routing::RoutingTables& tables,
                                            const Random& random) const {
  auto beside = [&](std::uint32_t server) {
    Servers all = others;
    all.push_back(server);
    return together(all, tables);
  };
  const auto now = beside(giver);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> takers;
  std::uint64_t total = 0;
  for (const auto& [server, load] : loads_) {
    if (load.takes == 0 || routing::has(others, server) || now < beside(server)) continue;
    takers.emplace_back(server, load.takes);
    total += load.takes;
  }
  if (total == 0) return std::nullopt;
  std::uint64_t roll = random() % total;
  for (const auto& [server, takes] : takers) {
    if (roll < takes) return server;
    roll -= takes;
  }
  return std::nullopt;
}

std::uint64_t Balance::left() const {
  std::uint64_t all = 0;
  for (const auto& [server, load] : loads_) all += load.gives;
  return all;
}

}  // namespace slice::coordinator
