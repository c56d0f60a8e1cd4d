#include "dirserver/store/stays.h"

#include <utility>

namespace slice::dirserver {

Stay Stays::of(SiteId site) const {
  auto found = stays_.find(site.value);
  return found == stays_.end() ? Stay{} : found->second;
}

void Stays::begin(SiteId site) {
  gone_.erase(site.value);
  stays_[site.value] = Stay{++last_};
}

void Stays::end(SiteId site) {
  stays_.erase(site.value);
  gone_.insert(site.value);
  if (auto found = frozen_.find(site.value); found != frozen_.end()) open(found);
}

void Stays::thaw(SiteId site) {
  auto found = frozen_.find(site.value);
  if (found != frozen_.end() && --found->second.times == 0) open(found);
}

void Stays::open(std::map<std::uint32_t, Frozen>::iterator frozen) {
  const std::vector<OneShot<bool>> waiting = std::move(frozen->second.waiting);
  frozen_.erase(frozen);
  for (const OneShot<bool>& each : waiting) {
    loop_.post([each] { each.set(true); });
  }
}

bool Stays::closed(SiteId site) const {
  return !all_open() && (frozen_.contains(site.value) || gone_.contains(site.value));
}

bool Stays::gone(SiteId site) const {
  return !gone_.empty() && gone_.contains(site.value);
}

Task<bool> Stays::until_open(SiteId site, Stay stay) {
  for (auto found = frozen_.find(site.value); found != frozen_.end(); found = frozen_.find(site.value)) {
    OneShot<bool> thawed;
    found->second.waiting.push_back(thawed);
    co_await thawed;
  }
  co_return of(site) == stay;
}

}  // namespace slice::dirserver
