// How much of each simulation the tests run.
#ifndef SLICE_TESTS_SIM_SEEDS_H
#define SLICE_TESTS_SIM_SEEDS_H

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace slice::sim {

// The sanitizers make a simulation six times as long: there a part has to do. The whole is the
// release build's, by ctest (docs/testing.md).
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SLICE_SIM_PART 1
#else
#define SLICE_SIM_PART 0
#endif
constexpr bool kPart = SLICE_SIM_PART;
constexpr std::uint64_t kSeeds = kPart ? 4 : 16;  // of each ensemble
constexpr std::uint64_t kFewSeeds = kPart ? 2 : 5;
// Of what is wrong on purpose, so that it is the simulation that is looked at; that many have to notice.
constexpr std::uint64_t kWrongSeeds = kPart ? 4 : 10, kNoticed = kPart ? 1 : 4;
constexpr std::chrono::minutes kHours(kPart ? 10 : 40);
constexpr std::size_t kEachPoint = kPart ? 15 : 1;  // of the crash points, in their order, that many are one

// Of an ensemble with managers as processes: one, or three that share their state.
constexpr unsigned managers_of(std::uint64_t seed) {
  return seed % 2 == 0 ? 3 : 1;
}

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_SEEDS_H
