#include "rpc/refusals.h"

#include <ctime>
#include <string>
#include <string_view>

namespace slice::rpc {
namespace {

constexpr long kLinesApart = 10;  // seconds

struct Reason {
  std::string_view name, text;
};
constexpr std::array<Reason, static_cast<std::size_t>(Refused::kKinds)> kReasons{{
    {"export", "no export names it"},
    {"port", "its export is secure, and its port is not below 1024"},
    {"transport", "its export wants more of its connection (xprtsec)"},
    {"flavor", "its export wants its users to come otherwise (sec)"},
    {"read_only", "its export is read-only"},
    {"path", "there is nothing for it to mount"},
    {"handle", "no handle of this volume"},
    {"verifier", "its credential or verifier is not believed"},
    {"not_member", "not by a member of the ensemble"},
    {"session", "its session is not taken"},
    {"forged", "what came is not what a member of the ensemble sent"},
}};

const Reason& reason(Refused why) {
  return kReasons[static_cast<std::size_t>(why)];
}

long this_second() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

}  // namespace

Refusals::Refusals(Metrics& metrics) {
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    counters_[i] = &metrics.counter("access_refused_total", "what was refused for reasons of access, by why",
                                    {{"why", kReasons[i].name}});
  }
}

void Refusals::forget_old(long now) {
  std::erase_if(told_, [now](const auto& each) { return now - each.second.second >= kLinesApart; });
}

std::optional<std::uint64_t> Refusals::count(Refused why, IpAddress address) {
  counters_[static_cast<std::size_t>(why)]->add();
  const long now = this_second();
  const std::pair key{why, address};
  auto found = told_.find(key);
  if (found != told_.end() && now - found->second.second < kLinesApart) {
    ++found->second.left_out;
    return std::nullopt;
  }
  if (!limits_.allow(why)) return std::nullopt;
  std::uint64_t left_out = 0;
  if (found != told_.end()) {
    left_out = found->second.left_out;
  } else {
    if (told_.size() >= kMostAddresses) forget_old(now);
    // So many have been told of in ten seconds: no other has more than the limit of its reason.
    if (told_.size() >= kMostAddresses) return 0;
    found = told_.emplace(key, Told{}).first;
  }
  found->second = {.second = now, .left_out = 0};
  return left_out;
}

void Refusals::write(Refused why, Endpoint client, std::uint64_t left_out, const std::string& asked) {
  const std::string more =
      left_out > 0 ? fmt::format(" (and {} times more since the last line)", left_out) : "";
  log_warning("refused client={} why={}: {}; asked: {}{}", to_string(client), reason(why).name,
              reason(why).text, asked, more);
}

}  // namespace slice::rpc
