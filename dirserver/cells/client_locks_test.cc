#include "dirserver/cells/client_locks.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "dirserver/cells/cells.h"

namespace slice::dirserver {
namespace {

Locker locker(int number, IpAddress address = 1) {
  return {{address, "host" + address_text(address)}, number, "owner"};
}
HeldLock exclusive(const Locker& owner, std::uint64_t first, std::uint64_t last) {
  return {.owner = owner, .range = {first, last}, .exclusive = true, .state = 3};
}
HeldLock shared(const Locker& owner, std::uint64_t first, std::uint64_t last) {
  return {.owner = owner, .range = {first, last}, .exclusive = false, .state = 3};
}
AwaitedLock awaited(HeldLock lock) {
  return {.lock = std::move(lock), .file = "handle", .before = {}};
}

TEST(ByteRange, IsOfOffsetAndLength) {
  EXPECT_EQ(ByteRange::of(5, 1), (ByteRange{5, 5}));
  EXPECT_EQ(ByteRange::of(5, 0), (ByteRange{5, UINT64_MAX}));
  EXPECT_EQ(ByteRange::of(std::uint64_t{1} << 63, std::uint64_t{1} << 63),
            (ByteRange{std::uint64_t{1} << 63, UINT64_MAX}));
  EXPECT_EQ(ByteRange::of(UINT64_MAX, 1), (ByteRange{UINT64_MAX, UINT64_MAX}));
  EXPECT_EQ(ByteRange::of(UINT64_MAX, 2), std::nullopt);
  EXPECT_EQ(ByteRange::of(2, UINT64_MAX), std::nullopt);
  EXPECT_EQ((ByteRange{5, UINT64_MAX}).length(), 0u);
  EXPECT_EQ((ByteRange{5, 9}).length(), 5u);
}

TEST(ClientLocks, AreOneOwnersOrMayBeShared) {
  ClientLocks locks;
  locks.lock(shared(locker(1), 0, 9));
  EXPECT_EQ(locks.conflict(shared(locker(2), 5, 20)), nullptr);
  ASSERT_NE(locks.conflict(exclusive(locker(2), 9, 20)), nullptr);
  EXPECT_EQ(locks.conflict(exclusive(locker(2), 9, 20))->owner, locker(1));
  EXPECT_EQ(locks.conflict(exclusive(locker(2), 10, 20)), nullptr);
  EXPECT_EQ(locks.conflict(exclusive(locker(1), 0, 20)), nullptr) << "its own";
  EXPECT_NE(locks.conflict(exclusive(locker(1, 2), 0, 20)), nullptr) << "the same number on another host";
}

TEST(ClientLocks, OfOneOwnerTakeTheLatestAndJoin) {
  ClientLocks locks;
  locks.lock(shared(locker(1), 0, 99));
  locks.lock(exclusive(locker(1), 10, 19));
  EXPECT_EQ(locks.held().size(), 3u);
  EXPECT_EQ(locks.conflict(shared(locker(2), 0, 9)), nullptr);
  EXPECT_NE(locks.conflict(shared(locker(2), 10, 10)), nullptr);
  EXPECT_TRUE(locks.unlock(locker(1), {15, 15}));
  EXPECT_EQ(locks.conflict(exclusive(locker(2), 15, 15)), nullptr);
  locks.lock(shared(locker(1), 10, 19));
  ASSERT_EQ(locks.held().size(), 1u);
  EXPECT_EQ(locks.held()[0], shared(locker(1), 0, 99));
  EXPECT_FALSE(locks.unlock(locker(2), {0, 99}));
  EXPECT_TRUE(locks.unlock(locker(1), {0, UINT64_MAX}));
  EXPECT_TRUE(locks.empty());
}

TEST(ClientLocks, AreGivenToWhoWaitsFirst) {
  ClientLocks locks;
  locks.lock(exclusive(locker(1), 0, 9));
  locks.wait(awaited(exclusive(locker(2), 0, 9)));
  locks.wait(awaited(shared(locker(3), 0, 4)));
  locks.wait(awaited(shared(locker(3), 0, 4)));
  EXPECT_EQ(locks.waiting().size(), 2u);
  EXPECT_FALSE(locks.grant());
  locks.unlock(locker(1), {0, 9});
  EXPECT_TRUE(locks.grant());
  ASSERT_EQ(locks.untold().size(), 1u);
  EXPECT_EQ(locks.untold()[0].lock.owner, locker(2));
  EXPECT_EQ(locks.untold()[0].file, "handle");
  EXPECT_EQ(locks.waiting().size(), 1u);
  EXPECT_TRUE(locks.told(locker(2), {0, 9}));
  EXPECT_FALSE(locks.told(locker(2), {0, 9}));
  EXPECT_TRUE(locks.cancel(shared(locker(3), 0, 4)));
  EXPECT_FALSE(locks.cancel(shared(locker(3), 0, 4)));
  EXPECT_FALSE(locks.cancel(exclusive(locker(2), 0, 9))) << "it is had";
  EXPECT_EQ(locks.held().size(), 1u);
}

// Who waited to write what it reads, and gives up at the moment when it may, still reads it.
TEST(ClientLocks, TakenBackLeaveWhatWasHadBefore) {
  ClientLocks locks;
  locks.lock(shared(locker(1), 0, 9));
  locks.lock(shared(locker(2), 5, 9));
  locks.wait(awaited(exclusive(locker(1), 3, 20)));
  locks.unlock(locker(2), {0, 9});
  EXPECT_TRUE(locks.grant());
  EXPECT_NE(locks.conflict(shared(locker(3), 20, 20)), nullptr);
  EXPECT_TRUE(locks.cancel(exclusive(locker(1), 3, 20)));
  ASSERT_EQ(locks.held().size(), 1u);
  EXPECT_EQ(locks.held()[0], shared(locker(1), 0, 9));
  EXPECT_TRUE(locks.untold().empty());
}

TEST(ClientLocks, GoWithTheirHost) {
  ClientLocks locks;
  HeldLock old = exclusive(locker(1), 0, 9), later = exclusive(locker(2), 10, 19);
  later.state = 5;
  locks.lock(old);
  locks.lock(later);
  locks.lock(exclusive(locker(1, 2), 20, 29));
  locks.wait(awaited(exclusive(locker(9), 20, 29)));
  EXPECT_TRUE(locks.share({.owner = locker(1), .denies = 2, .access = 1, .state = 3}));
  EXPECT_FALSE(locks.free(1, "another", 5));
  EXPECT_FALSE(locks.free(3, "host1", 5));
  EXPECT_TRUE(locks.free(1, "HOST1.example.org", 5));
  EXPECT_EQ(locks.held(), (std::vector{later, exclusive(locker(1, 2), 20, 29)}));
  EXPECT_TRUE(locks.waiting().empty());
  EXPECT_TRUE(locks.shares().empty());
  EXPECT_TRUE(locks.free(1, "host1", std::nullopt));
  EXPECT_TRUE(locks.free(2, "host2", std::nullopt));
  EXPECT_TRUE(locks.empty());
}

TEST(ClientLocks, SharesDenyOneAnother) {
  constexpr std::uint32_t kRead = 1, kWrite = 2;
  ClientLocks locks;
  EXPECT_TRUE(locks.share({.owner = locker(1), .denies = kWrite, .access = kRead}));
  EXPECT_TRUE(locks.share({.owner = locker(2), .denies = 0, .access = kRead}));
  EXPECT_FALSE(locks.share({.owner = locker(3), .denies = 0, .access = kWrite}));
  EXPECT_FALSE(locks.share({.owner = locker(3), .denies = kRead, .access = kRead}));
  EXPECT_TRUE(locks.share({.owner = locker(1), .denies = 0, .access = kRead})) << "in place of its own";
  EXPECT_TRUE(locks.share({.owner = locker(3), .denies = 0, .access = kWrite}));
  EXPECT_TRUE(locks.unshare(locker(3)));
  EXPECT_FALSE(locks.unshare(locker(3)));
}

TEST(ClientLocks, HaveLimits) {
  ClientLocks locks;
  std::size_t had = 0;
  auto fill = [&](IpAddress address) {
    for (std::uint64_t at = 0; locks.has_room(awaited(shared(locker(1, address), at, at))); at += 2) {
      locks.lock(shared(locker(1, address), at, at));
      ++had;
    }
  };
  fill(1);
  const std::size_t of_one = had;
  EXPECT_GT(of_one, 1000u);
  EXPECT_TRUE(locks.has_room(awaited(shared(locker(1, 2), 0, 0)))) << "of another client";
  fill(2);
  fill(3);
  EXPECT_LT(had, 2 * of_one + 8) << "of the file";
  EXPECT_LE(encode(locks).size(), ClientLocks::kMostBytes);
}

TEST(ClientLocks, AreReadAsTheyWereWritten) {
  ClientLocks locks;
  locks.lock(shared(locker(1), 0, 9));
  locks.lock(shared(locker(2), 5, UINT64_MAX));
  locks.wait(awaited(exclusive(locker(1), 3, 20)));
  locks.wait(awaited(exclusive(locker(3), 0, UINT64_MAX)));
  EXPECT_TRUE(locks.share({.owner = locker(4), .denies = 2, .access = 1, .state = -1}));
  locks.unlock(locker(2), {0, UINT64_MAX});
  EXPECT_TRUE(locks.grant());
  const std::string value = encode(locks);
  EXPECT_EQ(decode_client_locks(value).value(), locks);
  for (std::size_t size = 0; size < value.size(); ++size)
    EXPECT_FALSE(decode_client_locks(std::string_view(value).substr(0, size))) << size;
  EXPECT_FALSE(decode_client_locks(value + "x"));
}

// Against who has each single byte how.
TEST(ClientLocks, AreAsAModelHasThem) {
  constexpr int kLockers = 4, kBytes = 12;
  std::mt19937 random(1);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  ClientLocks locks;
  std::array<std::array<int, kBytes>, kLockers> has{};  // 0 not, 1 shared, 2 exclusively
  for (int step = 0; step < 20000; ++step) {
    const int who = below(kLockers), a = below(kBytes), b = below(kBytes);
    const int how = below(3);
    const ByteRange range{static_cast<std::uint64_t>(std::min(a, b)),
                          static_cast<std::uint64_t>(std::max(a, b))};
    const HeldLock wanted{.owner = locker(who), .range = range, .exclusive = how == 2, .state = 1};
    bool free = true;
    for (int other = 0; other < kLockers; ++other) {
      for (auto at = range.first; at <= range.last; ++at) {
        const int theirs = has[static_cast<std::size_t>(other)][at];
        free = free && (other == who || theirs == 0 || (theirs == 1 && how == 1));
      }
    }
    if (how == 0) {
      locks.unlock(locker(who), range);
    } else {
      ASSERT_EQ(locks.conflict(wanted) == nullptr, free) << step;
      if (free) locks.lock(wanted);
    }
    if (how == 0 || free) {
      for (auto at = range.first; at <= range.last; ++at) has[static_cast<std::size_t>(who)][at] = how;
    }
    std::array<std::array<int, kBytes>, kLockers> found{};
    for (const HeldLock& held : locks.held()) {
      for (auto at = held.range.first; at <= held.range.last; ++at) {
        int& byte = found[static_cast<std::size_t>(held.owner.process)][at];
        ASSERT_EQ(byte, 0) << "twice";
        byte = held.exclusive ? 2 : 1;
      }
    }
    ASSERT_EQ(found, has) << step;
  }
}

}  // namespace
}  // namespace slice::dirserver
