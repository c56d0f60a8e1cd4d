// Any bytes as ensemble.toml: refused with a line, or taken; never a crash.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto config = slice::parse_ensemble({reinterpret_cast<const char*>(data), size}, "ensemble.toml");
  if (!config && !config.error().message.starts_with("ensemble.toml:")) std::abort();
  return 0;
}
