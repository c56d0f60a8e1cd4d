#include "service/crash_at.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "common/log.h"

namespace slice::service {
namespace {

bool in_a_name(char c) {
  return (c >= 'a' && c <= 'z') || c == '.' || c == '-';
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();  // the signal is there before kill() returns
}

}  // namespace

Result<CrashAt> parse_crash_at(std::string_view text) {
  std::size_t colon = text.find(':');
  CrashAt at{.point = std::string(text.substr(0, colon))};
  bool named = !at.point.empty() && std::all_of(at.point.begin(), at.point.end(), in_a_name);
  bool counted = true;
  if (colon != std::string_view::npos) {
    std::string_view digits = text.substr(colon + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), at.count);
    counted = error == std::errc{} && end == digits.data() + digits.size() && at.count > 0;
  }
  if (named && counted) return at;
  return fail(
      Errc::kInvalid,
      "{}='{}': wanted is the name of a crash point, as truncate.durable, or POINT:N to die when it is "
      "reached for the N-th time",
      kCrashAtVariable, text);
}

void arm(CrashPoints& points, const CrashAt& at) {
  log_warning("fault injection: {}={}:{}: this process kills itself when it reaches that crash point",
              kCrashAtVariable, at.point, at.count);
  points.set([at, reached = std::uint64_t{0}](std::string_view point) mutable {
    if (point != at.point || ++reached < at.count) return false;
    log_warning("fault injection: crash point {} is reached for time {}: SIGKILL", at.point, reached);
    die();
  });
}

}  // namespace slice::service
