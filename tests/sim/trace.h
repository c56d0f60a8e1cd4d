// Trace: what happened in a simulation, in order: a running checksum of it, so that two runs of one seed can
// be compared, and the lines themselves where somebody wants to read them.
#ifndef SLICE_TESTS_SIM_TRACE_H
#define SLICE_TESTS_SIM_TRACE_H

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/loop.h"
#include "tests/sim/random.h"

namespace slice::sim {

class Trace {
 public:
  using Print = std::function<void(std::string_view line)>;
  explicit Trace(const Loop& loop, Print print = nullptr) : loop_(loop), print_(std::move(print)) {}

  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    std::string line =
        fmt::format("{:10.3f} ms  ", static_cast<double>(loop_.now().time_since_epoch().count()) / 1e6);
    fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
    checksum_ = mix_text(line, checksum_);
    if (print_) print_(line);
  }
  std::uint64_t checksum() const { return checksum_; }

 private:
  const Loop& loop_;
  Print print_;
  std::uint64_t checksum_ = 1;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_TRACE_H
