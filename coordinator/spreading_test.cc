#include "coordinator/spreading.h"

#include "coordinator/spread_record.h"
#include "coordinator/testing/layout_fixture.h"
#include "storage/durable_file.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

// Two storage nodes of the volume's birth, and one that comes later.
class SpreadingTest : public testing::LayoutFixture {
 protected:
  SpreadingTest() : store3_(loop_) {}
  void store3_comes() {
    service::testing::add_server(config_, "store3", ServerRole::kStorage);
    change_tables([&](wire::Tables& tables) {
      const ServerConfig& server = *config_.find("store3");
      tables.servers.push_back({.server = server.index,
                                .role = wire::Role::kStorage,
                                .endpoint = {server.address, server.port},
                                .name = server.name,
                                .started = true});
    });
    serve("store3", store3_);
    nodes_.push_back("store3");
    keep_sessions();
  }
  NfsStatus spread(Generation known) {
    wire::SpreadArgs args{.known = known, .shares = {}};
    for (const std::string& name : nodes_) args.shares.push_back({index(name), 1});
    return ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kSpread, args).status;
  }
  wire::SpreadingResult state() {
    return ask<wire::SpreadingResult>(wire::CoordinatorProcedure::kSpreading, service::NoArguments{});
  }
  NfsStatus spread() { return spread(tables_.get()->generation()); }
  void reaches(std::uint64_t stripes) {
    store1_.end = store2_.end = store3_.end = stripes * kUnit;
    store1_.has = store2_.has = {FileId{77}};
    the_file().attributes.size = stripes * kUnit;
  }
  // A mapped file of 60 stripes is to be evened out over all three, and the process dies in the middle.
  routing::FileHandle dies_in_the_middle() {
    const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
    layout(mapped, 0, true);
    reaches(60);
    store3_comes();
    EXPECT_EQ(spread(), NfsStatus::kOk);
    kill_at("spread.moved", 5);
    EXPECT_TRUE(loop_.run_until([&] { return kills_ == 1; }));
    return mapped;
  }
  testing::FakeObjects store3_;
};

TEST_F(SpreadingTest, WhatCameLaterGetsItsPartOfMappedFiles) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  layout(mapped, 0, true);
  reaches(60);
  ASSERT_EQ(on("store1", mapped) + on("store2", mapped), wire::kStripesOfPiece);
  store3_comes();
  EXPECT_EQ(spread(Generation{tables_.get()->generation().value + 1}), NfsStatus::kJukebox) << "older tables";
  EXPECT_EQ(spread(), NfsStatus::kOk);
  pass_seconds(15);
  for (const char* name : {"store1", "store2", "store3"})
    EXPECT_NEAR(static_cast<double>(on(name, mapped, 60)), 20, 2) << name;
  const auto copied = static_cast<std::uint64_t>(store1_.copies + store2_.copies);
  EXPECT_EQ(copied, on("store3", mapped, 60));
  EXPECT_EQ(on("store3", mapped), copied) << "what is not there is not moved";
  EXPECT_EQ(process().metric("coordinator_spread_stripes_total"), copied);
  EXPECT_EQ(spread(), NfsStatus::kOk);
  pass_seconds(5);
  EXPECT_EQ(process().metric("coordinator_spread_stripes_total"), copied) << "it is even";
}

TEST_F(SpreadingTest, WhatCameLaterGetsItsPartOfFilesThatTheHashHasPlaced) {
  const routing::FileHandle mirrored = handle(SLICE_HANDLE_MIRRORED);
  layout(mirrored, 0, true);
  reaches(90);
  store3_comes();
  EXPECT_EQ(on("store3", mirrored), 0u);
  EXPECT_EQ(spread(), NfsStatus::kOk);
  pass_seconds(20);
  EXPECT_NEAR(static_cast<double>(on("store3", mirrored, 90)), 60, 2) << "a third of 180 copies";
  EXPECT_EQ(on("store3", mirrored), on("store3", mirrored, 90)) << "behind its end the hash says where it is";
  EXPECT_EQ(process().metric("coordinator_spread_failures_total"), 0u);
}

// Whoever dies in the middle goes on, and forgets it when it is done.
TEST_F(SpreadingTest, AStartGoesOnWithIt) {
  const routing::FileHandle mapped = dies_in_the_middle();
  boot();
  keep_sessions();
  EXPECT_LT(on("store3", mapped, 60), 10u);
  EXPECT_NE(process().role.detail().find("even"), std::string::npos) << process().role.detail();
  EXPECT_EQ(state().ended_ns, 0u);
  EXPECT_NE(state().phase, wire::SpreadPhase::kNever);
  pass_seconds(30);
  EXPECT_EQ(state().phase, wire::SpreadPhase::kDone);
  for (const char* name : {"store1", "store2", "store3"})
    EXPECT_NEAR(static_cast<double>(on(name, mapped, 60)), 20, 2) << name;
  EXPECT_EQ(process().role.detail().find("even"), std::string::npos) << process().role.detail();
  EXPECT_EQ(process().metric("coordinator_spread_left_bytes"), 0u);
  EXPECT_EQ(process().metric("coordinator_spread_bytes_total"),
            process().metric("coordinator_spread_stripes_total") * kUnit);
  kill();
  boot();
  keep_sessions();
  EXPECT_EQ(process().role.detail().find("even"), std::string::npos) << "it was done";
}

TEST_F(SpreadingTest, WhoWasDrainedSinceIsToGetNothing) {
  const routing::FileHandle mapped = dies_in_the_middle();
  change_tables([&](wire::Tables& tables) { tables.servers[index("store3")].drained = true; });
  boot();
  keep_sessions();
  pass_seconds(30);
  EXPECT_EQ(on("store3", mapped, 60), 0u) << "it was emptied";
  EXPECT_EQ(process().metric("coordinator_spread_failures_total"), 0u);
  EXPECT_EQ(process().role.detail().find("even"), std::string::npos) << process().role.detail();
}

TEST_F(SpreadingTest, WithoutSharesItIsGivenUpForGood) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  layout(mapped, 0, true);
  reaches(60);
  store3_comes();
  const auto give_up = [&] {
    return ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kSpread, wire::SpreadArgs{}).status;
  };
  EXPECT_EQ(give_up(), NfsStatus::kOk) << "of nothing";
  EXPECT_EQ(spread(), NfsStatus::kOk);
  while (on("store3", mapped, 60) < 3) loop_.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(give_up(), NfsStatus::kOk);
  const std::size_t there = on("store3", mapped, 60);
  pass_seconds(15);
  EXPECT_LE(on("store3", mapped, 60), there + 1) << "what was under way has come";
  kill();
  boot();
  keep_sessions();
  pass_seconds(15);
  EXPECT_LE(on("store3", mapped, 60), there + 1);
  EXPECT_EQ(spread(), NfsStatus::kOk) << "and once more";
  pass_seconds(15);
  EXPECT_NEAR(static_cast<double>(on("store3", mapped, 60)), 20, 2);
}

TEST_F(SpreadingTest, TellsHowFarItIs) {
  using wire::SpreadPhase;
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  layout(mapped, 0, true);
  reaches(60);
  store3_comes();
  EXPECT_EQ(state(), wire::SpreadingResult{}) << "nothing was asked for";
  EXPECT_EQ(spread(), NfsStatus::kOk);
  const auto began_ns = static_cast<std::uint64_t>(loop_.wall().ns);
  EXPECT_EQ(state().ended_ns, 0u);
  EXPECT_NEAR(static_cast<double>(state().began_ns), static_cast<double>(began_ns), 1e9);
  while (on("store3", mapped, 60) < 3) loop_.advance(std::chrono::milliseconds(1));
  const wire::SpreadingResult early = state();
  EXPECT_EQ(early.phase, SpreadPhase::kMoving);
  EXPECT_GE(early.moved_bytes, 2 * kUnit);
  EXPECT_EQ(early.moved_bytes % kUnit, 0u);
  // While the piece goes on, too, stripe by stripe.
  while (on("store3", mapped, 60) < 10) loop_.advance(std::chrono::milliseconds(1));
  const wire::SpreadingResult later = state();
  EXPECT_GE(later.moved_bytes, early.moved_bytes + 6 * kUnit);
  EXPECT_EQ(later.moved_bytes + later.left_bytes, early.moved_bytes + early.left_bytes);
  pass_seconds(15);
  const wire::SpreadingResult done = state();
  EXPECT_EQ(done.phase, SpreadPhase::kDone);
  EXPECT_EQ(done.moved_bytes, process().metric("coordinator_spread_bytes_total"));
  EXPECT_EQ(done.left_bytes, 0u);
  EXPECT_EQ(done.bytes_a_second, 0u);
  EXPECT_EQ(done.failed_stripes, 0u);
  EXPECT_GT(done.ended_ns, done.began_ns);
  EXPECT_EQ(spread(), NfsStatus::kOk) << "which counts anew";
  EXPECT_EQ(state().moved_bytes, 0u);
  EXPECT_EQ(ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kSpread, wire::SpreadArgs{}).status,
            NfsStatus::kOk);
  EXPECT_EQ(state().phase, SpreadPhase::kGivenUp);
  EXPECT_NE(state().ended_ns, 0u);
  pass_seconds(5);
  EXPECT_EQ(state().phase, SpreadPhase::kGivenUp) << "whatever a pass of before still does";
}

TEST_F(SpreadingTest, OtherSharesTakeThePlaceOfThoseThatGoOn) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  layout(mapped, 0, true);
  reaches(200);
  store3_comes();
  EXPECT_EQ(spread(), NfsStatus::kOk);
  while (on("store3", mapped, 200) < 3) loop_.advance(std::chrono::milliseconds(1));
  wire::SpreadArgs args{.known = tables_.get()->generation(),
                        .shares = {{index("store1"), 1}, {index("store2"), 1}, {index("store3"), 8}}};
  EXPECT_EQ(ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kSpread, args).status, NfsStatus::kOk);
  pass_seconds(60);
  EXPECT_NEAR(static_cast<double>(on("store3", mapped, 200)), 160, 4);
}

TEST_F(SpreadingTest, WhatIsRecordedIsReadOrRefused) {
  const wire::SpreadArgs args{Generation{9}, {{3, 1ull << 40}, {4, 2}}};
  EXPECT_FALSE(run(read_spread(disk_))->has_value());
  ASSERT_TRUE(run(record_spread(disk_, args)));
  auto read = run(read_spread(disk_));
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((**read).known, args.known);
  EXPECT_EQ((**read).shares.size(), 2u);
  EXPECT_EQ((**read).shares[0].weight, 1ull << 40);
  Buffer later = std::move(run(storage::read_file(disk_, kSpreadFile)).value());
  store_be(later.data() + 4, std::uint32_t{2});
  ASSERT_TRUE(run(storage::replace_file(disk_, kSpreadFile, std::move(later))));
  EXPECT_EQ(run(read_spread(disk_)).error().code, Errc::kCorrupt) << "of a later version";
  ASSERT_TRUE(run(forget_spread(disk_)));
  ASSERT_TRUE(run(forget_spread(disk_))) << "twice";
  EXPECT_FALSE(run(read_spread(disk_))->has_value());
}

TEST_F(SpreadingTest, WhatCannotBeMovedStaysAndIsCounted) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  layout(mapped, 0, true);
  reaches(60);
  store3_comes();
  silence("store3");
  nodes_.pop_back();
  wire::SpreadArgs args{.known = tables_.get()->generation(), .shares = {}};
  for (const char* name : {"store1", "store2", "store3"}) args.shares.push_back({index(name), 1});
  EXPECT_EQ(ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kSpread, args).status, NfsStatus::kOk);
  pass_seconds(120);
  EXPECT_EQ(on("store3", mapped, 60), 0u);
  EXPECT_GT(process().metric("coordinator_spread_failures_total"), 0u);
}

}  // namespace
}  // namespace slice::coordinator
