#include "control/manager/shared_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/manual_loop.h"
#include "control/manager/testing/memory_registry.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using testing::MemoryRegistry;
using Fault = MemoryRegistry::Fault;

constexpr Duration kLease = 2s;

// Managers that share a registry.
class SharedStoreTest : public ::testing::Test {
 protected:
  struct One {
    MemoryRegistry* registry = nullptr;
    Metrics metrics;
    std::unique_ptr<SharedStore> store;
    unsigned begun = 0, ended = 0;
    std::uint64_t counter(std::string_view name) { return metrics.counter(name).value(); }
  };

  One& add(const std::string& name) {
    One& one = *managers_.emplace_back(std::make_unique<One>());
    auto registry = std::make_unique<MemoryRegistry>(shared_);
    one.registry = registry.get();
    one.store = std::make_unique<SharedStore>(SharedStore::Seams{.loop = loop_,
                                                                 .metrics = one.metrics,
                                                                 .self = name,
                                                                 .lease = kLease,
                                                                 .random = [this] { return ++random_; }},
                                              std::move(registry));
    one.store->stand({.begun = [&one] { ++one.begun; }, .ended = [&one] { ++one.ended; }});
    return one;
  }
  // The first is the leader.
  std::pair<One&, One&> leader_and_other() {
    One& a = add("manager1");
    EXPECT_TRUE(loop_.run_until([&] { return a.store->leads(); }, 1s));
    EXPECT_FALSE(run(a.store->read("state"))) << "nothing is there";
    One& b = add("manager2");
    loop_.advance(1s);
    EXPECT_FALSE(b.store->leads());
    return {a, b};
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    spawn([](Task<T> what, std::optional<T>& into) -> Task<void> { into.emplace(co_await what); }(
                                                       std::move(task), value));
    EXPECT_TRUE(loop_.run_until([&] { return value.has_value(); }));
    return std::move(*value);
  }
  Status write(One& one, const std::string& text) {
    return run(one.store->replace("state", Buffer(as_bytes(text))));
  }
  std::string read(One& one) {
    auto contents = run(one.store->read("state"));
    return contents ? std::string(as_text(contents->view())) : contents.error().message;
  }
  // As it is stored, without its checksum.
  std::string stored() {
    const std::string& text = shared_.names["state"].first;
    return text.substr(0, text.size() - std::min<std::size_t>(text.size(), 4));
  }
  void TearDown() override {
    for (auto& each : managers_) each->store.reset();
    loop_.advance(10s);
  }

  ManualLoop loop_;
  MemoryRegistry::Shared shared_{loop_};
  std::uint64_t random_ = 0;
  std::vector<std::unique_ptr<One>> managers_;
};

TEST_F(SharedStoreTest, OneLeadsAndTheOtherKnowsWho) {
  auto [a, b] = leader_and_other();
  EXPECT_TRUE(write(a, "first"));
  EXPECT_EQ(read(a), "first");
  EXPECT_EQ(b.store->leader(), "manager1");
  EXPECT_EQ(write(b, "other").error().code, Errc::kStale);
  EXPECT_EQ(run(b.store->read("state")).error().code, Errc::kStale);
  loop_.advance(60s);
  EXPECT_TRUE(a.store->leads()) << "its lease is kept";
  EXPECT_EQ(a.begun + b.begun, 1u);
  EXPECT_EQ(stored(), "first");
}

TEST_F(SharedStoreTest, ALeaderThatDoesNotReachTheRegistryStopsBeforeAnotherBegins) {
  auto [a, b] = leader_and_other();
  EXPECT_TRUE(write(a, "first"));
  a.registry->silent = true;
  const MonoTime silent = loop_.now();
  ASSERT_TRUE(loop_.run_until([&] { return !a.store->leads(); }, kLease));
  EXPECT_FALSE(b.store->leads());
  ASSERT_TRUE(loop_.run_until([&] { return b.store->leads(); }, kLease));
  EXPECT_LT(loop_.now() - silent, kLease + SharedStore::kLook + 100ms);
  EXPECT_EQ(a.ended, 1u);
  EXPECT_EQ(a.counter("manager_terms_lost_total"), 1u);
  EXPECT_EQ(a.store->leader(), "");
  EXPECT_EQ(read(b), "first");
  EXPECT_TRUE(write(b, "second"));
  a.registry->silent = false;
  loop_.advance(5s);
  EXPECT_FALSE(a.store->leads());
  EXPECT_EQ(a.store->leader(), "manager2");
}

TEST_F(SharedStoreTest, WhoResignsIsFollowedAtOnceAndComesBack) {
  auto [a, b] = leader_and_other();
  spawn(a.store->resign(3s));
  ASSERT_TRUE(loop_.run_until([&] { return b.store->leads(); }, SharedStore::kLook + 50ms));
  EXPECT_FALSE(a.store->leads());
  spawn(b.store->resign(60s));
  ASSERT_TRUE(loop_.run_until([&] { return a.store->leads(); }, 3s + SharedStore::kLook + 50ms));
  EXPECT_EQ(a.counter("manager_terms_lost_total"), 0u);
}

TEST_F(SharedStoreTest, AWriteWhoseAnswerIsLostIsMadeAgainUntilItIsKnown) {
  auto [a, b] = leader_and_other();
  for (Fault fault : {Fault::kLost, Fault::kUnanswered, Fault::kLate}) {
    const std::string text = fmt::format("fault {}", static_cast<int>(fault));
    loop_.run_until([&] { return a.registry->requests % 2 == 0; }, 1s);
    const std::size_t before = a.registry->requests;
    a.registry->faults = {fault};
    Status written = write(a, text);
    EXPECT_TRUE(written) << written.error().message;
    EXPECT_GE(a.registry->requests, before + 2);
    EXPECT_EQ(stored(), text);
    EXPECT_TRUE(write(a, text + ", and on"));
    loop_.advance(2s);  // what was late comes
    EXPECT_EQ(stored(), text + ", and on");
  }
  EXPECT_EQ(a.counter("manager_state_writes_repeated_total"), 3u);
  EXPECT_TRUE(a.store->leads());
}

TEST_F(SharedStoreTest, AWriteOfALeaderBeforeThatComesLateChangesNothing) {
  auto [a, b] = leader_and_other();
  ASSERT_TRUE(write(a, "first"));
  // What a stopped leader had on its way comes after its term.
  Status late{};
  bool ended = false;
  spawn([](SharedStore& store, Status& into, bool& done) -> Task<void> {
    into = co_await store.replace("state", Buffer(as_bytes("late")));
    done = true;
  }(*a.store, late, ended));
  a.registry->silent = true;  // the one that is on its way was let through
  shared_.leases.clear();
  ASSERT_TRUE(loop_.run_until([&] { return b.store->leads() && ended; }, 2 * kLease));
  EXPECT_EQ(late.error().code, Errc::kStale);
  EXPECT_EQ(a.counter("manager_state_writes_refused_total"), 1u);
  EXPECT_EQ(a.ended, 1u);
  EXPECT_EQ(read(b), "first");
}

TEST_F(SharedStoreTest, WhatAnotherLeaderWroteIsNotTakenForItsOwn) {
  auto [a, b] = leader_and_other();
  ASSERT_TRUE(write(a, "first"));
  const std::string as_stored = shared_.names["state"].first;
  shared_.names["state"] = {"", ++shared_.revision};
  shared_.leader = {.holder = "manager2 1", .since = ++shared_.revision, .lease = shared_.leader.lease};
  shared_.names["state"] = {as_stored, ++shared_.revision};
  EXPECT_EQ(write(a, "first").error().code, Errc::kStale) << "the same, but not by this leader";
  EXPECT_FALSE(a.store->leads());
}

TEST_F(SharedStoreTest, WhatSomebodyElseChangedIsNotWrittenOver) {
  auto [a, b] = leader_and_other();
  ASSERT_TRUE(write(a, "first"));
  shared_.names["state"] = {"by hand", ++shared_.revision};
  EXPECT_EQ(write(a, "second").error().code, Errc::kStale);
  EXPECT_EQ(shared_.names["state"].first, "by hand");
  EXPECT_EQ(a.ended, 1u);
  ASSERT_TRUE(loop_.run_until([&] { return b.store->leads() || a.store->leads(); }, 2 * kLease));
  EXPECT_EQ(read(b.store->leads() ? b : a), "state: its checksum does not fit");
}

TEST_F(SharedStoreTest, WhatIsTooLargeIsRefusedAndTheTermGoesOn) {
  auto [a, b] = leader_and_other();
  ASSERT_TRUE(write(a, "first"));
  EXPECT_EQ(write(a, std::string(Registry::kMaxContents, 'x')).error().code, Errc::kTooLarge);
  EXPECT_TRUE(write(a, std::string(Registry::kMaxContents - 4, 'x')));
  EXPECT_TRUE(a.store->leads());
}

TEST_F(SharedStoreTest, AnswersThatAreLostWhileItStandsDoNotHarm) {
  for (std::size_t at = 0; at < 3; ++at) {
    for (Fault fault : {Fault::kLost, Fault::kUnanswered, Fault::kLate}) {
      One& one = add("manager1");
      one.registry->faults.assign(at, Fault::kNone);
      one.registry->faults.push_back(fault);
      EXPECT_TRUE(loop_.run_until([&] { return one.store->leads(); }, 3 * kLease)) << at;
      loop_.advance(3 * kLease);
      EXPECT_TRUE(one.store->leads()) << at << " " << static_cast<int>(fault);
      spawn(one.store->resign(1h));
      one.registry->silent = true;
      loop_.advance(2 * kLease);
    }
  }
}

// Three managers, requests of whom get lost, are done unheard or late: at no time two lead, and what was
// answered as written is what every later leader finds.
TEST_F(SharedStoreTest, NothingIsLostAndNobodyLeadsBesideAnother) {
  std::uint64_t all_writes = 0, all_terms = 0;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 chance(seed);
    shared_.names.clear();
    shared_.leases.clear();
    std::vector<One*> ones{&add("manager1"), &add("manager2"), &add("manager3")};
    std::uint64_t acknowledged = 0, writes = 0, terms = 0;
    bool ended = false;
    auto work = [&](One& one) -> Task<void> {
      while (!ended) {
        co_await loop_.sleep(std::chrono::milliseconds(20 + chance() % 60));
        if (!one.store->leads()) continue;
        auto now = co_await one.store->read("count");
        const bool none = !now && now.error().code == Errc::kNotFound;
        if (!now && !none) continue;
        const std::uint64_t count = none ? 0 : std::stoull(std::string(as_text(now->view())));
        EXPECT_GE(count, acknowledged) << "seed " << seed;
        const std::string next = std::to_string(count + 1);
        if (!co_await one.store->replace("count", Buffer(as_bytes(next)))) continue;
        EXPECT_GT(count + 1, acknowledged) << "seed " << seed << ": acknowledged twice";
        acknowledged = count + 1;
        ++writes;
      }
    };
    for (One* one : ones) spawn(work(*one));
    for (int step = 0; step < 600; ++step) {
      loop_.advance(50ms);
      std::size_t leading = 0;
      for (One* one : ones) {
        leading += one->store->leads() ? 1 : 0;
        if (chance() % 40 == 0) one->registry->silent = chance() % 2 == 0;
        if (chance() % 24 == 0) one->registry->faults.push_back(static_cast<Fault>(chance() % 4));
        if (chance() % 200 == 0) spawn(one->store->resign(500ms));
      }
      EXPECT_LE(leading, 1u) << "seed " << seed;
    }
    for (One* one : ones) one->registry->silent = false;
    ended = true;
    loop_.advance(5s);
    for (One* one : ones) terms += one->begun;
    all_writes += writes;
    all_terms += terms;
    for (One* one : ones) spawn(one->store->resign(1h));
    loop_.advance(5s);
  }
  EXPECT_GT(all_writes, 1000u);
  EXPECT_GT(all_terms, 100u);
}

}  // namespace
}  // namespace slice::manager
