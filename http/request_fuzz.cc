// Any bytes as an HTTP request, whole and cut anywhere: the same verdict, and never a crash.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using slice::http::RequestHead;
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  RequestHead whole, cut;
  whole.give(input);
  const std::size_t step = 1 + data[0];
  for (std::size_t at = 0; at < input.size(); at += step) cut.give(input.substr(at, step));
  if (whole.ended() != cut.ended() || whole.status() != cut.status() || whole.path() != cut.path())
    std::abort();
  return 0;
}
