// How long a proxy and the manager take each other for gone: what AddressHolder and ClientShare have in
// common.
#ifndef SLICE_CONTROL_PROXYD_MANAGER_PATIENCE_H
#define SLICE_CONTROL_PROXYD_MANAGER_PATIENCE_H

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/loop.h"

namespace slice::proxy {

inline constexpr Duration kManagerRound = std::chrono::milliseconds(300);  // from one question to the next
inline constexpr Duration kManagerAnswers = std::chrono::milliseconds(500);

// As a manager has said it: within what a proxy goes along with.
inline Duration bounded_patience(std::uint32_t milliseconds) {
  return std::clamp<Duration>(std::chrono::milliseconds(milliseconds), std::chrono::milliseconds(500),
                              std::chrono::seconds(120));
}

// Seconds after which the kernel takes an address away that nobody has renewed.
inline unsigned address_life(Duration patience) {
  using namespace std::chrono_literals;
  return static_cast<unsigned>((patience + 999ms) / 1s) + 1;
}

// After so long without a manager nothing is remembered that others do not know. Data servers tell the
// authority of unstable writes within a second: what is written to them by a proxy that is silent for the
// manager must be told when the next one takes over.
inline Duration careful_after(Duration patience) {
  return std::max<Duration>(patience - std::chrono::milliseconds(1300), kManagerAnswers);
}

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_MANAGER_PATIENCE_H
