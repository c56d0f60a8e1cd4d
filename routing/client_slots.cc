#include "routing/client_slots.h"

#include <algorithm>

namespace slice::routing {
namespace {

std::uint64_t weight(std::uint32_t slot, std::uint32_t server) {
  return slice_mix64(std::uint64_t{server} << 32 | slot);
}

}  // namespace

ClientSlots::ClientSlots(const wire::Sharers& sharers) {
  if (sharers.empty()) return;
  owners_.reserve(SLICE_CLIENT_SLOTS);
  for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) {
    const auto heaviest = std::ranges::max_element(
        sharers, {}, [slot](const wire::Sharer& each) { return weight(slot, each.server); });
    owners_.push_back(heaviest->server);
  }
}

std::uint32_t ClientSlots::of(IpAddress client) const {
  return of_slot(slice_client_slot6(SLICE_BE64(client.high()), SLICE_BE64(client.low())));
}

std::size_t ClientSlots::count(std::uint32_t server) const {
  return static_cast<std::size_t>(std::ranges::count(owners_, server));
}

}  // namespace slice::routing
