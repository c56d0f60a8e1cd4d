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
  for (std::uint32_t site : sites) {
    for (auto found = stops_.find(site); found != stops_.end(); found = stops_.find(site)) {
      auto stop = std::move(found->second.second);
      stops_.erase(found);
      loop_.post(std::move(stop));
    }
  }
}

void SiteGate::release(const std::vector<std::uint32_t>& sites) {
  for (std::uint32_t site : sites) {
    if (auto found = held_.find(site); found != held_.end()) held_.erase(found);
  }
  wake(entering_);
}

bool SiteGate::any_before(std::uint64_t phase, const std::vector<std::uint32_t>& sites) const {
  return std::any_of(under_way_.begin(), under_way_.lower_bound(phase), [&](const auto& each) {
    if (all_) return !each.second.empty();
    return std::any_of(sites.begin(), sites.end(),
                       [&](std::uint32_t site) { return each.second.contains(site); });
  });
}

Task<bool> SiteGate::drained(std::vector<std::uint32_t> sites, Duration patience) {
  const MonoTime deadline = loop_.now() + patience;
  if (under_way_.rbegin()->second.empty()) under_way_.erase(phase_);
  const std::uint64_t phase = ++phase_;
  under_way_[phase];
  while (any_before(phase, sites)) {
    if (loop_.now() >= deadline) co_return false;
    OneShot<bool> ended;
    draining_.push_back(ended);
    loop_.after(deadline - loop_.now(), [ended] { ended.set(false); });
    co_await ended;
  }
  co_return true;
}

void SiteGate::leave(std::uint64_t phase, std::uint32_t site) {
  auto found = under_way_.find(phase);
  auto count = found->second.find(site);
  if (--count->second > 0) return;
  found->second.erase(count);
  if (phase == phase_) return;
  if (found->second.empty()) under_way_.erase(found);
  wake(draining_);
}

void SiteGate::wake(std::vector<OneShot<bool>>& waiting) {
  for (const OneShot<bool>& each : std::exchange(waiting, {})) {
    loop_.post([each] { each.set(true); });
  }
}

}  // namespace slice::service
