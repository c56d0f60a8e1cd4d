#include "dirserver/across/lock_table.h"

#include <gtest/gtest.h>

#include "common/manual_loop.h"

namespace slice::dirserver {
namespace {

using namespace std::chrono_literals;

class LockTableTest : public ::testing::Test {
 protected:
  static LockOwner owner(std::uint64_t age) { return {{SiteId{1}, 7, age}, age}; }
  static constexpr LockKey kFile{FileId{5}, {}};
  static constexpr LockKey kName{FileId{5}, Position{9}};

  // Nothing as long as it waits.
  std::shared_ptr<std::optional<bool>> ask(std::uint64_t age, LockKey key, LockMode mode,
                                           Duration limit = 10s) {
    auto result = std::make_shared<std::optional<bool>>();
    spawn([](LockTable& table, LockOwner who, LockKey what, LockMode how, Duration most,
             std::shared_ptr<std::optional<bool>> to) -> Task<void> {
      to->emplace(co_await table.acquire(who, what, how, most));
    }(table_, owner(age), key, mode, limit, result));
    loop_.run_ready();
    return result;
  }

  ManualLoop loop_;
  LockTable table_{loop_};
};

TEST_F(LockTableTest, SharedOnesStandSideBySide) {
  EXPECT_EQ(*ask(1, kFile, LockMode::kShared), true);
  EXPECT_EQ(*ask(2, kFile, LockMode::kShared), true);
  EXPECT_TRUE(table_.stops_change(kFile, LockMode::kExclusive, nullptr));
  EXPECT_FALSE(table_.stops_change(kFile, LockMode::kShared, nullptr));
  EXPECT_FALSE(table_.stops_change(kName, LockMode::kExclusive, nullptr));
}

TEST_F(LockTableTest, TheOlderWaitsAndTheYoungerIsRefused) {
  EXPECT_EQ(*ask(5, kFile, LockMode::kExclusive), true);
  EXPECT_EQ(*ask(9, kFile, LockMode::kExclusive), false);
  auto older = ask(2, kFile, LockMode::kExclusive);
  EXPECT_FALSE(older->has_value());
  table_.release(owner(5).id);
  loop_.run_ready();
  EXPECT_EQ(*older, true);
  table_.release(owner(2).id);
  EXPECT_TRUE(table_.empty());
}

TEST_F(LockTableTest, OneLockMayBeKeptAndTheOthersReleased) {
  EXPECT_EQ(*ask(5, kFile, LockMode::kShared), true);
  EXPECT_EQ(*ask(5, kName, LockMode::kExclusive), true);
  auto file = ask(2, kFile, LockMode::kExclusive), name = ask(2, kName, LockMode::kExclusive);
  table_.release_all_but(owner(5).id, kName);
  loop_.run_ready();
  EXPECT_EQ(*file, true);
  EXPECT_FALSE(name->has_value());
  table_.release(owner(5).id);
  loop_.run_ready();
  EXPECT_EQ(*name, true);
  table_.release_all_but(owner(2).id, kRenameLock);
  EXPECT_TRUE(table_.empty());
}

TEST_F(LockTableTest, WaitingEndsAtItsLimit) {
  EXPECT_EQ(*ask(5, kFile, LockMode::kExclusive), true);
  auto older = ask(2, kFile, LockMode::kShared, 1s);
  loop_.advance(2s);
  EXPECT_EQ(*older, false);
  table_.release(owner(5).id);
  EXPECT_TRUE(table_.empty());
}

TEST_F(LockTableTest, AHolderMayAskForMore) {
  EXPECT_EQ(*ask(1, kFile, LockMode::kShared), true);
  EXPECT_FALSE(table_.holds(owner(1).id, kFile, LockMode::kExclusive));
  EXPECT_EQ(*ask(1, kFile, LockMode::kExclusive), true);
  EXPECT_TRUE(table_.holds(owner(1).id, kFile, LockMode::kExclusive));
  EXPECT_EQ(*ask(2, kFile, LockMode::kShared), false);
}

// A steady stream of shared locks must not keep an exclusive one, or a change of one step, out for ever.
TEST_F(LockTableTest, NewSharedLocksQueueBehindWhoWaitsForAllOfIt) {
  EXPECT_EQ(*ask(5, kFile, LockMode::kShared), true);
  auto exclusive = ask(2, kFile, LockMode::kExclusive);
  EXPECT_FALSE(exclusive->has_value());
  EXPECT_EQ(*ask(6, kFile, LockMode::kShared), false);
  table_.release(owner(5).id);
  loop_.run_ready();
  EXPECT_EQ(*exclusive, true);
}

TEST_F(LockTableTest, ReadersWaitForWhatIsPrepared) {
  EXPECT_EQ(*ask(1, kName, LockMode::kExclusive), true);
  EXPECT_EQ(*ask(1, kFile, LockMode::kShared), true);
  EXPECT_FALSE(table_.stops_reading(kName));
  EXPECT_FALSE(table_.stops_listing(FileId{5}));
  table_.prepare(owner(1).id);
  EXPECT_TRUE(table_.stops_reading(kName));
  EXPECT_FALSE(table_.stops_reading(kFile)) << "what is only kept as it is may be shown";
  EXPECT_TRUE(table_.stops_listing(FileId{5}));
  EXPECT_FALSE(table_.stops_listing(FileId{4}));
  bool read = false;
  spawn([](LockTable& table, bool& done) -> Task<void> {
    co_await table.until_readable(kName);
    done = true;
  }(table_, read));
  loop_.advance(5s);
  EXPECT_FALSE(read);
  table_.release(owner(1).id);
  loop_.run_ready();
  EXPECT_TRUE(read);
  EXPECT_TRUE(table_.empty());
}

TEST_F(LockTableTest, WhoBecomesTheOldestIsWaitedForByNobody) {
  EXPECT_EQ(*ask(5, kName, LockMode::kExclusive), true);
  auto older = ask(1, kName, LockMode::kExclusive);
  EXPECT_FALSE(older->has_value());
  table_.make_oldest(owner(5).id);
  loop_.run_ready();
  EXPECT_EQ(*older, false);
  EXPECT_EQ(*ask(1, kName, LockMode::kExclusive), false);
  table_.release(owner(5).id);
  EXPECT_EQ(*ask(1, kName, LockMode::kExclusive), true);
}

TEST_F(LockTableTest, ItsOwnLocksDoNotStopAnOwner) {
  EXPECT_EQ(*ask(1, kFile, LockMode::kExclusive), true);
  TransactionId self = owner(1).id, other = owner(2).id;
  EXPECT_FALSE(table_.stops_change(kFile, LockMode::kExclusive, &self));
  EXPECT_TRUE(table_.stops_change(kFile, LockMode::kShared, &other));
  EXPECT_FALSE(table_.try_acquire(owner(2), kFile, LockMode::kShared));
}

}  // namespace
}  // namespace slice::dirserver
