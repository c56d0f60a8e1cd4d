#include "link/randomness.h"

#include <openssl/rand.h>

#include <cstdlib>

namespace slice::link {

std::uint64_t Randomness::system_number() {
  std::array<std::uint8_t, sizeof(std::uint64_t)> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::abort();  // nothing would be safe
  std::uint64_t out = 0;
  for (const std::uint8_t byte : bytes) out = out << 8 | byte;
  return out;
}

}  // namespace slice::link
