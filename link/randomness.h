// Randomness: nonces, numbers of sessions and keys: of the system, or of a seed, so that a simulation goes
// the same way twice.
#ifndef SLICE_LINK_RANDOMNESS_H
#define SLICE_LINK_RANDOMNESS_H

#include <array>
#include <cstdint>
#include <random>

namespace slice::link {

class Randomness {
 public:
  // 0: of the system.
  explicit Randomness(std::uint64_t seed) : of_system_(seed == 0), seeded_(seed) {}

  std::uint64_t number() { return of_system_ ? system_number() : seeded_(); }
  template <std::size_t N>
  std::array<std::uint8_t, N> bytes() {
    std::array<std::uint8_t, N> out{};
    for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(number());
    return out;
  }

 private:
  static std::uint64_t system_number();

  const bool of_system_;
  std::mt19937_64 seeded_;
};

}  // namespace slice::link

#endif  // SLICE_LINK_RANDOMNESS_H
