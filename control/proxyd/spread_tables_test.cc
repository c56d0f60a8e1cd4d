#include "control/proxyd/spread_tables.h"

#include <gtest/gtest.h>

#include "routing/client_slots.h"

namespace slice::proxy {
namespace {

using routing::ClientSlots;

wire::Sharers sharers(std::initializer_list<std::uint32_t> servers) {
  wire::Sharers made;
  for (std::uint32_t server : servers)
    made.push_back({server, {2, 0, 0, 0, 0, static_cast<std::uint8_t>(server)}});
  return made;
}

class SpreadTablesTest : public ::testing::Test {
 protected:
  SpreadTablesTest() {
    tables_.spread = slots_.data();
    tables_.ways = ways_.data();
  }
  void bind(const wire::Sharers& sharers) {
    const ClientSlots slots(sharers);
    spread_.bind(tables_, sharers, 1, 7, {0xfe, 0, 0, 0, 0, 1},
                 [&](std::uint32_t slot) { return slots.of_slot(slot); });
  }
  // The last byte of the hardware address where the slot's packets go; 0: they stay.
  int goes_to(std::uint32_t slot) const {
    return slots_[slot] == 0 ? 0 : ways_[slots_[slot]].next_hop_mac[5];
  }

  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(SLICE_CLIENT_SLOTS);
  std::vector<slice_way> ways_ = std::vector<slice_way>(SLICE_MAX_SPREAD);
  Tables tables_;
  SpreadTables spread_;
};

TEST_F(SpreadTablesTest, OthersClientsGoToThemAndOnesOwnStay) {
  const wire::Sharers three = sharers({1, 2, 900});
  bind(three);
  const ClientSlots slots(three);
  for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) {
    const std::uint32_t owner = slots.of_slot(slot);
    ASSERT_EQ(goes_to(slot), owner == 1 ? 0 : static_cast<std::uint8_t>(owner)) << slot;
    if (owner == 1) continue;
    ASSERT_EQ(ways_[slots_[slot]].ifindex, 7u);
    ASSERT_EQ(ways_[slots_[slot]].source_mac[0], 0xfe);
  }
}

TEST_F(SpreadTablesTest, KeysOfThoseWhoStayStay) {
  bind(sharers({1, 2, 3, 4}));
  const ClientSlots before(sharers({1, 2, 3, 4}));
  const std::vector<std::uint64_t> keys = slots_;
  bind(sharers({1, 3, 4}));
  for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) {
    if (before.of_slot(slot) != 2) EXPECT_EQ(slots_[slot], keys[slot]) << slot;
  }
  bind({});
  for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) ASSERT_EQ(slots_[slot], 0u);
  for (const slice_way& way : ways_) EXPECT_EQ(way.ifindex, 0u) << "nothing leads anywhere";
}

TEST_F(SpreadTablesTest, AsManyAsFitManyTimesOver) {
  for (std::uint32_t round = 0; round < 20; ++round) {
    wire::Sharers many{{.server = 1}};
    for (std::uint32_t i = 0; i < 62; ++i) many.push_back({2 + round * 62 + i, {2, 0, 0, 0, 0, 9}});
    bind(many);
    bind(many);  // keys of those before are free by now
    std::size_t stay = 0;
    for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) stay += goes_to(slot) == 0 ? 1 : 0;
    EXPECT_EQ(stay, ClientSlots(many).count(1)) << round;
  }
}

}  // namespace
}  // namespace slice::proxy
