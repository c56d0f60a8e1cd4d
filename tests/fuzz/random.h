// Random: a small generator whose state is one number, so that a case can be made again by its number alone.
#ifndef SLICE_TESTS_FUZZ_RANDOM_H
#define SLICE_TESTS_FUZZ_RANDOM_H

#include <cstddef>
#include <cstdint>

namespace slice::fuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // The generator of one case of a run.
  static Random of_case(std::uint64_t seed, std::uint64_t number) {
    Random mixed(seed * 0x9e3779b97f4a7c15 + number);
    mixed.next();
    return Random(mixed.next());
  }

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // 0 to limit - 1; 0 for a limit of 0.
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : next() % limit; }
  bool once_in(std::size_t n) { return below(n) == 0; }
  template <class Range>
  const auto& one_of(const Range& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

 private:
  std::uint64_t state_;
};

}  // namespace slice::fuzz

#endif  // SLICE_TESTS_FUZZ_RANDOM_H
