#include "smallfile/allocator.h"

#include <gtest/gtest.h>

#include <random>

namespace slice::smallfile {
namespace {

TEST(RoomFor, IsThePowerOfTwoAbove) {
  EXPECT_EQ(room_for(1), 128u);
  EXPECT_EQ(room_for(128), 128u);
  EXPECT_EQ(room_for(129), 256u);
  EXPECT_EQ(room_for(4097), 8192u);
  EXPECT_EQ(room_for(8192), 8192u);
}

TEST(ZoneAllocator, PutsNewExtentsOneAfterAnother) {
  ZoneAllocator zone;
  EXPECT_EQ(zone.allocate(8192), 0u);
  EXPECT_EQ(zone.allocate(108), 8192u);  // the 8300-byte file of the paper: 8192 + 128
  EXPECT_EQ(zone.allocate(300), 8320u);
  EXPECT_EQ(zone.end(), 8832u);
  EXPECT_EQ(zone.free_bytes(), 0u);
}

TEST(ZoneAllocator, ReusesTheSmallestFragmentThatFits) {
  ZoneAllocator zone;
  std::vector<std::uint64_t> at;
  for (std::uint32_t length : {8192, 128, 1024, 128, 512, 128}) at.push_back(zone.allocate(length));
  zone.release(at[0], 8192);
  zone.release(at[2], 1024);
  zone.release(at[4], 512);
  EXPECT_EQ(zone.allocate(512), at[4]);
  EXPECT_EQ(zone.allocate(512), at[2]);        // splits the next larger one
  EXPECT_EQ(zone.allocate(512), at[2] + 512);  // and the rest of it serves too
  EXPECT_EQ(zone.usable_bytes(), 8192u);
  EXPECT_EQ(zone.allocate(128), at[0]);
  EXPECT_EQ(zone.usable_bytes(), 0u);
  EXPECT_EQ(zone.allocate(8192), at[5] + 128);  // no fragment holds it: the end
}

TEST(ZoneAllocator, CoalescesOnBothSidesAndShrinksAtTheEnd) {
  ZoneAllocator zone;
  for (int i = 0; i < 64; ++i) zone.allocate(128);
  std::uint64_t last = zone.allocate(256);
  for (int i = 0; i < 64; i += 2) zone.release(i * 128u, 128);
  EXPECT_EQ(zone.fragments().size(), 32u);
  for (int i = 1; i < 64; i += 2) zone.release(i * 128u, 128);
  ASSERT_EQ(zone.fragments().size(), 1u);
  EXPECT_EQ(zone.fragments().at(0), 8192u);
  EXPECT_EQ(zone.allocate(8192), 0u);
  zone.release(0, 8192);
  zone.release(last, 256);
  EXPECT_EQ(zone.end(), 0u);
  EXPECT_EQ(zone.free_bytes(), 0u);
}

TEST(ZoneAllocator, TakesReleasesBackThatCouldNotBeSaved) {
  ZoneAllocator zone;
  std::vector<std::uint64_t> at;
  for (std::uint32_t length : {1024, 128, 512, 256, 4096}) at.push_back(zone.allocate(length));
  zone.release(at[1], 128);
  zone.take_changes();
  auto fragments = zone.fragments();
  std::uint64_t end = zone.end();
  zone.release(at[2], 512);
  zone.release(at[4], 4096);
  zone.release(at[3], 256);
  EXPECT_EQ(zone.end(), 1024u);
  zone.give_back(zone.take_changes());
  zone.reclaim(at[2], 512);
  zone.reclaim(at[4], 4096);
  zone.reclaim(at[3], 256);
  EXPECT_EQ(zone.end(), end);
  EXPECT_EQ(zone.fragments(), fragments);
  EXPECT_TRUE(zone.take_changes().end_moved);
}

TEST(ZoneAllocator, RefusesToRestoreWhatCannotBe) {
  ZoneAllocator zone;
  EXPECT_FALSE(zone.restore_end(100));
  ASSERT_TRUE(zone.restore_end(8192));
  ASSERT_TRUE(zone.restore_fragment(1024, 256));
  EXPECT_FALSE(zone.restore_fragment(1152, 128));  // inside
  EXPECT_FALSE(zone.restore_fragment(896, 256));   // overlaps
  EXPECT_FALSE(zone.restore_fragment(896, 128));   // touches: it should have coalesced
  EXPECT_FALSE(zone.restore_fragment(1280, 128));  // touches
  EXPECT_FALSE(zone.restore_fragment(64, 128));    // misaligned
  EXPECT_FALSE(zone.restore_fragment(8064, 128));  // at the end
  EXPECT_FALSE(zone.restore_fragment(8192, 128));  // outside
  EXPECT_FALSE(zone.restore_fragment(0, ~0ull - 127));
  EXPECT_FALSE(zone.restore_fragment(0, 0));
  EXPECT_TRUE(zone.restore_fragment(0, 128));
}

// Random allocations and releases against a map of what is in use; at the end the changes, replayed, give
// the same zone.
class ZoneAllocatorProperty : public ::testing::TestWithParam<unsigned> {};

TEST_P(ZoneAllocatorProperty, NothingOverlapsNothingLeaksAndChangesAreComplete) {
  std::mt19937 random(GetParam());
  ZoneAllocator zone;
  std::map<std::uint64_t, std::uint32_t> used;  // offset: length asked for
  std::map<std::uint64_t, std::uint64_t> saved;
  std::uint64_t saved_end = 0;
  for (int step = 0; step < 20000; ++step) {
    bool grow = random() % 100 < (step / 4000 % 2 == 0 ? 65 : 35);
    if (grow || used.empty()) {
      std::uint32_t length = random() % 2 == 0 ? 1 + random() % 8192 : 1 + random() % 300;
      std::uint64_t at = zone.allocate(length);
      auto next = used.lower_bound(at);
      ASSERT_TRUE(next == used.end() || at + room_for(length) <= next->first);
      if (next != used.begin()) {
        auto before = std::prev(next);
        ASSERT_LE(before->first + room_for(before->second), at);
      }
      ASSERT_LE(at + room_for(length), zone.end());
      used.emplace(at, length);
    } else {
      auto victim = used.lower_bound(random() % zone.end());
      if (victim == used.end()) victim = used.begin();
      zone.release(victim->first, victim->second);
      used.erase(victim);
    }
    if (step % 97 == 0) {
      auto changes = zone.take_changes();
      for (auto [offset, length] : changes.fragments) {
        if (length) {
          saved[offset] = *length;
        } else {
          saved.erase(offset);
        }
      }
      if (changes.end_moved) saved_end = zone.end();
      ASSERT_EQ(saved, zone.fragments());
      ASSERT_EQ(saved_end, zone.end());
    }
    if (step % 1000 == 0) {
      std::uint64_t in_use = 0, free = 0, usable = 0, behind = ~0ull;
      for (auto [at, length] : used) in_use += room_for(length);
      for (auto [at, length] : zone.fragments()) {
        ASSERT_NE(at, behind) << "neighbours that did not coalesce";
        behind = at + length;
        free += length;
        usable += length >= kBlockSize ? length : 0;
      }
      ASSERT_NE(behind, zone.end());
      ASSERT_EQ(in_use + free, zone.end());
      ASSERT_EQ(free, zone.free_bytes());
      ASSERT_EQ(usable, zone.usable_bytes());
    }
  }
  zone.take_changes();
  ZoneAllocator again;
  ASSERT_TRUE(again.restore_end(zone.end()));
  for (auto [offset, length] : zone.fragments()) ASSERT_TRUE(again.restore_fragment(offset, length));
  EXPECT_EQ(again.free_bytes(), zone.free_bytes());
  for (auto [at, length] : used) again.release(at, length);
  EXPECT_EQ(again.end(), 0u);  // everything coalesced
}

INSTANTIATE_TEST_SUITE_P(Seeds, ZoneAllocatorProperty, ::testing::Range(0u, 8u));

}  // namespace
}  // namespace slice::smallfile
