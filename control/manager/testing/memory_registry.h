// MemoryRegistry: the registry in memory, for tests and simulation: several managers of one process share a
// MemoryRegistry::Shared, each through a MemoryRegistry of its own, whose way to it can be made to fail. What
// a manager has asked for is done whether it still lives then or not.
#ifndef SLICE_CONTROL_MANAGER_TESTING_MEMORY_REGISTRY_H
#define SLICE_CONTROL_MANAGER_TESTING_MEMORY_REGISTRY_H

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/manager/registry.h"

namespace slice::manager::testing {

class MemoryRegistry : public Registry {
 public:
  static constexpr Duration kTime = std::chrono::milliseconds(2);       // of a request
  static constexpr Duration kTimeout = std::chrono::milliseconds(500);  // of one without an answer
  static constexpr Duration kLateBy = std::chrono::milliseconds(300);   // after its time-out

  // What becomes of a request.
  enum class Fault {
    kNone,
    kLost,        // it is not done, and there is no answer
    kUnanswered,  // it is done
    kLate         // it is done when nobody waits for the answer any more
  };

  // What they share. Outlives them and what is under way.
  struct Shared {
    explicit Shared(Loop& its_loop) : loop(its_loop) {}
    // Of now: leases that are over are taken away.
    const LeaderEntry& leads() {
      std::erase_if(leases, [this](const auto& each) { return each.second.second <= loop.now(); });
      if (leader.since != 0 && !leases.contains(leader.lease)) leader = {};
      return leader;
    }
    Loop& loop;
    bool forgets_who_leads = false;  // broken on purpose: whoever stands leads, and writes as he likes
    Revision revision = 0;
    std::uint64_t next_lease = 1;
    std::map<std::uint64_t, std::pair<Duration, MonoTime>> leases;  // time, and when it is over
    LeaderEntry leader;
    std::map<std::string, std::pair<std::string, Revision>> names;
  };
  // `own`: the manager's loop, which outlives this and what is under way.
  MemoryRegistry(Shared& shared, Loop& own) : shared_(shared), own_(own) {}
  explicit MemoryRegistry(Shared& shared) : MemoryRegistry(shared, shared.loop) {}

  bool silent = false;          // every request is lost
  std::deque<Fault> faults;     // of the next requests
  std::function<Fault()> draw;  // of those behind them; null: there are none
  std::size_t requests = 0;

  Task<Result<Lease>> grant(Duration time) override {
    return request<Lease>([time](Shared& shared) -> Result<Lease> {
      const Lease lease{.id = shared.next_lease++, .time = time};
      shared.leases[lease.id] = {time, shared.loop.now() + time};
      return lease;
    });
  }
  Task<Status> keep(std::uint64_t lease) override {
    auto kept = co_await request<bool>([lease](Shared& shared) -> Result<bool> {
      (void)shared.leads();
      auto found = shared.leases.find(lease);
      if (found == shared.leases.end()) return fail(Errc::kNotFound, "lease {} is over", lease);
      found->second.second = shared.loop.now() + found->second.first;
      return true;
    });
    if (!kept) co_return fail(std::move(kept).error());
    co_return Status{};
  }
  Task<Status> revoke(std::uint64_t lease) override {
    auto done = co_await request<bool>(
        [lease](Shared& shared) -> Result<bool> { return shared.leases.erase(lease) > 0; });
    if (!done) co_return fail(std::move(done).error());
    co_return Status{};
  }
  Task<Result<LeaderEntry>> leader() override {
    return request<LeaderEntry>([](Shared& shared) -> Result<LeaderEntry> { return shared.leads(); });
  }
  Task<Result<LeaderEntry>> stand(std::string holder, std::uint64_t lease) override {
    return request<LeaderEntry>([holder = std::move(holder), lease](Shared& shared) -> Result<LeaderEntry> {
      if (shared.leads().since != 0 && !shared.forgets_who_leads) return shared.leader;
      if (!shared.leases.contains(lease)) return fail(Errc::kNotFound, "lease {} is over", lease);
      shared.leader = {.holder = holder, .since = ++shared.revision, .lease = lease};
      return shared.leader;
    });
  }
  Task<Result<Stored>> read(std::string name) override {
    return request<Stored>(
        [name = std::move(name)](Shared& shared) -> Result<Stored> { return stored(shared, name); });
  }
  Task<Result<WriteResult>> write(std::string name, ByteView contents, Revision revision,
                                  Revision leader) override {
    return request<WriteResult>([name = std::move(name), text = std::string(as_text(contents)), revision,
                                 leader](Shared& shared) -> Result<WriteResult> {
      WriteResult result{.now = stored(shared, name), .leader = shared.leads()};
      const bool fits = result.now.revision == revision && result.leader.since == leader;
      if (!fits && !shared.forgets_who_leads) return result;
      shared.names[name] = {text, ++shared.revision};
      return WriteResult{.written = true, .now = {.contents = {}, .revision = shared.revision}};
    });
  }
  std::vector<wire::StorePlace> places() const override {
    return {{.place = "memory", .trouble = silent ? "silent" : ""}};
  }

 private:
  Fault next() {
    ++requests;
    if (silent) return Fault::kLost;
    if (faults.empty()) return draw ? draw() : Fault::kNone;
    const Fault fault = faults.front();
    faults.pop_front();
    return fault;
  }
  static Stored stored(Shared& shared, const std::string& name) {
    auto found = shared.names.find(name);
    if (found == shared.names.end()) return {};
    return {.contents = Buffer(as_bytes(found->second.first)), .revision = found->second.second};
  }
  template <class R>
  Task<Result<R>> request(std::function<Result<R>(Shared&)> act) {
    return request<R>(shared_, own_, next(), std::move(act));
  }
  template <class R>
  static Task<Result<R>> request(Shared& shared, Loop& own, Fault fault,
                                 std::function<Result<R>(Shared&)> act) {
    const OneShot<Result<R>> answer;
    if (fault != Fault::kLost) {
      const Duration time = fault == Fault::kLate ? kTimeout + kLateBy : kTime;
      shared.loop.after(time, [&shared, &own, fault, act = std::move(act), answer] {
        auto result = std::make_shared<Result<R>>(act(shared));
        if (fault == Fault::kNone) own.post([answer, result] { answer.set(std::move(*result)); });
      });
    }
    const TimerId patience =
        own.after(kTimeout, [answer] { answer.set(fail(Errc::kTimedOut, "no answer")); });
    auto result = co_await answer;
    own.cancel(patience);
    co_return result;
  }

  Shared& shared_;
  Loop& own_;
};

}  // namespace slice::manager::testing

#endif  // SLICE_CONTROL_MANAGER_TESTING_MEMORY_REGISTRY_H
