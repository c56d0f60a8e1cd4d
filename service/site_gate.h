// SiteGate: what a switch of sites between servers needs of the requests under way: those of the sites that
// are switched are held, and those that came before are waited for (docs/moves.md). So is what a server does
// of itself for a site. Costs a request one count. One loop.
#ifndef SLICE_SERVICE_SITE_GATE_H
#define SLICE_SERVICE_SITE_GATE_H

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/task.h"
#include "common/trace.h"

namespace slice::service {

class SiteGate {
 public:
  enum class Held {
    kSites,  // a request is of one site
    kAll     // it may touch others than the one that it passes by: while any is held, so are all
  };
  explicit SiteGate(Loop& loop, Held held = Held::kSites) : loop_(loop), all_(held == Held::kAll) {}
  SiteGate(const SiteGate&) = delete;
  SiteGate& operator=(const SiteGate&) = delete;

  // A request of the site, or work for it, that is under way, until its destruction.
  class [[nodiscard]] Pass {
   public:
    Pass(SiteGate& gate, std::uint32_t site) : gate_(&gate), phase_(gate.phase_), site_(site) {
      ++gate.under_way_.rbegin()->second[site];
    }
    Pass(Pass&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), phase_(other.phase_), site_(other.site_) {}
    Pass& operator=(Pass&&) = delete;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->leave(phase_, site_);
    }

   private:
    SiteGate* gate_;
    std::uint64_t phase_;
    std::uint32_t site_;
  };
  // Ends when the site is not held any more, and may be entered (Pass). Whose it is may have changed then.
  // False: it is held for longer than any switch takes.
  Task<bool> released(std::uint32_t site);
  bool holds(std::uint32_t site) const { return all_ ? !held_.empty() : held_.contains(site); }

  // Requests of these sites wait from now on, until each hold() has had its release().
  void hold(const std::vector<std::uint32_t>& sites);
  void release(const std::vector<std::uint32_t>& sites);
  // Ends when every request of these sites that had entered before has left: true; false after `patience`.
  Task<bool> drained(std::vector<std::uint32_t> sites, Duration patience);

  // For who has entered, and would wait long: ends with `task`, or when the site is held, with nothing. Then
  // the task goes on by itself, and nobody hears of it; so it must own what it uses.
  template <class T>
  Task<std::optional<T>> unless_held(std::uint32_t site, Task<T> task) {
    if (holds(site)) co_return std::nullopt;
    OneShot<std::optional<T>> ended;
    Trace* const trace = co_await current_trace();
    Task<void> telling = tell(std::move(task), ended, trace != nullptr ? trace->shared_from_this() : nullptr);
    telling.part_of(trace);
    spawn(std::move(telling));
    co_return co_await or_held(site, ended);
  }
  // Ends after so long: true; false: the site is held.
  Task<bool> pause(std::uint32_t site, Duration duration) {
    OneShot<std::optional<bool>> ended;
    loop_.after(duration, [ended] { ended.set(true); });
    co_return (co_await or_held(site, ended)).has_value();
  }

 private:
  static constexpr Duration kPatience = std::chrono::seconds(8);

  using Counts = std::unordered_map<std::uint32_t, std::uint32_t>;  // by site

  void leave(std::uint64_t phase, std::uint32_t site);
  bool any_before(std::uint64_t phase, const std::vector<std::uint32_t>& sites) const;
  void wake(std::vector<OneShot<bool>>& waiting);
  template <class T>
  static Task<void> tell(Task<T> task, OneShot<std::optional<T>> ended, std::shared_ptr<Trace> /*kept*/) {
    ended.set(co_await std::move(task));
  }
  template <class T>
  Task<std::optional<T>> or_held(std::uint32_t site, OneShot<std::optional<T>> ended) {
    if (holds(site)) co_return std::nullopt;
    const std::uint64_t number = ++last_stop_;
    stops_.emplace(site, std::pair(number, [ended] { ended.set(std::nullopt); }));
    std::optional<T> result = co_await ended;
    auto [at, end] = stops_.equal_range(site);
    at = std::find_if(at, end, [&](const auto& each) { return each.second.first == number; });
    if (at != end) stops_.erase(at);
    co_return result;
  }

  Loop& loop_;
  const bool all_;
  std::uint64_t phase_ = 0;
  // How many requests are under way, by phase: of earlier ones only those that have some.
  std::map<std::uint64_t, Counts> under_way_{{0, {}}};
  // Who would wait long, by site, with a number each.
  std::multimap<std::uint32_t, std::pair<std::uint64_t, std::function<void()>>> stops_;
  std::uint64_t last_stop_ = 0;
  std::multiset<std::uint32_t> held_;
  std::vector<OneShot<bool>> entering_, draining_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_SITE_GATE_H
