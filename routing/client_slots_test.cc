#include "routing/client_slots.h"

#include <gtest/gtest.h>

namespace slice::routing {
namespace {

wire::Sharers sharers(std::initializer_list<std::uint32_t> servers) {
  wire::Sharers made;
  for (std::uint32_t server : servers)
    made.push_back({server, {2, 0, 0, 0, 0, static_cast<std::uint8_t>(server)}});
  return made;
}

TEST(ClientSlots, DividesClientsEvenly) {
  for (std::uint32_t count = 2; count <= 8; ++count) {
    wire::Sharers some;
    for (std::uint32_t i = 0; i < count; ++i) some.push_back({.server = 3 + 5 * i});
    const ClientSlots slots(some);
    for (const wire::Sharer& each : some)
      EXPECT_NEAR(static_cast<double>(slots.count(each.server)) * count / SLICE_CLIENT_SLOTS, 1, 0.15)
          << count;
  }
}

TEST(ClientSlots, NeighboursGoToDifferentProxies) {
  const ClientSlots slots(sharers({1, 2, 3, 4}));
  std::size_t of_first = 0;
  for (std::uint32_t host = 1; host <= 200; ++host) of_first += slots.of(0x0a4d0100 + host) == 1 ? 1 : 0;
  EXPECT_GT(of_first, 30u);
  EXPECT_LT(of_first, 70u);
}

TEST(ClientSlots, AProxyThatGoesOrComesMovesNobodyElsesClients) {
  const ClientSlots all(sharers({1, 2, 3, 4})), without(sharers({1, 2, 4}));
  for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) {
    if (all.of_slot(slot) != 3) EXPECT_EQ(without.of_slot(slot), all.of_slot(slot)) << slot;
    if (all.of_slot(slot) == 3) EXPECT_NE(without.of_slot(slot), 3u) << slot;
  }
}

TEST(ClientSlots, WithoutSharersNobodyHasClients) {
  EXPECT_EQ(ClientSlots().of(0x0a4d0102), wire::kNoServer);
  EXPECT_EQ(ClientSlots().count(1), 0u);
}

}  // namespace
}  // namespace slice::routing
