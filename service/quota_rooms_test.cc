#include "service/quota_rooms.h"

#include <gtest/gtest.h>

#include "service/authority_client.h"
#include "service/internal_program.h"
#include "service/testing/service_fixture.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBlock = 4096;

TEST(QuotaNeed, IsOfWholeBlocksBehindWhatIsStored) {
  nfs3::Attributes attributes;
  attributes.size = 10'000;
  attributes.used = 3 * kBlock;
  EXPECT_EQ(solid_bytes(attributes), 10'000u);
  attributes.used = 2 * kBlock;
  EXPECT_EQ(solid_bytes(attributes), 0u) << "there is a hole";
  EXPECT_EQ(quota_need(10'000, 0, 10'000), 0u);
  EXPECT_EQ(quota_need(10'000, 10'000, 2288), 0u) << "the rest of the block";
  EXPECT_EQ(quota_need(10'000, 10'000, 2289), kBlock);
  EXPECT_EQ(quota_need(10'000, 5 * kBlock + 1, 1), kBlock);
  EXPECT_EQ(quota_need(0, 100, kBlock), 2 * kBlock);
  EXPECT_EQ(quota_need(0, 100, 0), 0u);
}

// Gives room as the test says, notes what it is asked, and takes what it is told.
class FakeAuthority : public InternalProgram {
 public:
  FakeAuthority() : InternalProgram(wire::kAuthorityProgram) {
    on<wire::FetchArgs>(wire::AuthorityProcedure::kFetch, [this](const auto&) {
      ++fetches;
      return file;
    });
    on<wire::MergeArgs>(wire::AuthorityProcedure::kMerge, [this](const auto& args) {
      return wire::MergeResult{.status = takes ? nfs3::Status::kOk : nfs3::Status::kJukebox,
                               .files = std::vector<wire::FetchResult>(takes ? args.files.size() : 0, file)};
    });
    on<wire::RoomArgs>(wire::AuthorityProcedure::kRoom, [this](const auto& args) {
      asked.push_back(args);
      wire::RoomResult result = room;
      if (left < args.held + args.needed) result.promised = 0;
      return result;
    });
  }
  wire::FetchResult file;
  wire::RoomResult room{.promised = 8 * kBlock};
  std::uint64_t left = ~std::uint64_t{0} / 2;
  bool takes = true;
  unsigned fetches = 0;
  std::vector<wire::RoomArgs> asked;
};

class QuotaRoomsTest : public testing::ServiceFixture {
 protected:
  QuotaRoomsTest() : ServiceFixture("store1"), client_(context_) {
    serve("dir1", authority_);
    authority_.file.attributes.uid = 1001;
    authority_.file.attributes.gid = 50;
    authority_.file.attributes.mode = 0666;
    handle_.fileid = FileId{7};
    handle_.directory_site = SiteId{5};
    Settings limited = *settings_.get();
    limited.quotas[{QuotaKind::kUser, 1001}].space.hard = 1 << 20;
    settings_.set(std::move(limited));
  }
  Result<QuotaRooms::Taken> room(std::uint64_t offset, std::uint64_t count, std::uint64_t present = 0,
                                 std::uint32_t uid = 1001) {
    Identity who;
    who.uid = uid;
    KnownFile known = run(client_.fetch(handle_, AuthorityClient::Freshness::kCached)).value();
    return run(client_.room(who, handle_, offset, count, known,
                            [present]() -> Task<std::uint64_t> { co_return present; }));
  }
  void wrote(Result<QuotaRooms::Taken>& taken, std::uint64_t end) {
    taken->stored(handle_.fileid);
    client_.note(handle_, Epoch{0}, end, {1, 0});
  }

  FakeAuthority authority_;
  AuthorityClient client_;
  routing::FileHandle handle_;
};

TEST_F(QuotaRoomsTest, OneQuestionIsEnoughForSeveralWrites) {
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto taken = room(i * kBlock, kBlock);
    ASSERT_TRUE(taken);
    wrote(taken, (i + 1) * kBlock);
  }
  ASSERT_EQ(authority_.asked.size(), 1u);
  EXPECT_EQ(authority_.asked[0].held, 0u);
  EXPECT_EQ(authority_.asked[0].needed, kBlock);
  auto taken = room(8 * kBlock, kBlock);
  ASSERT_TRUE(taken);
  ASSERT_EQ(authority_.asked.size(), 2u);
  EXPECT_EQ(authority_.asked[1].held, 8 * kBlock) << "the authority was not told of these";
  loop_.advance(2s);
  auto later = room(9 * kBlock, kBlock);
  ASSERT_EQ(authority_.asked.size(), 3u);
  EXPECT_EQ(authority_.asked[2].held, kBlock) << "it was; what a write has that goes on is held";
}

TEST_F(QuotaRoomsTest, WhatAWriteDidNotStoreIsThereForOthers) {
  {
    auto taken = room(0, 8 * kBlock);
  }
  auto another = room(0, kBlock);
  ASSERT_EQ(authority_.asked.size(), 2u);
  EXPECT_EQ(authority_.asked[1].held, 0u);
}

TEST_F(QuotaRoomsTest, WhatTheAuthorityDidNotTakeIsHeldOn) {
  authority_.takes = false;
  auto taken = room(0, 8 * kBlock);
  wrote(taken, 8 * kBlock);
  loop_.advance(10s);
  auto another = room(8 * kBlock, kBlock);
  EXPECT_EQ(authority_.asked.back().held, 8 * kBlock);
}

TEST_F(QuotaRoomsTest, WithoutRoomAWriteIsRefusedAndAskedForAnew) {
  authority_.left = 0;
  auto taken = room(0, kBlock);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kQuota);
  EXPECT_EQ(nfs3::status_of(taken.error()), nfs3::Status::kDquot);
  EXPECT_EQ(authority_.fetches, 2u) << "what was kept could be from before";
  EXPECT_TRUE(room(0, kBlock, kBlock)) << "all of it is stored already";
  authority_.file.attributes.size = authority_.file.attributes.used = kBlock;
  EXPECT_TRUE(room(0, kBlock)) << "the authority says so now";
  EXPECT_FALSE(room(kBlock, 1));
  EXPECT_TRUE(room(kBlock, 1, 0, 0)) << "the superuser";
}

TEST_F(QuotaRoomsTest, WaitsForWhatOthersMayNotUse) {
  authority_.left = 0;
  authority_.room.others = true;
  Identity who;
  who.uid = 1001;
  KnownFile known = run(client_.fetch(handle_, AuthorityClient::Freshness::kCached)).value();
  std::optional<Result<QuotaRooms::Taken>> got;
  start(client_.room(who, handle_, 0, kBlock, known, []() -> Task<std::uint64_t> { co_return 0; }),
        [&](auto result) { got.emplace(std::move(result)); });
  loop_.advance(1s);
  EXPECT_FALSE(got);
  authority_.left = 1 << 20;
  loop_.advance(1s);
  ASSERT_TRUE(got);
  EXPECT_TRUE(*got);
  authority_.left = 0;
  loop_.advance(5s);
  const MonoTime begin = loop_.now();
  EXPECT_FALSE(room(0, kBlock));
  EXPECT_GE(loop_.now() - begin, QuotaRooms::kPatience) << "not for ever";
}

TEST_F(QuotaRoomsTest, WhoHasNoQuotaAsksNobody) {
  authority_.file.attributes.uid = 1002;
  EXPECT_TRUE(room(0, kBlock));
  EXPECT_TRUE(authority_.asked.empty());
}

TEST_F(QuotaRoomsTest, ADirectoryServerThatIsAwayMakesTheClientWait) {
  (void)room(0, 8 * kBlock);
  silence("dir1");
  loop_.advance(1900ms);
  auto taken = room(0, 16 * kBlock);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace slice::service
