// splitmix64's finaliser: spreads a number over all 64 bits (S. Vigna). What it makes is in files: it stays
// as it is.
#ifndef SLICE_STORAGE_MIX_H
#define SLICE_STORAGE_MIX_H

#include <cstdint>

namespace slice::storage {

constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace slice::storage

#endif  // SLICE_STORAGE_MIX_H
