// Random: the one source of chance of a simulation, the same on every machine. fork() gives a part of the
// simulation a stream of its own, so that what one part draws does not move what another draws.
#ifndef SLICE_TESTS_SIM_RANDOM_H
#define SLICE_TESTS_SIM_RANDOM_H

#include <cstdint>
#include <string_view>

#include "common/loop.h"

namespace slice::sim {

constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr std::uint64_t mix_text(std::string_view text, std::uint64_t seed) {
  for (char c : text) seed = mix(seed ^ static_cast<unsigned char>(c)) + 0x9e3779b97f4a7c15;
  return seed;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed + 0x9e3779b97f4a7c15)) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }
  Duration between(Duration least, Duration most) {
    return least +
           Duration(static_cast<std::int64_t>(below(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }
  Random fork(std::string_view what) { return Random(mix_text(what, next())); }

 private:
  std::uint64_t state_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_RANDOM_H
