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

void Balance::count(const Stripe& stripe) {
  largest_ = std::max(largest_, stripe.bytes);
  for (std::uint32_t server : stripe.copies) {
    if (auto load = loads_.find(server); load != loads_.end()) load->second.has += stripe.bytes;
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
    strays = strays || std::abs(more) > std::max(static_cast<double>(largest_), kStray * share);
    load.gives = more > 0 ? static_cast<std::uint64_t>(std::llround(more)) : 0;
    load.takes = more < 0 ? static_cast<std::uint64_t>(std::llround(-more)) : 0;
    load.part = static_cast<double>(load.weight) / weights;
  }
  return strays;
}

Balance::Moves Balance::moves_of(const std::vector<Stripe>& stripes, const routing::RoutingTables& tables,
                                 const Random& random) {
  double bytes = 0;
  std::uint64_t left = 0;
  for (const Stripe& each : stripes) {
    left += each.bytes;
    for (std::uint32_t server : each.copies) {
      auto load = loads_.find(server);
      if (load == loads_.end()) continue;
      bytes += static_cast<double>(each.bytes);
      load->second.due -= static_cast<double>(each.bytes);
    }
  }
  for (auto& [server, load] : loads_) load.due += load.part * bytes;
  Moves moves;
  for (std::size_t i = 0; i < stripes.size(); ++i) {
    const std::uint64_t size = stripes[i].bytes;
    const auto to = taker(size, left, random);
    left -= size;
    auto there = to ? with(*to, stripes[i], tables, random) : std::nullopt;
    if (!there) continue;
    for (std::size_t copy = 0; copy < there->size(); ++copy) {
      if ((*there)[copy] == stripes[i].copies[copy]) continue;
      Load& giver = loads_[stripes[i].copies[copy]];
      giver.gives -= std::min(giver.gives, size);
      giver.due += static_cast<double>(size);
    }
    Load& taking = loads_[*to];
    taking.takes -= std::min(taking.takes, size);
    taking.due -= static_cast<double>(size);
    moves.emplace(i, std::move(*there));
  }
  return moves;
}

// Of the stripes that are left any may be the ones. What is lacking is made up to half a stripe.
std::optional<std::uint32_t> Balance::taker(std::uint64_t bytes, std::uint64_t left,
                                            const Random& random) const {
  if (bytes == 0) return std::nullopt;
  auto roll = static_cast<double>(left) * static_cast<double>(random() >> 11) * 0x1p-53;
  for (const auto& [server, load] : loads_) {
    if (load.takes < bytes - bytes / 2 || load.due < static_cast<double>(bytes)) continue;
    if (roll < load.due) return server;
    roll -= load.due;
  }
  return std::nullopt;
}

std::optional<Balance::Servers> Balance::with(std::uint32_t taker, const Stripe& stripe,
                                              const routing::RoutingTables& tables,
                                              const Random& random) const {
  if (routing::has(stripe.copies, taker)) return std::nullopt;
  const auto now = together(stripe.copies, tables);
  std::vector<std::pair<Servers, std::uint64_t>> choices;
  for (std::size_t i = 0; i < stripe.copies.size(); ++i) {
    auto giver = loads_.find(stripe.copies[i]);
    if (giver == loads_.end() || giver->second.gives < stripe.bytes - stripe.bytes / 2 ||
        giver->second.due > -static_cast<double>(stripe.bytes))
      continue;
    Servers then = stripe.copies;
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
