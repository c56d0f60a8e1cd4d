#include "service/authority_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "service/testing/service_fixture.h"

namespace slice::service {
namespace {

using Freshness = AuthorityClient::Freshness;
using namespace std::chrono_literals;

// A directory server's authority program, with one answer for every file.
class FakeAuthority : public rpc::Program {
 public:
  explicit FakeAuthority(Loop& loop) : loop_(loop) {}
  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (call.procedure == static_cast<std::uint32_t>(wire::AuthorityProcedure::kFetch)) {
      wire::FetchArgs args;
      if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
      ++fetches;
      if (args.with_striped) answer.striped = true;
      wire::FetchResult now = answer;  // as it is when the question arrives
      if (delay > 0ns) co_await loop_.sleep(delay);
      encode(results, now);
    } else {
      wire::MergeArgs args;
      if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
      ++calls;
      wire::MergeResult result;
      if (answer.status == nfs3::Status::kJukebox) result.status = answer.status;
      for (const wire::FileMerge& each : args.files) {
        merges.push_back(each);
        teller = args.teller;
        merges.back().handle = {};
        if (answer.status == nfs3::Status::kOk) merge(each);
        if (result.status == nfs3::Status::kOk) result.files.push_back(answer);
      }
      if (held > 0 && result.files.size() > 1) result.files[--held].status = nfs3::Status::kJukebox;
      if (delay > 0ns) co_await loop_.sleep(delay);
      encode(results, result);
    }
    co_return rpc::Outcome::kReply;
  }

  Loop& loop_;
  wire::FetchResult answer;
  Duration delay{0};
  int fetches = 0;
  int calls = 0;         // MERGE
  std::size_t held = 0;  // of each call of several files, that many are told "later" in turn, the last first
  std::vector<wire::FileMerge> merges;
  std::uint32_t teller = 99;  // of the last

 private:
  void merge(const wire::FileMerge& merge) {
    if (merge.epoch.value >= answer.attributes.rdev_major) {
      answer.attributes.size = std::max(answer.attributes.size, merge.size);
    }
    if (merge.mtime) answer.attributes.mtime = std::max(answer.attributes.mtime, *merge.mtime);
  }
};

class AuthorityClientTest : public testing::ServiceFixture {
 protected:
  AuthorityClientTest() : testing::ServiceFixture("small1"), authority_(loop_), client_(context_, {}, 4) {
    serve("dir1", authority_);
    authority_.answer.attributes.size = 100;
    authority_.answer.attributes.mode = 0640;
    authority_.answer.attributes.rdev_major = 3;
    handle_ = file(7);
  }
  static routing::FileHandle file(std::uint64_t id) {
    routing::FileHandle handle;
    handle.fileid = FileId{id};
    handle.directory_site = SiteId{5};
    return handle;
  }
  Result<KnownFile> fetch(Freshness freshness, bool striped = false) {
    return run(client_.fetch(handle_, freshness, striped));
  }
  Status report(std::uint32_t epoch, std::uint64_t end, std::uint32_t mtime) {
    return run(client_.report(handle_, Epoch{epoch}, end, {mtime, 0}));
  }

  FakeAuthority authority_;
  AuthorityClient client_;
  routing::FileHandle handle_;
};

TEST_F(AuthorityClientTest, KeepsWhatItFetchedForTwoSeconds) {
  auto known = fetch(Freshness::kCached);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->attributes.size, 100u);
  EXPECT_EQ(known->epoch, Epoch{3});
  loop_.advance(1900ms);
  ASSERT_TRUE(fetch(Freshness::kCached));
  EXPECT_EQ(authority_.fetches, 1);
  loop_.advance(200ms);
  authority_.answer.attributes.mode = 0;
  EXPECT_EQ(fetch(Freshness::kCached)->attributes.mode, 0u);
  EXPECT_EQ(authority_.fetches, 2);
  fetch(Freshness::kNow).value();
  EXPECT_EQ(authority_.fetches, 3);
}

TEST_F(AuthorityClientTest, SharesOneQuestionAmongThoseWhoAskAtOnce) {
  authority_.delay = 10ms;
  int answered = 0;
  for (int i = 0; i < 5; ++i) start(client_.fetch(handle_, Freshness::kCached), [&](auto) { ++answered; });
  ASSERT_TRUE(loop_.run_until([&] { return answered == 5; }));
  EXPECT_EQ(authority_.fetches, 1);
}

TEST_F(AuthorityClientTest, AsksAnewForWhoWantsToKnowNowThoughAQuestionIsUnderWay) {
  authority_.delay = 10ms;
  int answered = 0;
  std::uint64_t size = 0;
  start(client_.fetch(handle_, Freshness::kNow), [&](auto) { ++answered; });
  loop_.advance(5ms);
  authority_.answer.attributes.size = 500;  // after the first question was answered, before its answer came
  for (int i = 0; i < 3; ++i) {
    start(client_.fetch(handle_, Freshness::kNow), [&](auto known) {
      ++answered;
      size = known->attributes.size;
    });
  }
  ASSERT_TRUE(loop_.run_until([&] { return answered == 4; }));
  EXPECT_EQ(size, 500u);
  EXPECT_EQ(authority_.fetches, 2);
}

TEST_F(AuthorityClientTest, AsksAgainForTheStripedMarkOnlyUntilItIsSet) {
  fetch(Freshness::kCached).value();
  EXPECT_TRUE(fetch(Freshness::kCached, true)->striped);
  EXPECT_EQ(authority_.fetches, 2);
  EXPECT_TRUE(fetch(Freshness::kCached, true)->striped);
  EXPECT_EQ(authority_.fetches, 2);
}

TEST_F(AuthorityClientTest, TellsOfNotesWithinASecondAndTogether) {
  fetch(Freshness::kCached).value();
  client_.note(handle_, Epoch{3}, 200, {50, 0});
  client_.note(handle_, Epoch{3}, 150, {51, 0});
  EXPECT_EQ(client_.peek(handle_.fileid)->attributes.size, 200u);
  EXPECT_EQ(client_.peek(handle_.fileid)->attributes.mtime.seconds, 51u);
  EXPECT_EQ(client_.peek(handle_.fileid)->attributes.ctime.seconds, 51u);
  loop_.advance(990ms);
  EXPECT_TRUE(authority_.merges.empty());
  loop_.advance(20ms);
  ASSERT_EQ(authority_.merges.size(), 1u);
  EXPECT_EQ(authority_.merges[0].size, 200u);
  EXPECT_EQ(authority_.merges[0].epoch, Epoch{3});
  EXPECT_EQ(authority_.merges[0].mtime->seconds, 51u);
  loop_.advance(10s);
  EXPECT_EQ(authority_.merges.size(), 1u);
}

TEST_F(AuthorityClientTest, TellsOfManyFilesInOneCallAndAgainOfThoseThatWereHeld) {
  for (std::uint64_t id = 1; id <= 10; ++id) {
    client_.note(file(id), Epoch{3}, id, {1, 0});
    loop_.advance(5ms);
  }
  authority_.held = 3;  // of the first call the third file
  loop_.advance(1100ms);
  EXPECT_EQ(authority_.calls, 1);
  ASSERT_EQ(authority_.merges.size(), 10u);
  EXPECT_EQ(authority_.merges[9].size, 10u);
  loop_.advance(1100ms);
  EXPECT_EQ(authority_.calls, 2);
  ASSERT_EQ(authority_.merges.size(), 11u);
  EXPECT_EQ(authority_.merges[10].size, 3u);
  loop_.advance(5s);
  EXPECT_EQ(authority_.calls, 2);
}

TEST_F(AuthorityClientTest, AReportDoesNotWaitForTheOthersTurn) {
  for (std::uint64_t id = 1; id <= 3; ++id) client_.note(file(id), Epoch{3}, id, {1, 0});
  ASSERT_TRUE(report(3, 50, 2));
  EXPECT_EQ(authority_.merges.size(), 1u);
  loop_.advance(1100ms);
  EXPECT_EQ(authority_.merges.size(), 4u);
  EXPECT_EQ(authority_.calls, 2);
}

TEST_F(AuthorityClientTest, ReportsAtOnceWithWhatWasNoted) {
  fetch(Freshness::kCached).value();
  client_.note(handle_, Epoch{3}, 300, {60, 0});
  ASSERT_TRUE(report(3, 250, 61));
  ASSERT_EQ(authority_.merges.size(), 1u);
  EXPECT_EQ(authority_.merges[0].size, 300u);
  EXPECT_EQ(authority_.merges[0].mtime->seconds, 61u);
  loop_.advance(5s);
  EXPECT_EQ(authority_.merges.size(), 1u) << "told once";
  ASSERT_NE(client_.peek(handle_.fileid), nullptr);
  EXPECT_EQ(client_.peek(handle_.fileid)->attributes.size, 300u);
}

TEST_F(AuthorityClientTest, JoinsReportsThatComeWhileOneIsUnderWay) {
  authority_.delay = 10ms;
  int ended = 0;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    start(client_.report(handle_, Epoch{3}, i * 1000, {70, 0}), [&](auto status) {
      EXPECT_TRUE(status);
      ++ended;
    });
  }
  ASSERT_TRUE(loop_.run_until([&] { return ended == 5; }));
  ASSERT_EQ(authority_.merges.size(), 2u);
  EXPECT_EQ(authority_.merges[0].size, 1000u);
  EXPECT_EQ(authority_.merges[1].size, 5000u);
}

TEST_F(AuthorityClientTest, AnOlderEpochNeverGrowsTheSize) {
  fetch(Freshness::kCached).value();
  client_.note(handle_, Epoch{2}, 9999, {80, 0});
  EXPECT_EQ(client_.peek(handle_.fileid)->attributes.size, 100u);
  EXPECT_EQ(client_.peek(handle_.fileid)->attributes.mtime.seconds, 80u);
  client_.note(handle_, Epoch{4}, 10, {81, 0});
  loop_.advance(1100ms);
  ASSERT_EQ(authority_.merges.size(), 1u);
  EXPECT_EQ(authority_.merges[0].epoch, Epoch{4});
  EXPECT_EQ(authority_.merges[0].size, 10u) << "bytes of the older epoch were cut off";
}

TEST_F(AuthorityClientTest, OwnWritesAreSeenThoughTheAuthorityDoesNotKnowThemYet) {
  fetch(Freshness::kCached).value();
  client_.note(handle_, Epoch{3}, 4000, {90, 0});
  EXPECT_EQ(fetch(Freshness::kNow)->attributes.size, 4000u);
}

TEST_F(AuthorityClientTest, OwnWritesAreSeenThoughTheAnswerIsFromBeforeTheyWereTold) {
  client_.note(handle_, Epoch{3}, 4000, {90, 0});
  loop_.advance(950ms);
  authority_.delay = 200ms;  // answered with what is now, but that arrives after the telling has ended
  std::uint64_t size = 0;
  start(client_.fetch(handle_, Freshness::kNow), [&](auto known) { size = known->attributes.size; });
  loop_.advance(1ms);
  authority_.delay = 10ms;
  loop_.advance(100ms);
  ASSERT_EQ(authority_.merges.size(), 1u);
  client_.forget(handle_.fileid);
  loop_.advance(100ms);
  EXPECT_EQ(size, 4000u);
}

TEST_F(AuthorityClientTest, TellsWhatIsStoredWhenItTells) {
  std::optional<std::uint64_t> stored;
  AuthorityClient client(context_, [&](const routing::FileHandle& handle) {
    EXPECT_EQ(handle.fileid, FileId{7});
    return stored;
  });
  client.note(handle_, Epoch{3}, 777, {95, 0});
  stored = 4096;
  loop_.advance(2s);
  ASSERT_EQ(authority_.merges.size(), 1u);
  EXPECT_EQ(authority_.merges[0].stored, 4096u);
  EXPECT_EQ(authority_.teller, context_.self.index);
  stored.reset();
  ASSERT_TRUE(run(client.report(handle_, Epoch{3}, 777, {96, 0})));
  EXPECT_FALSE(authority_.merges.back().stored.has_value());
}

TEST_F(AuthorityClientTest, AfterACutWhatIsStoredIsToldUnderTheNewEpoch) {
  AuthorityClient client(context_, [](const routing::FileHandle&) { return std::optional(4096ull); });
  client.note_cut(handle_.fileid, 500, Epoch{4});
  loop_.advance(2s);
  EXPECT_TRUE(authority_.merges.empty()) << "nothing of it is in mind here";
  client.note(handle_, Epoch{3}, 777, {95, 0});
  client.note_cut(handle_.fileid, 500, Epoch{4});
  loop_.advance(2s);
  ASSERT_EQ(authority_.merges.size(), 1u);
  EXPECT_EQ(authority_.merges[0].epoch, Epoch{4});
  EXPECT_EQ(authority_.merges[0].size, 0u) << "what was written before may be cut off";
  EXPECT_EQ(authority_.merges[0].mtime->seconds, 95u);
  EXPECT_EQ(authority_.merges[0].stored, 4096u);
  client.note_cut(handle_.fileid, 500, Epoch{5});
  loop_.advance(2s);
  ASSERT_EQ(authority_.merges.size(), 2u) << "told before, under an epoch that is over";
  EXPECT_EQ(authority_.merges[1].epoch, Epoch{5});
  client.note_cut(handle_.fileid, 0, Epoch{6});
  loop_.advance(2s);
  EXPECT_EQ(authority_.merges.size(), 2u) << "nothing is stored of an empty file";
}

TEST_F(AuthorityClientTest, SaysUnavailableAndTellsWhenTheAuthorityIsBack) {
  silence("dir1");
  Status reported = report(3, 777, 95);
  ASSERT_FALSE(reported);
  EXPECT_EQ(reported.error().code, Errc::kUnavailable);
  auto known = fetch(Freshness::kNow);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::kUnavailable);
  loop_.advance(60s);
  serve("dir1", authority_);
  loop_.advance(10s);
  ASSERT_FALSE(authority_.merges.empty());
  EXPECT_EQ(authority_.merges.back().size, 777u);
  std::size_t told = authority_.merges.size();
  loop_.advance(30s);
  EXPECT_EQ(authority_.merges.size(), told);
}

TEST_F(AuthorityClientTest, DropsWhatItOwesToAFileThatIsGone) {
  authority_.answer.status = nfs3::Status::kStale;
  client_.note(handle_, Epoch{3}, 10, {1, 0});
  loop_.advance(1100ms);
  EXPECT_EQ(authority_.merges.size(), 1u);
  EXPECT_EQ(report(3, 20, 2).error().code, Errc::kStale);
  EXPECT_EQ(fetch(Freshness::kNow).error().code, Errc::kStale);
  loop_.advance(30s);
  EXPECT_EQ(authority_.merges.size(), 2u);
  EXPECT_EQ(client_.peek(handle_.fileid), nullptr);
}

TEST_F(AuthorityClientTest, WaitsForAnAuthorityThatAnswersJukebox) {
  authority_.answer.status = nfs3::Status::kJukebox;
  EXPECT_EQ(fetch(Freshness::kNow).error().code, Errc::kUnavailable);
  EXPECT_EQ(report(3, 20, 2).error().code, Errc::kUnavailable);
  authority_.answer.status = nfs3::Status::kOk;
  loop_.advance(2s);
  EXPECT_EQ(authority_.answer.attributes.size, 100u);
  EXPECT_EQ(authority_.merges.back().size, 20u);
}

TEST_F(AuthorityClientTest, DeniesOnlyByAttributesAskedForNow) {
  Identity ann{.uid = 7, .gid = 7};
  authority_.answer.attributes.uid = 1;
  authority_.answer.attributes.mode = 0600;
  EXPECT_EQ(run(client_.fetch_for_transfer(ann, handle_, true)).error().code, Errc::kDenied);
  authority_.answer.attributes.uid = 7;  // as a chown does, with the old owner still cached here
  EXPECT_TRUE(run(client_.fetch_for_transfer(ann, handle_, true)));
  authority_.answer.attributes.uid = 1;
  EXPECT_TRUE(run(client_.fetch_for_transfer(ann, handle_, true)));  // within kMaxAge
  loop_.advance(AuthorityClient::kMaxAge + 1s);
  EXPECT_FALSE(run(client_.fetch_for_transfer(ann, handle_, true)));
}

TEST_F(AuthorityClientTest, ForgetsAlsoWhatIsStillOnItsWay) {
  authority_.delay = 10ms;
  start(client_.fetch(handle_, Freshness::kCached), [](auto) {});
  loop_.advance(5ms);
  client_.forget(handle_.fileid);
  authority_.answer.attributes.size = 0;
  authority_.answer.attributes.rdev_major = 4;
  auto known = fetch(Freshness::kCached);  // must not join the old question
  EXPECT_EQ(known->epoch, Epoch{4});
  EXPECT_EQ(client_.peek(handle_.fileid)->epoch, Epoch{4});
  client_.forget(handle_.fileid);
  EXPECT_EQ(client_.peek(handle_.fileid), nullptr);
}

TEST_F(AuthorityClientTest, KeepsNoMoreFilesThanItMayButNoneThatItOwesFor) {
  for (std::uint64_t id = 1; id <= 20; ++id) run(client_.fetch(file(id), Freshness::kCached)).value();
  EXPECT_EQ(metrics_.counter("authority_cached_files").value(), 4u);
  EXPECT_NE(client_.peek(FileId{20}), nullptr);
  EXPECT_EQ(client_.peek(FileId{16}), nullptr);
  for (std::uint64_t id = 101; id <= 120; ++id) client_.note(file(id), Epoch{3}, id, {1, 0});
  loop_.advance(1100ms);
  EXPECT_EQ(authority_.merges.size(), 20u);
}

TEST_F(AuthorityClientTest, FlushTellsEverything) {
  for (std::uint64_t id = 1; id <= 3; ++id) client_.note(file(id), Epoch{3}, id, {1, 0});
  bool ended = false;
  start_void(client_.flush(), [&] { ended = true; });
  ASSERT_TRUE(loop_.run_until([&] { return ended; }));
  EXPECT_EQ(authority_.merges.size(), 3u);
}

TEST_F(AuthorityClientTest, FlushGivesUpOnASilentAuthority) {
  silence("dir1");
  client_.note(file(1), Epoch{3}, 1, {1, 0});
  bool ended = false;
  start_void(client_.flush(), [&] { ended = true; });
  EXPECT_TRUE(loop_.run_until([&] { return ended; }, 6s));
  serve("dir1", authority_);  // what it owes is told later all the same
  loop_.advance(10s);
  EXPECT_FALSE(authority_.merges.empty());
}

TEST_F(AuthorityClientTest, AFloodOfNotesIsToldAFewAtATime) {
  authority_.delay = 50ms;
  for (std::uint64_t id = 1; id <= 1000; ++id) client_.note(file(id), Epoch{3}, id, {1, 0});
  loop_.advance(1010ms);
  EXPECT_EQ(authority_.merges.size(), 128u);
  loop_.advance(3s);
  EXPECT_EQ(authority_.merges.size(), 1000u);
}

// dir2 owns what dir1 owned when this server last heard of the manager.
class MovedAuthorityTest : public testing::ServiceFixture {
 protected:
  MovedAuthorityTest()
      : testing::ServiceFixture("small1", testing::two_directories()), former_(loop_), owner_(loop_) {
    bind("dir1", 1);
    serve("dir1", former_);
    serve("dir2", owner_);
    former_.answer.status = nfs3::Status::kJukebox;
    owner_.answer.attributes.size = 77;
    context_.refresh_tables = [this] { return refresh(*this); };
    file_.fileid = FileId{7};
  }
  static Task<void> refresh(MovedAuthorityTest& self) {
    ++self.refreshes_;
    co_await self.loop_.sleep(2ms);
    if (self.manager_knows_) self.bind("dir2", 2);
  }
  void bind(const char* name, std::uint64_t generation) {
    wire::Tables tables = tables_.get()->wire();
    tables.generation = Generation{generation};
    std::fill(tables.sites[0].begin(), tables.sites[0].end(), config_.find(name)->index);
    tables_.set(routing::RoutingTables::make(config_, tables).value());
  }

  FakeAuthority former_, owner_;
  AuthorityClient client_{context_, {}, 4};
  routing::FileHandle file_;
  int refreshes_ = 0;
  bool manager_knows_ = false;
};

TEST_F(MovedAuthorityTest, AsksTheManagerWhomToAskAndThenThatOne) {
  auto nobody = run(client_.fetch(file_, Freshness::kNow, false));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Errc::kUnavailable);
  EXPECT_EQ(refreshes_, 1);
  EXPECT_EQ(former_.fetches, 1) << "not again where the manager knows no better";
  manager_knows_ = true;
  auto known = run(client_.fetch(file_, Freshness::kNow, false));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->attributes.size, 77u);
  EXPECT_EQ(owner_.fetches, 1);
  bind("dir1", 3);
  EXPECT_TRUE(run(client_.report(file_, Epoch{0}, 80, {5, 0})));
  EXPECT_EQ(owner_.merges.size(), 1u);
}

}  // namespace
}  // namespace slice::service
