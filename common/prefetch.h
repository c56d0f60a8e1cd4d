// prefetch(): asks for the lines of memory of an object ahead of its use, so that many can come at once.
#ifndef SLICE_COMMON_PREFETCH_H
#define SLICE_COMMON_PREFETCH_H

#include <cstddef>

namespace slice {

// A hint alone; `bytes` need not be there.
inline void prefetch(const void* object, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(static_cast<const char*>(object) + at);
}

}  // namespace slice

#endif  // SLICE_COMMON_PREFETCH_H
