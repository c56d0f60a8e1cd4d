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
    load.part = static_cast<double>(load.weight) / weights;
  }
  return strays;
}

Balance::Moves Balance::moves_of(const std::vector<Servers>& stripes, const routing::RoutingTables& tables,
                                 const Random& random) {
  double copies = 0;
  for (const Servers& each : stripes) {
    for (std::uint32_t server : each) {
      auto load = loads_.find(server);
      if (load == loads_.end()) continue;
      ++copies;
      --load->second.due;
    }
  }
  for (auto& [server, load] : loads_) load.due += load.part * copies;
  Moves moves;
  for (std::size_t i = 0; i < stripes.size(); ++i) {
    const auto to = taker(stripes.size() - i, random);
    auto there = to ? with(*to, stripes[i], tables, random) : std::nullopt;
    if (!there) continue;
    for (std::size_t copy = 0; copy < there->size(); ++copy) {
      if ((*there)[copy] == stripes[i][copy]) continue;
      Load& giver = loads_[stripes[i][copy]];
      --giver.gives;
      ++giver.due;
    }
    --loads_[*to].takes;
    --loads_[*to].due;
    moves.emplace(i, std::move(*there));
  }
  return moves;
}

// Of the stripes that are left any may be the ones.
std::optional<std::uint32_t> Balance::taker(std::size_t left, const Random& random) const {
  auto roll = static_cast<double>(random() % (std::uint64_t{left} << 20)) / (1 << 20);
  for (const auto& [server, load] : loads_) {
    if (load.takes == 0 || load.due < 1) continue;
    if (roll < load.due) return server;
    roll -= load.due;
  }
  return std::nullopt;
}

std::optional<Balance::Servers> Balance::with(std::uint32_t taker, const Servers& copies,
                                              const routing::RoutingTables& tables,
                                              const Random& random) const {
  if (routing::has(copies, taker)) return std::nullopt;
  const auto now = together(copies, tables);
  std::vector<std::pair<Servers, std::uint64_t>> choices;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    auto giver = loads_.find(copies[i]);
    if (giver == loads_.end() || giver->second.gives == 0 || giver->second.due > -1) continue;
    Servers then = copies;
    then[i] = taker;
    if (now < together(then, tables)) continue;
    choices.emplace_back(std::move(then), giver->second.gives);
  }
  if (choices.empty()) return std::nullopt;
  return weighted_choice(choices, [](const auto& each) { return each.second; }, random).first;
}

std::uint64_t Balance::left() const {
  std::uint64_t all = 0;
  for (const auto& [server, load] : loads_) all += load.gives;
  return all;
}

}  // namespace slice::coordinator
