#include "control/proxyd/spread_tables.h"

#include <algorithm>
#include <cstring>

namespace slice::proxy {
namespace {

template <class Word>
void store(Word& at, Word value) {
  *static_cast<volatile Word*>(&at) = value;
}

}  // namespace

// A way is there before a slot leads to it, and stays until none does: first all that is there still, then
// the slots, then what is left.
void SpreadTables::bind(const Tables& tables, const wire::Sharers& sharers, std::uint32_t self,
                        unsigned interface, const std::array<std::uint8_t, 6>& hardware,
                        const std::function<std::uint32_t(std::uint32_t slot)>& owner) {
  if (tables.spread == nullptr) return;
  const auto key_of = [this](std::uint32_t server) -> std::uint32_t {
    auto* found = std::find(std::begin(keys_) + 1, std::end(keys_), server + 1);
    return found == std::end(keys_) ? 0 : static_cast<std::uint32_t>(found - keys_);
  };
  for (const wire::Sharer& each : sharers) {
    if (each.server == self) continue;
    std::uint32_t key = key_of(each.server);
    if (key == 0) {
      auto* free = std::find(std::begin(keys_) + 1, std::end(keys_), 0u);
      if (free == std::end(keys_)) continue;  // in the next round
      key = static_cast<std::uint32_t>(free - keys_);
      *free = each.server + 1;
    }
    slice_way way{};
    std::memcpy(way.next_hop_mac, each.hardware.data(), sizeof way.next_hop_mac);
    std::memcpy(way.source_mac, hardware.data(), sizeof way.source_mac);
    way.ifindex = interface;
    if (std::memcmp(&tables.ways[key], &way, sizeof way) != 0) tables.ways[key] = way;
  }
  for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) {
    const std::uint32_t server = owner(slot);
    const std::uint64_t key = server == self || server == wire::kNoServer ? 0 : key_of(server);
    if (tables.spread[slot] != key) store(tables.spread[slot], key);
  }
  for (std::uint32_t key = 1; key < SLICE_MAX_SPREAD; ++key) {
    const bool used = std::ranges::any_of(sharers, [&](const wire::Sharer& each) {
      return each.server != self && each.server + 1 == keys_[key];
    });
    if (used) continue;
    keys_[key] = 0;
    tables.ways[key] = {};
  }
}

}  // namespace slice::proxy
