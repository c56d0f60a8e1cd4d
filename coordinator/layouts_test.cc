#include "coordinator/layouts.h"

#include "bpf/shared/file_handle.h"
#include "coordinator/testing/coordinator_fixture.h"
#include "wire/layout.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using namespace std::chrono_literals;
using wire::StripeRange;

// Two storage nodes, so that both have a copy of every stripe.
class LayoutsTest : public testing::CoordinatorFixture {
 protected:
  routing::FileHandle mirrored() const {
    routing::FileHandle handle = file();
    handle.flags = SLICE_HANDLE_MIRRORED;
    return handle;
  }

  template <class R, class Args>
  Task<Result<R>> ask(wire::CoordinatorProcedure procedure, Args args) {
    return service::internal_call<R>(network_, endpoint("coord1"), wire::kCoordinatorProgram, procedure, args,
                                     20s);
  }
  // The other one has a session: it is there, and has what this one misses.
  Task<NfsStatus> note(std::string server, StripeRange stripes) {
    const std::uint32_t other = index(server == "store1" ? "store2" : "store1");
    routing::HandleBytes bytes = handles_.mint(mirrored());
    (void)co_await ask<wire::LayoutResult>(wire::CoordinatorProcedure::kLayout, wire::LayoutArgs{bytes});
    (void)co_await ask<wire::SessionResult>(wire::CoordinatorProcedure::kSession,
                                            wire::SessionArgs{other, 0});
    auto result = co_await ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kMissed,
                                                        wire::MissedArgs{bytes, index(server), stripes});
    co_return result ? result->status : NfsStatus::kServerFault;
  }
  NfsStatus missed(const std::string& server, StripeRange stripes) { return run(note(server, stripes)); }
  wire::FileLayout layout() {
    routing::HandleBytes bytes = handles_.mint(mirrored());
    auto result = run(ask<wire::LayoutResult>(wire::CoordinatorProcedure::kLayout, wire::LayoutArgs{bytes}));
    EXPECT_TRUE(result && result->status == NfsStatus::kOk);
    return result ? result->layout : wire::FileLayout{};
  }
  wire::SessionResult session(const std::string& server, std::uint64_t number) {
    return run(ask<wire::SessionResult>(wire::CoordinatorProcedure::kSession,
                                        wire::SessionArgs{index(server), number}))
        .value();
  }
  void end_session(const std::string& server, std::uint64_t number, bool durable) {
    EXPECT_TRUE(run(ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kEndSession,
                                                 wire::EndSessionArgs{index(server), number, durable})));
  }
  // Asks each second, as a node does.
  void keep_session(const std::string& server) { spawn(renew(server, keeps_)); }
  Task<void> renew(std::string server, std::shared_ptr<bool> keeps) {
    std::uint64_t number = 0;
    while (*keeps) {
      auto got = co_await ask<wire::SessionResult>(wire::CoordinatorProcedure::kSession,
                                                   wire::SessionArgs{index(server), number});
      if (got) number = got->session;
      co_await loop_.sleep(1s);
    }
  }
  ~LayoutsTest() override { *keeps_ = false; }
  std::shared_ptr<bool> keeps_ = std::make_shared<bool>(true);
  // Both nodes keep sessions up; the fake ones answer RECALL with NO PROCEDURE, as if they were away.
  std::vector<StripeRange> stripes_missed_by(const std::string& server) {
    wire::FileLayout now = layout();
    const wire::Missing* missing = routing::find_missing(now.missing, index(server));
    return missing == nullptr ? std::vector<StripeRange>() : missing->stripes;
  }
};

TEST_F(LayoutsTest, ANodeThatWasRemovedHasNoSession) {
  EXPECT_EQ(session("store2", 0).status, NfsStatus::kOk);
  wire::Tables tables = tables_.get()->wire();
  const std::uint32_t gone = index("store2");
  for (std::uint32_t& owner : tables.sites[2]) owner = index("store1");
  tables.servers[gone] = {.server = gone, .role = wire::Role::kRemoved, .endpoint = {}, .name = "store2"};
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  EXPECT_EQ(session("store2", 0).status, NfsStatus::kInval);
  EXPECT_EQ(session("store1", 0).status, NfsStatus::kOk);
}

TEST_F(LayoutsTest, ALostServerMissesEverythingWhenItsSessionIsOver) {
  const StripeRange all{0, wire::kAllStripes};
  EXPECT_EQ(session("store1", 0).status, NfsStatus::kOk);
  EXPECT_EQ(session("store2", 0).status, NfsStatus::kOk);
  layout();
  wire::Tables tables = tables_.get()->wire();
  wire::ServerEntry& lost = tables.servers[index("store2")];
  lost.drained = true;
  lost.lost = Verifier{9};
  ++tables.generation.value;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  EXPECT_TRUE(stripes_missed_by("store2").empty()) << "it may answer by its layouts";
  EXPECT_NE(session("store2", 0).status, NfsStatus::kOk) << "but gets no more of them";
  ASSERT_EQ(missed("store2", {5, 6}), NfsStatus::kJukebox);
  store1_.delay = 10s;  // it does not answer a RECALL
  loop_.advance(Sessions::kLife - 500ms);
  ASSERT_EQ(session("store1", 0).status, NfsStatus::kOk);
  loop_.advance(2s);
  const wire::FileLayout at_once = layout();
  const wire::Missing* missing = routing::find_missing(at_once.missing, index("store2"));
  ASSERT_NE(missing, nullptr);
  EXPECT_EQ(missing->stripes, std::vector<StripeRange>{all});
  EXPECT_EQ(missing->since.front().version, wire::kNotYet) << "somebody may pass writes on to it still";
  store1_.delay = {};
  loop_.advance(3s);
  const wire::FileLayout later = layout();
  missing = routing::find_missing(later.missing, index("store2"));
  ASSERT_NE(missing, nullptr);
  EXPECT_GT(missing->since.front().version, at_once.version);
  EXPECT_LE(missing->since.front().version, later.version);
  EXPECT_EQ(missed("store2", {5, 6}), NfsStatus::kOk) << "without a note of it";
  EXPECT_EQ(missed("store1", {5, 6}), NfsStatus::kJukebox) << "no other copy is whole";
  kill();
  boot();
  loop_.advance(Sessions::kLife + 2s);
  EXPECT_EQ(stripes_missed_by("store2"), std::vector<StripeRange>{all});
}

TEST_F(LayoutsTest, WhatACopyMissesIsKnownAfterACrash) {
  store1_.status = NfsStatus::kIo;  // so that it cannot be made whole meanwhile
  EXPECT_TRUE(layout().missing.empty());
  ASSERT_EQ(missed("store2", {5, 6}), NfsStatus::kOk);
  ASSERT_EQ(missed("store2", {90, 93}), NfsStatus::kOk);
  std::vector<StripeRange> both{{5, 6}, {90, 93}};
  EXPECT_EQ(stripes_missed_by("store2"), both);
  std::uint64_t version = layout().version;
  kill();
  boot();
  EXPECT_EQ(stripes_missed_by("store2"), both);
  EXPECT_TRUE(stripes_missed_by("store1").empty());
  EXPECT_GT(layout().changed, version) << "layouts of before are void";
}

// Of the run before, by whatever clock: another host's, or one that was set back since.
TEST_F(LayoutsTest, VersionsGoBeyondThoseOfTheRunBeforeWhateverTheClockSays) {
  const std::uint64_t before = layout().version, ahead = before + 3'600'000'000'000;
  kill();
  {
    storage::MemoryStore store(loop_, medium_);
    storage::WriteBatch batch;
    std::string record(sizeof ahead, '\0');
    store_be(reinterpret_cast<std::uint8_t*>(record.data()), ahead);
    batch.put("version", record);
    auto applied = store.apply(batch);
    ASSERT_TRUE(applied);
    ASSERT_TRUE(run(store.durable(*applied)));
  }
  boot();
  const std::uint64_t first = layout().version;
  EXPECT_GT(first, ahead);
  kill();
  boot();
  EXPECT_GT(layout().version, first + 1'000'000) << "with room for what the run before may have given";
}

// By that a node knows which writes were sent, or have waited at it, for too long.
TEST_F(LayoutsTest, ACopyThatIsMadeWholeOrdersWritesSinceThen) {
  std::uint32_t store1 = index("store1"), store2 = index("store2");
  auto since = [](const wire::FileLayout& layout, std::uint32_t server) {
    return routing::ordered_since(layout, {.all = {server}, .whole = {server}, .written = {}}, 0);
  };
  layout();  // The first one has a bound of its own.
  wire::FileLayout before = layout();
  ASSERT_EQ(missed("store2", {0, 1}), NfsStatus::kOk);
  ASSERT_EQ(session("store2", 0).status, NfsStatus::kOk) << "so that it can be made whole";
  loop_.advance(1500ms);
  wire::FileLayout after = layout();
  ASSERT_TRUE(after.missing.empty());
  EXPECT_GT(since(after, store2), before.version);
  EXPECT_LE(since(after, store2), after.version);
  EXPECT_LE(since(after, store1), before.version) << "it missed nothing";
  kill();
  boot();
  EXPECT_GT(since(layout(), store1), after.version) << "nothing is known of before";
}

TEST_F(LayoutsTest, ACopyOrdersWritesSinceThoseBeforeItMissThem) {
  std::uint32_t store1 = index("store1"), store2 = index("store2");
  store1_.status = NfsStatus::kIo;  // so that it cannot be made whole meanwhile
  auto since = [&](const wire::FileLayout& layout, std::uint64_t stripe) {
    return routing::ordered_since(layout, {.all = {store1, store2}, .whole = {store2}, .written = {}},
                                  stripe);
  };
  ASSERT_EQ(missed("store1", {0, 1}), NfsStatus::kOk);
  wire::FileLayout first = layout();
  EXPECT_GT(since(first, 0), first.changed) << "of nobody who may have gone by the old one";
  EXPECT_LE(since(first, 0), first.version);
  ASSERT_EQ(missed("store1", {0, 2}), NfsStatus::kOk);
  wire::FileLayout second = layout();
  EXPECT_EQ(since(second, 0), since(first, 0)) << "writes under way to it need not be sent again";
  EXPECT_GT(since(second, 1), first.version);
  for (std::uint64_t stripe = 2; stripe < 100; ++stripe) {
    ASSERT_EQ(missed("store1", {stripe, stripe + 1}), NfsStatus::kOk);
  }
  wire::FileLayout last = layout();
  EXPECT_LE(routing::find_missing(last.missing, store1)->since.size(), wire::kMaxMissedSince);
  EXPECT_GE(since(last, 0), since(first, 0));
  EXPECT_LT(since(last, 0), since(last, 98)) << "the oldest ones count together";
  EXPECT_GT(since(last, 99), second.version);
}

// Some node may act by the old layout still, and whoever has heard of the new one may send by it.
TEST_F(LayoutsTest, NobodyOrdersWritesAnewWhileALayoutIsBeingRecalled) {
  layout();
  ASSERT_EQ(session("store1", 0).status, NfsStatus::kOk);
  store1_.delay = 10s;  // it does not answer a RECALL
  std::optional<NfsStatus> noted;
  spawn([](Task<NfsStatus> noting, std::optional<NfsStatus>& result) -> Task<void> {
    result = co_await std::move(noting);
  }(note("store1", {0, 1}), noted));
  loop_.advance(200ms);
  const wire::FileLayout now = layout();
  const wire::Missing* missing = routing::find_missing(now.missing, index("store1"));
  ASSERT_NE(missing, nullptr);
  const wire::StripeRange noted_stripes{0, 1};
  EXPECT_EQ(missing->since, (std::vector<wire::MissedSince>{{noted_stripes, wire::kNotYet}}));
  loop_.advance(4s);  // its session ends
  EXPECT_EQ(noted, NfsStatus::kOk);
  const wire::FileLayout then = layout();
  EXPECT_GT(routing::find_missing(then.missing, index("store1"))->since.front().version, now.version);
  loop_.advance(11s);  // its answers come
}

// What was sent to the process before has an older version than it asks for.
TEST_F(LayoutsTest, ANodeThatStartsHearsALaterVersionThanAnybodyBefore) {
  const std::uint64_t before = layout().version;
  wire::SessionResult fresh = session("store2", 0);
  EXPECT_GT(fresh.version, before);
  EXPECT_EQ(session("store2", fresh.session).version, fresh.version);
}

TEST(RecentOrderersTest, OfFilesThatItForgetsItKnowsABound) {
  RecentOrderers orderers(2);
  orderers.bound(5);
  for (std::uint64_t i = 1; i <= 3; ++i) orderers.note(FileId{i}, 7, 10 + i);
  auto since = [&](std::uint64_t file, std::uint32_t server) {
    wire::FileLayout layout;
    orderers.tell(FileId{file}, layout);
    return routing::ordered_since(layout, {.all = {server}, .whole = {server}, .written = {}}, 0);
  };
  EXPECT_EQ(since(3, 7), 13u);
  EXPECT_EQ(since(2, 7), 12u);
  EXPECT_EQ(since(1, 7), 11u) << "forgotten: at the latest then";
  EXPECT_EQ(since(3, 8), 11u) << "and so of all others";
  orderers.expect(FileId{4}, 7);
  for (std::uint64_t i = 5; i <= 9; ++i) orderers.note(FileId{i}, 7, 10 + i);
  EXPECT_EQ(since(4, 7), wire::kNotYet) << "that is not forgotten";
  orderers.note(FileId{4}, 7, 20);
  EXPECT_EQ(since(4, 7), 20u);
}

// Who passes a write on to a copy that waits for a dead one takes that copy for silent: it must not be out
// because of that.
TEST_F(LayoutsTest, ACopyOfADeadServerDoesNotCountAsTheOtherOne) {
  loop_.advance(Sessions::kLife);
  keep_session("store2");
  loop_.advance(1s);
  routing::HandleBytes bytes = handles_.mint(mirrored());
  auto refused = run(ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kMissed,
                                                  wire::MissedArgs{bytes, index("store2"), {0, 1}}));
  EXPECT_EQ(refused->status, NfsStatus::kJukebox) << "store1 has no session";
  EXPECT_EQ(missed("store1", {0, 1}), NfsStatus::kOk);
}

TEST_F(LayoutsTest, TheLastWholeCopyCannotBeMissed) {
  ASSERT_EQ(missed("store1", {5, 7}), NfsStatus::kOk);
  EXPECT_EQ(missed("store2", {6, 7}), NfsStatus::kJukebox);
  EXPECT_EQ(missed("store2", {0, wire::kAllStripes}), NfsStatus::kJukebox);
  EXPECT_EQ(missed("store2", {8, 9}), NfsStatus::kOk);
  EXPECT_EQ(process().metric("coordinator_missed_refused_total"), 2u);
}

// Each note waits for the log and for a recall: a file of many stripes would wait for that at each.
TEST_F(LayoutsTest, WhatIsWrittenInOrderWhileACopyIsAwayIsNotedFewTimes) {
  loop_.advance(Sessions::kLife);
  silence("store2");
  auto notes = [&] { return process().metric("coordinator_missed_total"); };
  for (std::uint64_t stripe = 100; stripe < 2000; stripe += 1 + stripe % 2) {
    ASSERT_EQ(missed("store2", {stripe, stripe + 1}), NfsStatus::kOk);
  }
  EXPECT_LE(notes(), 12u);
  std::vector<StripeRange> run = stripes_missed_by("store2");
  ASSERT_EQ(run.size(), 1u);
  EXPECT_EQ(run[0].first, 100u);
  EXPECT_GE(run[0].end, 2000u);
  EXPECT_LT(run[0].end, 2600u) << "much more than is missed is copied";
  std::uint64_t before = notes();
  ASSERT_EQ(missed("store2", {9000, 9001}), NfsStatus::kOk);
  EXPECT_EQ(stripes_missed_by("store2").back(), (StripeRange{9000, 9001})) << "not written in order";
  EXPECT_EQ(notes(), before + 1);
}

TEST_F(LayoutsTest, NothingIsNotedAheadOfWhatAnotherCopyMissesOrOfACopyThatIsThere) {
  loop_.advance(Sessions::kLife);
  ASSERT_EQ(missed("store1", {4, 5}), NfsStatus::kOk);
  ASSERT_EQ(missed("store2", {1, 2}), NfsStatus::kOk);
  ASSERT_EQ(missed("store2", {2, 3}), NfsStatus::kOk);
  EXPECT_EQ(stripes_missed_by("store2"), (std::vector<StripeRange>{{1, 3}}));
  EXPECT_EQ(missed("store2", {4, 5}), NfsStatus::kJukebox);
}

// Of more ranges than are kept apart two become one, with what lies between them.
TEST_F(LayoutsTest, WhatLiesBetweenManyRangesIsNotTheLastWholeCopy) {
  loop_.advance(Sessions::kLife);
  keep_session("store1");
  keep_session("store2");
  ASSERT_EQ(missed("store1", {1, 2}), NfsStatus::kOk);
  for (std::uint64_t i = 0; i < wire::kMaxStripeRanges; ++i)
    ASSERT_EQ(missed("store2", {2 * i, 2 * i + 1}), NfsStatus::kOk);
  EXPECT_EQ(missed("store2", {10'000, 10'001}), NfsStatus::kJukebox);
  EXPECT_EQ(stripes_missed_by("store2").size(), wire::kMaxStripeRanges);
  EXPECT_EQ(stripes_missed_by("store1"), (std::vector<StripeRange>{{1, 2}}));
}

// A node that does not answer may use what it was given until its session ends.
TEST_F(LayoutsTest, AChangeWaitsForTheSessionOfANodeThatIsSilent) {
  layout();
  loop_.advance(Sessions::kLife);
  wire::SessionResult first = session("store2", 0);
  ASSERT_EQ(first.status, NfsStatus::kOk);
  EXPECT_EQ(session("store2", first.session).session, first.session) << "it goes on";
  silence("store2");
  MonoTime before = loop_.now();
  ASSERT_EQ(missed("store1", {1, 2}), NfsStatus::kOk);
  Duration took = loop_.now() - before;
  EXPECT_GT(took, Sessions::kLife - 200ms);
  EXPECT_LT(took, Sessions::kLife + 2s);
  EXPECT_NE(session("store2", first.session).session, first.session) << "and has to begin anew";
}

TEST_F(LayoutsTest, AChangeDoesNotWaitForANodeThatHasEndedItsSession) {
  layout();
  loop_.advance(Sessions::kLife);
  const wire::SessionResult first = session("store2", 0);
  silence("store2");
  end_session("store2", first.session + 1, true);
  MonoTime before = loop_.now();
  ASSERT_EQ(missed("store2", {1, 2}), NfsStatus::kOk);
  EXPECT_GT(loop_.now() - before, 1s) << "that was another session";
  const wire::SessionResult second = session("store2", 0);
  end_session("store2", second.session, false);
  before = loop_.now();
  ASSERT_EQ(missed("store2", {3, 4}), NfsStatus::kOk);
  EXPECT_LT(loop_.now() - before, 100ms);
  EXPECT_NE(session("store2", second.session).session, second.session) << "it begins anew";
}

// What it acknowledged is durable there: it misses what is written without it, and nothing else.
TEST_F(LayoutsTest, ACommitNeedsNothingOfANodeThatWasStoppedCleanly) {
  loop_.advance(Sessions::kLife);
  keep_session("store1");
  const wire::SessionResult held = session("store2", 0);
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_EQ(store2_.commits, 1);
  end_session("store2", held.session, false);
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_EQ(store2_.commits, 2) << "it has not said yet that all is durable";
  end_session("store2", held.session, true);
  silence("store2");
  const MonoTime before = loop_.now();
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_LT(loop_.now() - before, 100ms);
  EXPECT_TRUE(stripes_missed_by("store2").empty());
  // It is there again, and asked again.
  serve("store2", store2_);
  ASSERT_EQ(session("store2", held.session).status, NfsStatus::kOk);
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_EQ(store2_.commits, 3);
}

// Else nobody might say how far the file goes.
TEST_F(LayoutsTest, ACommitGoesWithoutTheOneNodeAloneThatWasStoppedCleanly) {
  loop_.advance(Sessions::kLife);
  const wire::SessionResult held = session("store2", 0);
  end_session("store2", held.session, true);
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_EQ(store2_.commits, 1) << "the other one has no session";
  keep_session("store1");
  ASSERT_EQ(missed("store1", {1, 2}), NfsStatus::kOk);
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_EQ(store2_.commits, 2) << "the other one misses something";
}

// COMMIT and TRUNCATE of a mirrored file are done without a node that is away; it misses everything then.
TEST_F(LayoutsTest, OperationsGoOnWithoutOneCopy) {
  loop_.advance(Sessions::kLife);
  keep_session("store1");
  silence("store2");
  auto result = run(truncate_call(mirrored(), 1000, Epoch{3}, 30s));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, NfsStatus::kOk);
  EXPECT_EQ(store1_.truncates, 1);
  EXPECT_EQ(small_.truncates, 0) << "a mirrored file has no bytes there";
  EXPECT_EQ(stripes_missed_by("store2"), (std::vector<StripeRange>{{0, wire::kAllStripes}}));
  MonoTime before = loop_.now();
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_LT(loop_.now() - before, 100ms) << "nobody waits for it again";
}

// Nobody would take away later what it has.
TEST_F(LayoutsTest, ARemovalIsOwedToACopyThatIsAway) {
  loop_.advance(Sessions::kLife);
  silence("store2");
  EXPECT_EQ(run(remove_call(mirrored()))->status, NfsStatus::kOk);
  loop_.advance(60s);
  EXPECT_TRUE(store1_.removed.contains(FileId{77}));
  serve("store2", store2_);
  loop_.advance(10s);
  EXPECT_TRUE(store2_.removed.contains(FileId{77}));
}

TEST_F(LayoutsTest, ANodeThatWasSilentOnceIsWaitedForAtNoOtherFile) {
  loop_.advance(Sessions::kLife);
  keep_session("store1");
  silence("store2");
  routing::FileHandle other = mirrored();
  other.fileid = FileId{78};
  authority_.add(other.fileid);
  authority_.file(other.fileid) = the_file();
  authority_.attributes(other.fileid).fileid = other.fileid;
  MonoTime start = loop_.now();
  EXPECT_EQ(commit_now(mirrored()).status, NfsStatus::kOk);
  EXPECT_GT(loop_.now() - start, 1s) << "that it is away is not known before it was silent";
  start = loop_.now();
  EXPECT_EQ(commit_now(other).status, NfsStatus::kOk);
  EXPECT_LT(loop_.now() - start, 100ms);
  // It is back, and takes part again.
  serve("store2", store2_);
  ASSERT_EQ(session("store2", 0).status, NfsStatus::kOk);
  loop_.advance(1500ms);
  int commits = store2_.commits;
  EXPECT_EQ(commit_now(other).status, NfsStatus::kOk);
  EXPECT_GT(store2_.commits, commits);
}

// Else it would have the epoch of the last truncation, with bytes that an earlier one cut elsewhere.
TEST_F(LayoutsTest, ACopyThatMissesEverythingIsEmptiedBeforeItTakesPartInTruncations) {
  ASSERT_EQ(missed("store2", {0, wire::kAllStripes}), NfsStatus::kOk);
  ASSERT_EQ(session("store2", 0).status, NfsStatus::kOk) << "it is back";
  ASSERT_EQ(run(truncate_call(mirrored(), 1000, Epoch{4}, 30s))->status, NfsStatus::kOk);
  FileId id = mirrored().fileid;
  EXPECT_EQ(store1_.truncated[id], std::pair(std::uint64_t{1000}, Epoch{4}));
  EXPECT_FALSE(store2_.truncated.contains(id));
  store1_.epoch = Epoch{4};
  loop_.advance(1500ms);
  EXPECT_EQ(store2_.truncated[id], std::pair(std::uint64_t{0}, Epoch{4}));
}

}  // namespace
}  // namespace slice::coordinator
