// SiteGate: what a switch of sites between servers needs of the requests under way: those of the sites that
// are switched are held, and those that came before are waited for (docs/moves.md). Costs a request one
// count. One loop.
#ifndef SLICE_SERVICE_SITE_GATE_H
#define SLICE_SERVICE_SITE_GATE_H

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/task.h"

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

  // A request that is under way, until its destruction.
  class [[nodiscard]] Pass {
   public:
    explicit Pass(SiteGate& gate) : gate_(&gate), phase_(gate.phase_) { ++gate.under_way_.rbegin()->second; }
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), phase_(other.phase_) {}
    Pass& operator=(Pass&&) = delete;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->leave(phase_);
    }

   private:
    SiteGate* gate_;
    std::uint64_t phase_;
  };
  // Ends when the site is not held any more, and may be entered (Pass). Whose it is may have changed then.
  // False: it is held for longer than any switch takes.
  Task<bool> released(std::uint32_t site);
  bool holds(std::uint32_t site) const { return all_ ? !held_.empty() : held_.contains(site); }

  // Requests of these sites wait from now on, until release().
  void hold(const std::vector<std::uint32_t>& sites);
  void release(const std::vector<std::uint32_t>& sites);
  // Ends when every request that had entered before has left: true; false after `patience`.
  Task<bool> drained(Duration patience);

 private:
  static constexpr Duration kPatience = std::chrono::seconds(8);

  void leave(std::uint64_t phase);
  bool any_before(std::uint64_t phase) const { return under_way_.begin()->first < phase; }
  void wake(std::vector<OneShot<bool>>& waiting);

  Loop& loop_;
  const bool all_;
  std::uint64_t phase_ = 0;
  // How many requests are under way, by phase: of earlier ones only those that have some.
  std::map<std::uint64_t, std::uint32_t> under_way_{{0, 0}};
  std::set<std::uint32_t> held_;
  std::vector<OneShot<bool>> entering_, draining_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_SITE_GATE_H
