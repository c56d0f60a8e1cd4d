#include "service/site_gate.h"

namespace slice::service {

Task<bool> SiteGate::released(std::uint32_t site) {
  const MonoTime deadline = loop_.now() + kPatience;
  while (holds(site)) {
    if (loop_.now() >= deadline) co_return false;
    OneShot<bool> released;
    entering_.push_back(released);
    loop_.after(deadline - loop_.now(), [released] { released.set(false); });
    co_await released;
  }
  co_return true;
}

void SiteGate::hold(const std::vector<std::uint32_t>& sites) {
  held_.insert(sites.begin(), sites.end());
}

void SiteGate::release(const std::vector<std::uint32_t>& sites) {
  for (std::uint32_t site : sites) held_.erase(site);
  wake(entering_);
}

Task<bool> SiteGate::drained(Duration patience) {
  const MonoTime deadline = loop_.now() + patience;
  if (under_way_.rbegin()->second == 0) under_way_.erase(phase_);
  const std::uint64_t phase = ++phase_;
  under_way_[phase] = 0;
  while (any_before(phase)) {
    if (loop_.now() >= deadline) co_return false;
    OneShot<bool> ended;
    draining_.push_back(ended);
    loop_.after(deadline - loop_.now(), [ended] { ended.set(false); });
    co_await ended;
  }
  co_return true;
}

void SiteGate::leave(std::uint64_t phase) {
  auto found = under_way_.find(phase);
  if (--found->second > 0 || phase == phase_) return;
  under_way_.erase(found);
  wake(draining_);
}

void SiteGate::wake(std::vector<OneShot<bool>>& waiting) {
  for (const OneShot<bool>& each : std::exchange(waiting, {})) {
    loop_.post([each] { each.set(true); });
  }
}

}  // namespace slice::service
