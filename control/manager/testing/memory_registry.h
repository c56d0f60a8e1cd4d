// MemoryRegistry: the registry in memory, for tests and simulation: several managers of one process share a
// MemoryRegistry::Shared, each through a MemoryRegistry of its own, whose way to it can be made to fail.
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
    Revision revision = 0;
    std::uint64_t next_lease = 1;
    std::map<std::uint64_t, std::pair<Duration, MonoTime>> leases;  // time, and when it is over
    LeaderEntry leader;
    std::map<std::string, std::pair<std::string, Revision>> names;
  };
  explicit MemoryRegistry(Shared& shared) : shared_(shared) {}

  bool silent = false;       // every request is lost
  std::deque<Fault> faults;  // of the next requests
  std::size_t requests = 0;

  Task<Result<Lease>> grant(Duration time) override {
    return request<Lease>(shared_, next(), [time](Shared& shared) -> Result<Lease> {
      const Lease lease{.id = shared.next_lease++, .time = time};
      shared.leases[lease.id] = {time, shared.loop.now() + time};
      return lease;
    });
  }
  Task<Status> keep(std::uint64_t lease) override {
    auto kept = co_await request<bool>(shared_, next(), [lease](Shared& shared) -> Result<bool> {
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
        shared_, next(), [lease](Shared& shared) -> Result<bool> { return shared.leases.erase(lease) > 0; });
    if (!done) co_return fail(std::move(done).error());
    co_return Status{};
  }
  Task<Result<LeaderEntry>> leader() override {
    return request<LeaderEntry>(shared_, next(),
                                [](Shared& shared) -> Result<LeaderEntry> { return shared.leads(); });
  }
  Task<Result<LeaderEntry>> stand(std::string holder, std::uint64_t lease) override {
    return request<LeaderEntry>(
        shared_, next(), [holder = std::move(holder), lease](Shared& shared) -> Result<LeaderEntry> {
          if (shared.leads().since != 0) return shared.leader;
          if (!shared.leases.contains(lease)) return fail(Errc::kNotFound, "lease {} is over", lease);
          shared.leader = {.holder = holder, .since = ++shared.revision, .lease = lease};
          return shared.leader;
        });
  }
  Task<Result<Stored>> read(std::string name) override {
    return request<Stored>(shared_, next(), [name = std::move(name)](Shared& shared) -> Result<Stored> {
      return stored(shared, name);
    });
  }
  Task<Result<WriteResult>> write(std::string name, ByteView contents, Revision revision,
                                  Revision leader) override {
    return request<WriteResult>(shared_, next(),
                                [name = std::move(name), text = std::string(as_text(contents)), revision,
                                 leader](Shared& shared) -> Result<WriteResult> {
                                  WriteResult result{.now = stored(shared, name), .leader = shared.leads()};
                                  if (result.now.revision != revision || result.leader.since != leader)
                                    return result;
                                  shared.names[name] = {text, ++shared.revision};
                                  return WriteResult{.written = true,
                                                     .now = {.contents = {}, .revision = shared.revision}};
                                });
  }
  std::vector<wire::StorePlace> places() const override {
    return {{.place = "memory", .trouble = silent ? "silent" : ""}};
  }

 private:
  Fault next() {
    ++requests;
    if (silent) return Fault::kLost;
    if (faults.empty()) return Fault::kNone;
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
  static Task<Result<R>> request(Shared& shared, Fault fault, std::function<Result<R>(Shared&)> act) {
    if (fault == Fault::kNone) {
      co_await shared.loop.sleep(kTime);
      co_return act(shared);
    }
    if (fault == Fault::kUnanswered) {
      co_await shared.loop.sleep(kTime);
      (void)act(shared);
    }
    if (fault == Fault::kLate) shared.loop.after(kTimeout + kLateBy, [&shared, act] { (void)act(shared); });
    co_await shared.loop.sleep(kTimeout);
    co_return fail(Errc::kTimedOut, "no answer");
  }

  Shared& shared_;
};

}  // namespace slice::manager::testing

#endif  // SLICE_CONTROL_MANAGER_TESTING_MEMORY_REGISTRY_H
