// File handle, checksums and the attribute cache's rules, in user space.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#include "bpf/shared/attributes.h"
#include "bpf/shared/file_handle.h"
#include "bpf/shared/map_abi.h"
#include "bpf/shared/outcomes.h"
#include "bpf/shared/routing.h"

extern "C" size_t slice_c_layout_sum(void);

namespace {

static_assert(std::has_unique_object_representations_v<slice_config>);
static_assert(std::has_unique_object_representations_v<slice_server>);
static_assert(std::has_unique_object_representations_v<slice_pending>);
static_assert(std::has_unique_object_representations_v<slice_config6>);
static_assert(std::has_unique_object_representations_v<slice_server6>);
static_assert(std::has_unique_object_representations_v<slice_pending6>);
static_assert(std::has_unique_object_representations_v<slice_source6>);
static_assert(std::has_unique_object_representations_v<slice_attr_bucket>);
static_assert(std::has_unique_object_representations_v<slice_eviction>);

TEST(Layout, CAndCppAgree) {
  EXPECT_EQ(slice_c_layout_sum(), sizeof(slice_handle) + sizeof(slice_config) * 3 + sizeof(slice_server) * 5 +
                                      sizeof(slice_pending) * 7 + sizeof(slice_attr_bucket) * 11 +
                                      sizeof(slice_eviction) * 13 + sizeof(slice_request) * 17 +
                                      offsetof(slice_attr_bucket, entry) * 19 +
                                      offsetof(slice_pending, fileid) * 23 + sizeof(slice_server6) * 29 +
                                      offsetof(slice_pending6, fileid) * 31);
}

TEST(FileHandle, LiesAsSpecified) {
  slice_handle handle{};
  handle.version = 1;
  handle.type = 2;
  handle.flags = SLICE_HANDLE_MIRRORED;
  handle.stripe_shift = 16;
  handle.volume = 0x01020304;
  handle.fileid = 0x1112131415161718;
  handle.tree = 0x2122;
  handle.site = 0x2324;
  handle.generation = 0x31323334;
  handle.cell_key = 0x4142434445464748;
  handle.hint = ~0ull;  // clients never see one
  std::array<uint8_t, 16> key{1, 2, 3};
  std::array<uint8_t, 56> wire{};
  slice_handle_mint(&handle, key.data(), wire.data());
  const std::array<uint8_t, 40> kHead{1,    2,    1,    16,   0x01, 0x02, 0x03, 0x04, 0x11, 0x12,
                                      0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24,
                                      0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46,
                                      0x47, 0x48, 0,    0,    0,    0,    0,    0,    0,    0};
  EXPECT_TRUE(std::equal(kHead.begin(), kHead.end(), wire.begin()));
  EXPECT_TRUE(slice_handle_check_mac(key.data(), wire.data()));
  slice_handle back{};
  slice_handle_decode(wire.data(), &back);
  EXPECT_EQ(back.fileid, handle.fileid);
  EXPECT_EQ(back.cell_key, handle.cell_key);
  for (size_t i = 0; i < wire.size(); i++) {
    auto forged = wire;
    forged[i] ^= 1;
    EXPECT_EQ(slice_handle_check_mac(key.data(), forged.data()), i >= 32 && i < 40) << "byte " << i;
  }
}

// The example of docs/formats/file-handle.md.
TEST(FileHandle, ExampleOfTheSpecification) {
  slice_handle handle{};
  handle.version = 1;
  handle.type = 2;
  handle.stripe_shift = 16;
  handle.volume = 7;
  handle.fileid = SLICE_ROOT_FILEID;
  handle.generation = 1;
  std::array<uint8_t, 16> key{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::array<uint8_t, 56> wire{};
  slice_handle_mint(&handle, key.data(), wire.data());
  const std::array<uint8_t, 16> mac{0xc4, 0x46, 0x1e, 0xe3, 0x55, 0x3d, 0xd7, 0x4b,
                                    0x66, 0x7d, 0x96, 0x36, 0xf7, 0x0b, 0x10, 0x90};
  EXPECT_TRUE(std::equal(mac.begin(), mac.end(), wire.begin() + 40));
}

TEST(FileHandle, Hints) {
  uint64_t size = 1;
  EXPECT_EQ(slice_hint_encode(0, 0, 5), 0u);
  EXPECT_TRUE(slice_hint_can_patch(slice_hint_encode(1, 1, 5)));
  EXPECT_TRUE(slice_hint_size(slice_hint_encode(1, 1, (1ull << 62) - 1), &size));
  EXPECT_EQ(size, (1ull << 62) - 1);
  EXPECT_FALSE(slice_hint_size(slice_hint_encode(1, 1, 1ull << 62), &size));
}

TEST(Checksum, MovesAsRfc1624) {
  std::array<uint8_t, 40> bytes{};
  for (size_t i = 2; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(i * 91);
  auto sum_of = [&] {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes.size(); i += 2) sum += slice_load16(&bytes[i]);
    return slice_csum_fold(sum);
  };
  slice_store16(bytes.data(), static_cast<uint16_t>(~sum_of()));
  EXPECT_EQ(sum_of(), 0xffff);
  uint64_t change = 0;
  slice_replace32(&bytes[8], 0xdeadbeef, &change);
  slice_replace64(&bytes[16], 0x0123456789abcdef, &change);
  slice_store16(bytes.data(), slice_csum_apply(slice_load16(bytes.data()), change));
  EXPECT_EQ(sum_of(), 0xffff);
}

// Folding by multiplication against folding by hand.
TEST(Checksum, FoldsAsOnesComplementAddition) {
  auto by_hand = [](uint64_t sum) {
    while (sum >> 16) sum = (sum >> 16) + (sum & 0xffff);
    return static_cast<uint16_t>(sum);
  };
  auto expect_folded = [&](uint64_t sum) {
    ASSERT_EQ(slice_csum_fold(sum), by_hand(sum)) << sum;
    ASSERT_EQ(slice_csum_is_zero(sum) != 0, sum % 65535 == 0) << sum;
  };
  std::mt19937_64 random(65535);
  for (uint64_t sum = 0; sum < 300000; sum++) expect_folded(sum);
  for (uint64_t sum = (1ull << 47) - 300000; sum < 1ull << 47; sum++) expect_folded(sum);
  for (int i = 0; i < 300000; i++) {
    uint64_t sum = random() >> (17 + random() % 47);
    expect_folded(sum);
    expect_folded(sum / 65535 * 65535);
    expect_folded(sum / 65535 * 65535 + 1);
  }
}

TEST(Outcomes, HaveNamesAndTexts) {
  int known = 0;
  for (uint32_t i = 0; i < SLICE_OUTCOME_COUNT; i++) {
    EXPECT_EQ(slice_outcome_name(i) == nullptr, slice_outcome_text(i) == nullptr);
    known += slice_outcome_name(i) != nullptr;
  }
  EXPECT_GT(known, 55);
  EXPECT_STREQ(slice_outcome_name(6), "ROUTED_READ");
}

class Cache : public testing::Test {
 protected:
  Cache() : bucket_(std::make_unique<slice_attr_bucket>()) {
    memset(bucket_.get(), 0, sizeof *bucket_);
    config_.attribute_life_ms = 1000;
  }

  // A server's fattr3 of file 9 absorbed; answers it as patched.
  std::vector<uint8_t> absorb(uint32_t nlink, uint64_t size, uint64_t ctime, uint32_t procedure = 1,
                              uint64_t end = 0) {
    std::vector<uint8_t> fattr = fattr_of(about_, nlink, size, ctime);
    slice_put_be64(&fattr[28], end);
    return absorb(std::move(fattr), procedure);
  }
  std::vector<uint8_t> absorb(std::vector<uint8_t> fattr, uint32_t procedure = 1) {
    slice_attr_event event{.fileid = 9,
                           .procedure = procedure,
                           .asked_ms = asked_ms_.value_or(config_.now_ms),
                           .teaches = teaches_};
    uint64_t sum = 0;
    uint32_t side = 0;
    outcome_ = slice_attr_absorb(bucket_.get(), fattr.data(), &event, &config_, take, this, &sum, &side);
    side_ = side;
    return fattr;
  }

  // As a server sends it: of file `fileid` on directory site 2.
  static std::vector<uint8_t> fattr_of(uint64_t fileid, uint32_t nlink, uint64_t size, uint64_t ctime) {
    std::vector<uint8_t> fattr(84);
    slice_put_be32(&fattr[0], 1);
    slice_put_be32(&fattr[8], nlink);
    slice_put_be64(&fattr[20], size);
    slice_put_be32(&fattr[40], 2);
    slice_put_be64(&fattr[52], fileid);
    slice_put_be64(&fattr[68], ctime);
    slice_put_be64(&fattr[76], ctime);
    return fattr;
  }

  static int take(void* self, const slice_eviction* eviction) {
    static_cast<Cache*>(self)->evicted_.push_back(*eviction);
    return 1;
  }

  std::unique_ptr<slice_attr_bucket> bucket_;
  slice_config config_{};
  uint64_t about_ = 9;                // the file that the server's reply is of; what was asked for is file 9
  uint32_t teaches_ = 1;              // as in slice_attr_event
  std::optional<uint32_t> asked_ms_;  // when the next were asked for; else now
  uint32_t outcome_ = 0;
  uint32_t side_ = 0;
  std::vector<slice_eviction> evicted_;
};

TEST_F(Cache, OlderAttributesDoNotReplaceNewerOnesWhileFresh) {
  absorb(1, 10, 100ull << 32);
  absorb(3, 10, 90ull << 32);
  EXPECT_EQ(slice_be32(reinterpret_cast<uint8_t*>(bucket_->entry[0].base) + 8), 1u);
  config_.now_ms = 5000;
  absorb(3, 10, 90ull << 32);
  EXPECT_EQ(slice_be32(reinterpret_cast<uint8_t*>(bucket_->entry[0].base) + 8), 3u);
}

TEST_F(Cache, TakenChangesCanBePutBack) {
  absorb(1, 10, 100ull << 32);
  absorb(0, 0, 101ull << 32, SLICE_NFS_WRITE, 500);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_REPLY_PATCHED);
  slice_eviction changes{};
  ASSERT_TRUE(slice_attr_take_dirty(bucket_.get(), 0, &changes));
  EXPECT_EQ(changes.size, 500u);
  EXPECT_EQ(changes.mtime, 101ull << 32);
  EXPECT_EQ(changes.directory_site, 2u);
  EXPECT_FALSE(slice_attr_take_dirty(bucket_.get(), 0, &changes));
  slice_attr_mark_dirty(bucket_.get(), &changes);
  EXPECT_TRUE(slice_attr_take_dirty(bucket_.get(), 0, &changes));
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), slice_hint_encode(1, 1, 500));
  slice_attr_forget(bucket_.get(), 9);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
}

// The authority hears of some writes within a second only, and a SETATTR may come in between.
TEST_F(Cache, AChangedModeHidesNoWrite) {
  absorb(1, 500, 100ull << 32);
  absorb(0, 0, 101ull << 32, SLICE_NFS_WRITE, 500);
  std::vector<uint8_t> changed = fattr_of(9, 1, 500, 102ull << 32);
  slice_put_be64(&changed[68], 100ull << 32);
  std::vector<uint8_t> shown = absorb(changed);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_REPLY_PATCHED);
  EXPECT_EQ(slice_be64(&shown[68]), 101ull << 32);
  EXPECT_EQ(slice_be64(&shown[76]), 102ull << 32);
}

TEST_F(Cache, ATimeThatWasSetStandsUntilALaterWrite) {
  absorb(1, 500, 100ull << 32);
  absorb(0, 0, 101ull << 32, SLICE_NFS_WRITE, 500);
  std::vector<uint8_t> set = fattr_of(9, 1, 500, 102ull << 32);
  slice_put_be32(&set[40], 2 | SLICE_MTIME_SET);
  slice_put_be64(&set[68], 7ull << 32);
  EXPECT_EQ(slice_be64(&absorb(set)[68]), 7ull << 32);
  std::vector<uint8_t> shown = absorb(0, 0, 103ull << 32, SLICE_NFS_WRITE, 500);
  EXPECT_EQ(slice_be64(&shown[68]), 103ull << 32);
  slice_eviction changes{};
  ASSERT_TRUE(slice_attr_take_dirty(bucket_.get(), 0, &changes));
  EXPECT_EQ(changes.directory_site, 2u);
}

// Sent before the WRITE was told, and late on its way.
TEST_F(Cache, WhatWasAskedBeforeAWriteWithoutTraceIsNotLearned) {
  for (uint32_t now : {1000u, 0xfffffff0u, 0u, 50u}) {
    memset(bucket_.get(), 0, sizeof *bucket_);
    config_.now_ms = now;
    ASSERT_TRUE(slice_attr_unremembered(bucket_.get(), 9, &config_));
    config_.now_ms += 100;
    for (uint32_t before : {0u, 10u, SLICE_ATTR_LATE_MS, SLICE_ATTR_LATE_MS + 1}) {
      asked_ms_ = now - before;
      absorb(1, 100, 100ull << 32);
      EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u) << now << " " << before;
    }
    asked_ms_ = now + 2;
    absorb(1, 200, 100ull << 32);
    EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), slice_hint_encode(1, 1, 200)) << now;
  }
}

// Learned from a reply that the authority made before it was told.
TEST_F(Cache, AWriteWithoutTraceEndsWhatWasKnown) {
  absorb(1, 100, 100ull << 32);
  ASSERT_NE(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  ASSERT_TRUE(slice_attr_unremembered(bucket_.get(), 9, &config_));
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  config_.now_ms += 10;
  absorb(1, 200, 100ull << 32);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), slice_hint_encode(1, 1, 200));
}

// Another file of the bucket was written without trace while the change of this one was under way: its reply
// cannot be learned, and what was there before must not be shown any more.
TEST_F(Cache, AChangeThatCannotBeLearnedEndsWhatWasKnown) {
  config_.now_ms = 1000;
  asked_ms_ = 1000;
  absorb(1, 100, 100ull << 32);
  asked_ms_ = 1010;
  config_.now_ms = 1020;
  ASSERT_TRUE(slice_attr_unremembered(bucket_.get(), 10, &config_));
  ASSERT_NE(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  absorb(1, 100, 100ull << 32);
  EXPECT_NE(slice_attr_peek(bucket_.get(), 9, &config_), 0u) << "it says nothing new";
  absorb(1, 100, 101ull << 32);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  absorb(0, 0, 102ull << 32, SLICE_NFS_WRITE, 500);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_PATCH_LOST);
  asked_ms_ = config_.now_ms = 1030;
  absorb(1, 500, 103ull << 32);
  EXPECT_NE(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
}

// Another proxy has served meanwhile.
TEST_F(Cache, WhatIsNotUnsavedIsForgottenBeforeItServesAnew) {
  absorb(1, 500, 100ull << 32);
  slice_attr_begin_anew(bucket_.get(), &config_);
  EXPECT_EQ(slice_attr_find(bucket_.get(), 9), SLICE_ATTR_WAYS);
  asked_ms_ = config_.now_ms;
  config_.now_ms += 10;
  absorb(1, 500, 100ull << 32);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u) << "asked for before";
  asked_ms_ = config_.now_ms;
  absorb(1, 900, 102ull << 32);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), slice_hint_encode(1, 1, 900));
}

TEST_F(Cache, WhatIsUnsavedStaysOnTopOfWhatIsLearnedAnew) {
  absorb(1, 500, 100ull << 32);
  absorb(0, 0, 101ull << 32, SLICE_NFS_WRITE, 700);
  slice_attr_begin_anew(bucket_.get(), &config_);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u) << "no room is to be filled by what was known";
  config_.now_ms += 10;
  asked_ms_ = config_.now_ms;
  std::vector<uint8_t> shown = absorb(1, 600, 100ull << 32);
  EXPECT_EQ(slice_be64(&shown[20]), 700u);
  EXPECT_EQ(slice_be64(&shown[68]), 101ull << 32);
  slice_eviction changes{};
  ASSERT_TRUE(slice_attr_take_dirty(bucket_.get(), 0, &changes));
  EXPECT_EQ(changes.size, 700u);
}

TEST_F(Cache, WithoutALifeNothingGoesWithAHint) {
  absorb(1, 500, 100ull << 32);
  config_.attribute_life_ms = 0;
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  absorb(1, 500, 101ull << 32);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  config_.attribute_life_ms = 1000;
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), slice_hint_encode(1, 1, 500));
}

TEST_F(Cache, AReplyThatIsVeryLateTeachesNothing) {
  config_.now_ms = SLICE_ATTR_LATE_MS + 100;
  asked_ms_ = 99;
  absorb(1, 100, 100ull << 32);
  EXPECT_EQ(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
  asked_ms_ = 100;
  absorb(1, 100, 100ull << 32);
  EXPECT_NE(slice_attr_peek(bucket_.get(), 9, &config_), 0u);
}

TEST_F(Cache, RacingProcessorsLoseNoWrite) {
  absorb(1, 0, 1ull << 32);
  std::vector<uint8_t> room = fattr_of(9, 0, 0, 0);
  auto work = [this, room](uint64_t first) {
    for (uint64_t i = first; i < 20000; i += 2) {
      uint32_t side = SLICE_OUTCOME_ATTR_BUSY;
      slice_attr_event event{.fileid = 9, .procedure = SLICE_NFS_WRITE, .asked_ms = 0, .teaches = 1};
      while (side == SLICE_OUTCOME_ATTR_BUSY) {
        uint64_t sum = 0;
        side = 0;
        std::vector<uint8_t> fattr = room;
        slice_put_be64(&fattr[28], i + 1);
        slice_attr_absorb(bucket_.get(), fattr.data(), &event, &config_, take, this, &sum, &side);
        uint64_t hint = slice_attr_peek(bucket_.get(), 9, &config_);
        EXPECT_TRUE(slice_hint_can_patch(hint));
        if (side == SLICE_OUTCOME_ATTR_BUSY) std::this_thread::yield();
      }
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(bucket_->entry[0].size, 20000u);
  EXPECT_EQ(bucket_->lock % 2, 0u);
}

// The handle of the request is the client's word; which file a reply is about is the server's.
TEST_F(Cache, AReplyAboutAnotherFileTeachesNothing) {
  absorb(1, 10, 100ull << 32);
  const slice_attr_bucket before = *bucket_;
  about_ = 8;
  absorb(0, 0, 101ull << 32, SLICE_NFS_WRITE, 1ull << 50);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_PATCH_REFUSED);
  EXPECT_EQ(side_, SLICE_OUTCOME_ATTR_FOREIGN);
  auto shown = absorb(7, 5, 200ull << 32);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_REPLY);
  EXPECT_EQ(shown, fattr_of(8, 7, 5, 200ull << 32)) << "its own attributes go on as they are";
  EXPECT_EQ(memcmp(&before, bucket_.get(), sizeof before), 0);
}

TEST_F(Cache, AMuteReplyIsPatchedAndTeachesNothing) {
  absorb(1, 10, 100ull << 32);
  absorb(0, 0, 101ull << 32, SLICE_NFS_WRITE, 500);
  slice_attr_bucket before = *bucket_;
  teaches_ = 0;
  auto shown = absorb(3, 10, 100ull << 32);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_REPLY_PATCHED);
  EXPECT_EQ(slice_be64(&shown[20]), 500u);
  absorb(0, 0, 300ull << 32, SLICE_NFS_WRITE, 900);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_PATCH_REFUSED);
  before.lock = bucket_->lock;
  EXPECT_EQ(memcmp(&before, bucket_.get(), sizeof before), 0);
}

TEST_F(Cache, AStuckLockIsFreed) {
  bucket_->lock = 7;
  absorb(1, 10, 1);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_PATCH_BUSY);
  EXPECT_TRUE(slice_attr_recover_lock(bucket_.get(), 7));
  absorb(1, 10, 1);
  EXPECT_EQ(outcome_, SLICE_OUTCOME_REPLY_LEARNED);
}

// Every directory site issues fileIDs from its own sequence.
TEST(AttributeBuckets, TakeTheFilesOfAllSitesEvenly) {
  std::vector<unsigned> files(SLICE_ATTR_BUCKETS);
  for (uint64_t site = 0; site < 64; site++) {
    for (uint64_t i = 1; i <= 256; i++) files[slice_attr_bucket_key(site << 48 | i)]++;
  }
  EXPECT_LE(*std::max_element(files.begin(), files.end()), 10u);  // one a bucket on average
}

// Linux counts its xids in the machine's own order, others in network order.
TEST(Pending, OpenRequestsOfAClientShareNoEntry) {
  for (bool network_order : {true, false}) {
    for (uint32_t first : {0u, 0xde545c2fu, 0xfffffff0u, 0x0000fff0u, 0x12fffff0u}) {
      std::set<uint32_t> keys;
      for (uint32_t i = 0; i < 40000; i++) {
        uint32_t xid = first + i;
        keys.insert(slice_pending_key(0x0a4d0001, 777, network_order ? SLICE_BE32(xid) : xid));
      }
      // Where the count's lower half turns over, an entry or two meet.
      EXPECT_GE(keys.size(), 39998u) << network_order << " " << first;
    }
  }
}

// The same of a client with IPv6, and clients whose addresses differ anywhere are spread.
TEST(Pending, ClientsOfIpv6AreSpread) {
  constexpr uint64_t kNetwork = 0x00000000000077fdULL;
  std::set<uint32_t> keys;
  for (uint32_t i = 0; i < 5000; i++) keys.insert(slice_pending_key6(kNetwork, 1, 0x0203, 0x1000 + i));
  EXPECT_EQ(keys.size(), 5000u);
  for (unsigned bit = 0; bit < 64; bit += 8) {
    keys.clear();
    for (uint64_t i = 0; i < 256; i++) keys.insert(slice_pending_key6(kNetwork, i << bit, 0x0203, 7));
    EXPECT_GT(keys.size(), 240u) << bit;
    keys.clear();
    for (uint64_t i = 0; i < 256; i++) keys.insert(slice_pending_key6(i << bit, 1, 0x0203, 7));
    EXPECT_GT(keys.size(), 240u) << bit;
  }
}

TEST(Pending, AnotherNetworkDoesNotVouch) {
  const uint64_t check = slice_pending_check(1, 2, 3, 4, 5, 6);
  for (unsigned bit = 0; bit < 64; bit++)
    EXPECT_NE(slice_pending_check6(check, 77), slice_pending_check6(check, 77 ^ 1ULL << bit));
}

TEST(Sources, AnEntryOfIpv6VouchesForItself) {
  const uint64_t check = slice_source_check6(11, 22, 3);
  EXPECT_NE(slice_source_check6(0, 0, 0), 0u) << "an empty entry is none";
  for (unsigned bit = 0; bit < 64; bit++) {
    EXPECT_NE(check, slice_source_check6(11 ^ 1ULL << bit, 22, 3));
    EXPECT_NE(check, slice_source_check6(11, 22 ^ 1ULL << bit, 3));
    EXPECT_NE(check, slice_source_check6(11, 22, 3 ^ 1ULL << bit));
  }
}

// Who has which client is a matter of both proxies and of slicectl: it stays as it is written here.
TEST(ClientSlots, AreThoseOfTheAddress) {
  const uint32_t ipv4 = SLICE_BE32(0x0a4d01cc);  // 10.77.1.204
  EXPECT_EQ(slice_client_slot(ipv4), 2210u);
  EXPECT_EQ(slice_client_slot6(0, SLICE_BE64(0x0000ffff0a4d01ccULL)), slice_client_slot(ipv4)) << "mapped";
  EXPECT_EQ(slice_client_slot6(SLICE_BE64(0xfd77000000000000ULL), SLICE_BE64(0x0000000000010002ULL)), 272u);
  std::vector<int> slots(SLICE_CLIENT_SLOTS);
  for (uint64_t network = 0; network < 64; network++) {
    for (uint64_t host = 0; host < 64; host++)
      slots[slice_client_slot6(SLICE_BE64(0xfd77ULL << 48 | network), SLICE_BE64(host))]++;
  }
  EXPECT_LT(std::ranges::count(slots, 0), 1700) << "4096 balls in 4096 boxes leave 1507 of them empty";
}

TEST(Pending, MixedEntriesDoNotVouch) {
  std::array<uint64_t, 6> a{1, 2, 3, 4, 5, 6};
  std::array<uint64_t, 6> b{11, 12, 13, 14, 16, 15};
  auto check = [](const std::array<uint64_t, 6>& w) {
    return slice_pending_check(w[0], w[1], w[2], w[3], w[4], w[5]);
  };
  for (unsigned mask = 1; mask < 63; mask++) {
    std::array<uint64_t, 6> mixed{};
    for (unsigned i = 0; i < 6; i++) mixed[i] = (mask >> i) & 1 ? a[i] : b[i];
    EXPECT_NE(check(mixed), check(a));
    EXPECT_NE(check(mixed), check(b));
  }
  EXPECT_NE(check({}), 0u) << "an empty entry vouches for nothing";
}

// A file whose changes the authority is being told of keeps its entry: else its attributes would be what the
// authority knew before.
TEST(AttributeTest, WhatIsBeingSavedIsNotGivenAway) {
  slice_attr_bucket bucket{};
  int evicted = 0;
  auto refuse = [](void*, const slice_eviction*) { return 0; };
  auto claim = [&](std::uint64_t file) {
    return slice_attr_claim(&bucket, file, 1, refuse, nullptr, &evicted);
  };
  for (std::uint64_t file = 1; file <= SLICE_ATTR_WAYS; ++file) {
    std::uint32_t way = claim(file);
    ASSERT_LT(way, SLICE_ATTR_WAYS);
    bucket.entry[way].size = 100 * file;
    bucket.flags[way] = SLICE_ATTR_VALID | SLICE_ATTR_DIRTY_SIZE;
  }
  slice_eviction changes{};
  ASSERT_TRUE(slice_attr_take_dirty(&bucket, slice_attr_find(&bucket, 3), &changes));
  EXPECT_EQ(changes.size, 300u);
  EXPECT_EQ(claim(9), SLICE_ATTR_WAYS) << "nothing may go, and nobody takes it";
  slice_eviction older = changes;
  older.size = 250;
  slice_attr_saved(&bucket, &older);
  EXPECT_EQ(claim(9), SLICE_ATTR_WAYS) << "there are newer changes";
  slice_attr_saved(&bucket, &changes);
  EXPECT_LT(claim(9), SLICE_ATTR_WAYS);
  EXPECT_EQ(slice_attr_find(&bucket, 3), SLICE_ATTR_WAYS) << "it was the only one that could go";
}

}  // namespace
