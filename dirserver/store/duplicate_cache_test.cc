#include "dirserver/store/duplicate_cache.h"

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

class DuplicateTest : public DirectoryFixture {
 protected:
  // Results of a call with this xid, as bytes.
  template <class Args>
  std::string results(Procedure procedure, const Args& args, std::uint32_t xid, rpc::Endpoint from = kClient,
                      Credential who = {}) {
    return std::string(as_text(wait(send(procedure, args, std::move(who), xid, from))));
  }
};

TEST_F(DuplicateTest, ARetransmissionGetsTheVerySameReply) {
  Handle directory = mkdir(root(), "d").handle, file = create(root(), "f").handle;
  create(root(), "old");
  mkdir(root(), "empty");
  nfs3::SetAttributes set;
  set.mode = 0600;
  auto twice = [&](Procedure procedure, const auto& args, std::uint32_t xid) {
    std::string first = results(procedure, args, xid);
    EXPECT_EQ(load_be<std::uint32_t>(reinterpret_cast<const std::uint8_t*>(first.data())), 0u);
    create(directory, "noise-" + std::to_string(xid));
    EXPECT_EQ(results(procedure, args, xid), first) << xid;
    restart();
    EXPECT_EQ(results(procedure, args, xid), first) << xid << " after a crash";
    EXPECT_EQ(results(procedure, args, xid, {kClient.address, 999}), first) << xid << " from another port";
  };
  twice(Procedure::kCreate, nfs3::CreateArgs{.where = {directory, "a"}, .mode = nfs3::CreateMode::kGuarded},
        1);
  twice(Procedure::kMkdir, nfs3::MkdirArgs{.where = {directory, "b"}}, 2);
  twice(Procedure::kSymlink, nfs3::SymlinkArgs{.where = {directory, "c"}, .target = "t"}, 3);
  twice(Procedure::kMknod, nfs3::MknodArgs{.where = {directory, "e"}}, 4);
  twice(Procedure::kLink, nfs3::LinkArgs{.file = file, .link = {directory, "g"}}, 5);
  twice(Procedure::kRename, nfs3::RenameArgs{.from = {directory, "a"}, .to = {directory, "h"}}, 6);
  twice(Procedure::kSetattr, nfs3::SetattrArgs{.object = file, .attributes = set}, 7);
  Handle top = root();
  twice(Procedure::kRemove, nfs3::DirOpArgs{top, "old"}, 8);
  twice(Procedure::kRmdir, nfs3::DirOpArgs{top, "empty"}, 9);
}

TEST_F(DuplicateTest, AFailureIsRepeatedToo) {
  Handle top = root();
  std::string first = results(Procedure::kRemove, nfs3::DirOpArgs{top, "none"}, 1);
  create(root(), "none");
  EXPECT_EQ(results(Procedure::kRemove, nfs3::DirOpArgs{top, "none"}, 1), first);
  EXPECT_EQ(lookup(root(), "none").status, NfsStatus::kOk);
}

TEST_F(DuplicateTest, OtherClientsXidsAndArgumentsAreOtherCalls) {
  Handle top = root();
  nfs3::MkdirArgs args{.where = {top, "d"}};
  std::string first = results(Procedure::kMkdir, args, 1);
  EXPECT_NE(results(Procedure::kMkdir, args, 2), first);
  EXPECT_NE(results(Procedure::kMkdir, args, 1, {kClient.address.v4() + 1, kClient.port}), first);
  nfs3::MkdirArgs other{.where = {top, "e"}};
  std::string third = results(Procedure::kMkdir, other, 1);
  EXPECT_NE(third, first);
  EXPECT_EQ(lookup(root(), "e").status, NfsStatus::kOk);
}

// What one user was answered is not another's: neither the handle nor the status.
TEST_F(DuplicateTest, AnotherUsersCallIsAnotherCall) {
  Handle own = mkdir(root(), "own").handle;
  nfs3::SetAttributes set;
  set.mode = 0700;
  set.uid = 1000;
  ASSERT_EQ(setattr(own, set), NfsStatus::kOk);
  nfs3::CreateArgs args{.where = {own, "secret"}, .mode = nfs3::CreateMode::kGuarded};
  Credential owner{1000, 1000, {5, 6}};
  std::string first = results(Procedure::kCreate, args, 1, kClient, owner);
  auto others = [&] {
    for (const Credential& other : {Credential{1001, 1000, {5, 6}}, Credential{1001, 1001, {}}}) {
      std::string refused = results(Procedure::kCreate, args, 1, kClient, other);
      EXPECT_EQ(refused.substr(3, 1), std::string(1, static_cast<char>(NfsStatus::kAcces))) << other.uid;
    }
    for (const Credential& same : {Credential{1000, 1001, {5, 6}}, Credential{1000, 1000, {5, 7}}}) {
      std::string exists = results(Procedure::kCreate, args, 1, kClient, same);
      EXPECT_EQ(exists.substr(3, 1), std::string(1, static_cast<char>(NfsStatus::kExist))) << same.gid;
    }
    EXPECT_EQ(results(Procedure::kCreate, args, 1, kClient, owner), first);
  };
  others();
  restart();
  others();
}

// Over TCP it comes by a new connection, as after a proxy's death, and the first one's answer goes to the old
// one.
TEST_F(DuplicateTest, ASecondCopyOfACallUnderWayWaitsOverTcpAndIsDroppedOverUdp) {
  store().hold_syncs(true);
  Handle top = root();
  nfs3::MkdirArgs args{.where = {top, "d"}};
  auto first = send(Procedure::kMkdir, args, {}, 5);
  auto second = send(Procedure::kMkdir, args, {}, 5);
  datagrams_ = true;
  auto third = send(Procedure::kMkdir, args, {}, 5);
  datagrams_ = false;
  loop_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(first->ended);
  EXPECT_FALSE(second->ended);
  EXPECT_TRUE(third->ended);
  EXPECT_FALSE(third->reply.has_value());
  store().hold_syncs(false);
  wait(first);
  wait(second);
  EXPECT_EQ(*second->results(), *first->results());
  EXPECT_EQ(results(Procedure::kMkdir, args, 5), *first->results());
}

TEST_F(DuplicateTest, AskedToComeAgainIsNotRemembered) {
  store().set_no_space(true);
  Handle top = root();
  nfs3::MkdirArgs args{.where = {top, "d"}};
  EXPECT_EQ(results(Procedure::kMkdir, args, 5).substr(3, 1), std::string(1, 28));  // NOSPC: an answer
  store().set_no_space(false);
  EXPECT_EQ(results(Procedure::kMkdir, args, 5).substr(3, 1), std::string(1, 28));
  EXPECT_EQ(results(Procedure::kMkdir, args, 6).substr(3, 1), std::string(1, 0));
}

// ---- the cache by itself ----

class DuplicateBoundsTest : public ::testing::Test {
 protected:
  CallKey key(std::uint32_t xid, std::uint32_t uid = 1000, IpAddress address = 1) {
    return {.address = address,
            .xid = Xid{xid},
            .procedure = 8,
            .checksum = 2,
            .caller = {.uid = uid, .gid = 7, .groups = 8}};
  }
  void answer(DuplicateCache& cache, std::uint32_t xid, const std::string& reply) {
    answer(cache, key(xid), reply);
  }
  void answer(DuplicateCache& cache, const CallKey& call, const std::string& reply) {
    EXPECT_EQ(cache.begin(call, SiteId{3}).state, DuplicateCache::Seen::State::kNew);
    Transaction transaction(cells_);
    cache.record(call, reply, SiteId{3}, transaction);
    ASSERT_TRUE(transaction.commit().has_value());
    cache.finish(call, reply);
  }
  std::size_t records() {
    std::size_t count = 0;
    KeyRange range = range_of(SiteId{3}, CellKind::kDuplicate);
    for (auto at = store_.iterate(range.begin, range.end); at->valid(); at->next()) ++count;
    return count;
  }
  ManualLoop loop_;
  Metrics metrics_;
  storage::MemoryMedium medium_;
  storage::MemoryStore store_{loop_, medium_};
  Stays stays_{loop_};
  CellStore cells_{store_, metrics_, 1 << 20, [](SiteId) { return true; }, stays_};
};

TEST_F(DuplicateBoundsTest, EntriesAreBoundedAlsoInTheStore) {
  DuplicateCache cache(loop_, metrics_, {.max_entries = 10, .erased_together = 4});
  for (std::uint32_t xid = 0; xid < 100; ++xid) answer(cache, xid, "reply");
  EXPECT_LE(cache.entries(), 10u);
  EXPECT_LE(records(), 11u + 4u);
  EXPECT_EQ(cache.begin(key(99), SiteId{3}).reply, "reply");
  EXPECT_EQ(cache.begin(key(1), SiteId{3}).state, DuplicateCache::Seen::State::kNew);
}

TEST_F(DuplicateBoundsTest, OneUserDoesNotMakeAnothersRecordsGo) {
  DuplicateCache::Options options{.max_entries = 100, .erased_together = 4};
  {
    DuplicateCache cache(loop_, metrics_, options);
    for (std::uint32_t xid = 0; xid < 10; ++xid) answer(cache, key(xid, 1000), "mine");
    answer(cache, key(7, 1002, 2), "another host's");
    for (std::uint32_t xid = 0; xid < 1000; ++xid) answer(cache, key(xid, 1001), "reply");
    for (std::uint32_t uid = 2000; uid < 3000; ++uid) answer(cache, key(1, uid), std::string(500, 'r'));
    EXPECT_EQ(cache.begin(key(7, 1002, 2), SiteId{3}).reply, "another host's");
    EXPECT_EQ(cache.entries(), 100u);
  }
  DuplicateCache cache(loop_, metrics_, options);
  ASSERT_TRUE(cache.load(cells_, {SiteId{3}}).has_value());
  EXPECT_EQ(cache.begin(key(7, 1002, 2), SiteId{3}).reply, "another host's") << "after a restart";
  answer(cache, key(5000, 1001), "reply");
}

TEST_F(DuplicateBoundsTest, ARepeatedCallIsKnownAgainBehindAHundredThousandOfAnother) {
  DuplicateCache cache(loop_, metrics_);
  answer(cache, key(1, 1000), "removed");
  for (std::uint32_t xid = 0; xid < 100'000; ++xid) {
    cache.begin(key(xid, 1001), SiteId{3});
    cache.finish(key(xid, 1001), "no such name");
  }
  EXPECT_EQ(cache.begin(key(1, 1000), SiteId{3}).reply, "removed");
}

TEST_F(DuplicateBoundsTest, ARecordThatDoesNotSayWhoCalledIsDiscarded) {
  std::string old = encode(DuplicateRecord{key(1), loop_.wall(), "reply"});
  old[0] = 1;
  old.erase(1 + 16, 12);  // version, call; then uid, gid, groups
  storage::WriteBatch batch;
  batch.put(duplicate_key(SiteId{3}, 5), old);
  ASSERT_TRUE(store_.apply(batch).has_value());
  DuplicateCache cache(loop_, metrics_, {.erased_together = 1});
  ASSERT_TRUE(cache.load(cells_, {SiteId{3}}).has_value());
  EXPECT_EQ(cache.entries(), 0u);
  answer(cache, 1, "new");
  EXPECT_EQ(records(), 1u);
}

TEST_F(DuplicateBoundsTest, BytesAndAgeAreBounded) {
  DuplicateCache cache(loop_, metrics_, {.max_bytes = 1000, .max_age = std::chrono::seconds(60)});
  for (std::uint32_t xid = 0; xid < 10; ++xid) answer(cache, xid, std::string(300, 'r'));
  EXPECT_LE(cache.entries(), 3u);
  loop_.advance(std::chrono::seconds(61));
  answer(cache, 50, "r");
  EXPECT_EQ(cache.entries(), 1u);
}

// The next host that the server is served at has a clock of its own.
TEST_F(DuplicateBoundsTest, AnotherHostsClockMakesNobodyForgotten) {
  std::uint32_t xid = 2;
  for (auto ahead : {std::chrono::hours(-1), std::chrono::hours(1)}) {
    storage::WriteBatch batch;
    batch.put(duplicate_key(SiteId{3}, 5),
              encode(DuplicateRecord{key(1), {loop_.wall().ns + Duration(ahead).count()}, "reply"}));
    ASSERT_TRUE(store_.apply(batch).has_value());
    DuplicateCache cache(loop_, metrics_);
    ASSERT_TRUE(cache.load(cells_, {SiteId{3}}).has_value());
    answer(cache, xid++, "another");
    EXPECT_EQ(cache.begin(key(1), SiteId{3}).reply, "reply");
  }
}

TEST_F(DuplicateBoundsTest, ACallUnderWayIsNotForgotten) {
  DuplicateCache cache(loop_, metrics_, {.max_entries = 5});
  cache.begin(key(1000), SiteId{3});
  for (std::uint32_t xid = 0; xid < 50; ++xid) answer(cache, xid, "reply");
  EXPECT_EQ(cache.begin(key(1000), SiteId{3}).state, DuplicateCache::Seen::State::kInProgress);
  EXPECT_LE(cache.entries(), 6u);
}

TEST_F(DuplicateBoundsTest, WhoWaitsForACallUnderWayIsToldThatItIsOver) {
  DuplicateCache cache(loop_, metrics_);
  for (std::string_view reply : {"reply", ""}) {
    const CallKey call = key(reply.empty() ? 2 : 1);
    cache.begin(call, SiteId{3});
    int over = 0;
    const auto wait = [](DuplicateCache& in, CallKey known, int& ended) -> Task<void> {
      co_await in.over(known);
      ++ended;
    };
    for (int i = 0; i < 2; ++i) spawn(wait(cache, call, over));
    loop_.advance(Duration(1));
    EXPECT_EQ(over, 0);
    cache.finish(call, reply);
    loop_.advance(Duration(1));
    EXPECT_EQ(over, 2);
    EXPECT_EQ(cache.begin(call, SiteId{3}).reply, reply);
  }
}

TEST_F(DuplicateBoundsTest, LoadsTheNewestWithinItsBounds) {
  {
    DuplicateCache cache(loop_, metrics_, {.max_entries = 100});
    for (std::uint32_t xid = 0; xid < 50; ++xid) answer(cache, xid, "reply" + std::to_string(xid));
  }
  DuplicateCache cache(loop_, metrics_, {.max_entries = 10, .erased_together = 4});
  ASSERT_TRUE(cache.load(cells_, {SiteId{3}}).has_value());
  EXPECT_EQ(cache.entries(), 10u);
  EXPECT_EQ(cache.begin(key(49), SiteId{3}).reply, "reply49");
  answer(cache, 100, "new");
  EXPECT_LE(records(), 11u);  // those it does not know any more are gone from the store as well
}

TEST_F(DuplicateBoundsTest, ACorruptRecordIsRefused) {
  ASSERT_TRUE([&] {
    storage::WriteBatch batch;
    batch.put(duplicate_key(SiteId{3}, 1), "\x01nonsense");
    return store_.apply(batch).has_value();
  }());
  DuplicateCache cache(loop_, metrics_);
  auto loaded = cache.load(cells_, {SiteId{3}});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Errc::kCorrupt);
}

// ---- sites that come and go ----

class DuplicateMoveTest : public DuplicateBoundsTest {
 protected:
  static constexpr SiteId kSite{3};
  using State = DuplicateCache::Seen::State;

  std::string record(std::uint32_t xid, const std::string& reply) {
    return encode(DuplicateRecord{key(xid), loop_.wall(), reply});
  }
  slice::Status arrive(DuplicateCache& cache, std::uint64_t number, std::uint32_t xid,
                       const std::string& reply) {
    return cache.arrive(duplicate_key(kSite, number), record(xid, reply));
  }
};

TEST_F(DuplicateMoveTest, WhatArrivedIsKnownAgainOnceTheSiteIsHere) {
  DuplicateCache cache(loop_, metrics_, {.max_entries = 100, .erased_together = 4});
  EXPECT_FALSE(cache.arrive(duplicate_key(kSite, 1), std::nullopt)) << "it is not expected";
  cache.expect(kSite);
  for (std::uint32_t i = 1; i <= 50; ++i) ASSERT_TRUE(arrive(cache, i, i, "reply" + std::to_string(i)));
  ASSERT_TRUE(cache.arrive(duplicate_key(kSite, 7), std::nullopt));
  ASSERT_TRUE(cache.arrive(duplicate_key(kSite, 999), std::nullopt)) << "that never came";
  EXPECT_EQ(cache.begin(key(9), SiteId{4}).state, State::kNew) << "it is not here yet";
  cache.finish(key(9), "");
  ASSERT_TRUE(cache.load(cells_, {kSite}));
  EXPECT_EQ(cache.begin(key(9), kSite).reply, "reply9");
  EXPECT_EQ(cache.begin(key(9), kSite).reply, "reply9");
  EXPECT_EQ(cache.begin(key(7), kSite).state, State::kNew) << "its record was erased";
  for (std::uint32_t xid = 100; xid < 110; ++xid) answer(cache, xid, "later");
  EXPECT_GE(cache.entries(), 49u + 10u) << "by and by all are among the others";
  EXPECT_EQ(cache.begin(key(50), kSite).reply, "reply50");
  EXPECT_TRUE(store_.get(duplicate_key(kSite, 51)).value()) << "numbers go on";
}

TEST_F(DuplicateMoveTest, WhatArrivedIsBoundedAsTheOthersAre) {
  DuplicateCache cache(loop_, metrics_, {.max_entries = 10, .erased_together = 4});
  cache.expect(kSite);
  storage::WriteBatch batch;
  for (std::uint32_t i = 1; i <= 50; ++i) {
    ASSERT_TRUE(arrive(cache, i, i, "reply"));
    batch.put(duplicate_key(kSite, i), record(i, "reply"));
  }
  ASSERT_TRUE(store_.apply(batch));
  ASSERT_TRUE(cache.load(cells_, {kSite}));
  for (std::uint32_t xid = 100; xid < 110; ++xid) answer(cache, xid, "later");
  EXPECT_EQ(cache.entries(), 10u);
  EXPECT_LE(records(), 11u + 4u) << "also in the store";
}

TEST_F(DuplicateMoveTest, OfACallThatCameTwiceTheLaterAnswerHolds) {
  DuplicateCache cache(loop_, metrics_, {.erased_together = 4});
  answer(cache, 1, "of long ago");
  cache.release(kSite);
  cache.expect(kSite);
  ASSERT_TRUE(arrive(cache, 20, 1, "first"));
  ASSERT_TRUE(arrive(cache, 30, 1, "second"));
  ASSERT_TRUE(arrive(cache, 31, 2, "another's"));
  ASSERT_TRUE(arrive(cache, 31, 3, "put anew"));
  ASSERT_TRUE(cache.load(cells_, {kSite}));
  EXPECT_EQ(cache.begin(key(1), kSite).reply, "second");
  for (std::uint32_t xid = 100; xid < 110; ++xid) answer(cache, xid, "later");
  EXPECT_EQ(cache.begin(key(1), kSite).reply, "second");
  EXPECT_EQ(cache.begin(key(2), kSite).state, State::kNew);
  EXPECT_EQ(cache.begin(key(3), kSite).reply, "put anew");
}

TEST_F(DuplicateMoveTest, WhatCannotBeReadIsSaid) {
  DuplicateCache cache(loop_, metrics_);
  cache.expect(kSite);
  slice::Status arrived = cache.arrive(duplicate_key(kSite, 1), "\x01nonsense");
  ASSERT_FALSE(arrived);
  EXPECT_EQ(arrived.error().code, Errc::kCorrupt);
}

TEST_F(DuplicateMoveTest, OfASiteThatWentNothingIsKnown) {
  DuplicateCache cache(loop_, metrics_, {.max_entries = 20, .erased_together = 1});
  for (std::uint32_t xid = 1; xid <= 20; ++xid) answer(cache, xid, "reply");
  cache.begin(key(500), kSite);
  cache.finish(key(500), "refused");
  ASSERT_EQ(cache.unrecorded({kSite.value}).size(), 1u);
  cache.begin(key(1000), kSite);
  cache.release(kSite);
  EXPECT_EQ(cache.unrecorded({kSite.value}).size(), 0u);
  EXPECT_EQ(cache.begin(key(1000), kSite).state, State::kInProgress) << "what is under way ends";
  cache.finish(key(1000), "ended");
  EXPECT_EQ(cache.begin(key(1000), kSite).reply, "ended");
  EXPECT_EQ(cache.begin(key(20), kSite).state, State::kNew);
  cache.finish(key(20), "");
  // The site is back, with its records, and what is forgotten of before does not take these away.
  cache.expect(kSite);
  ASSERT_TRUE(arrive(cache, 15, 15, "reply"));
  ASSERT_TRUE(cache.load(cells_, {kSite}));
  EXPECT_EQ(cache.begin(key(15), kSite).reply, "reply");
  const std::size_t before = records();
  for (std::uint32_t xid = 100; xid < 110; ++xid) answer(cache, xid, "later");
  EXPECT_EQ(records(), before + 10u);
}

}  // namespace
}  // namespace slice::dirserver::testing
