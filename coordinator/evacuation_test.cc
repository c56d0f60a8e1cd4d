#include "coordinator/evacuation.h"

#include "coordinator/testing/layout_fixture.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

// Two storage nodes, the first of which is drained.
class EvacuationTest : public testing::LayoutFixture {
 protected:
  using LayoutFixture::LayoutFixture;
  std::size_t on_store1(const routing::FileHandle& of) { return on("store1", of); }
  void drain(bool drained) {
    change_tables([&](wire::Tables& tables) { tables.servers[index("store1")].drained = drained; });
  }
  wire::EmptiedResult emptied() {
    return ask<wire::EmptiedResult>(wire::CoordinatorProcedure::kEmptied,
                                    wire::EmptiedArgs{index("store1"), tables_.get()->generation()});
  }
  // The file reaches over these many stripes.
  void reaches(std::uint64_t stripes) {
    store1_.end = store2_.end = stripes * kUnit;
    store1_.has = store2_.has = {FileId{77}};
  }
};

TEST_F(EvacuationTest, WhatIsThereIsMovedAndWhatIsNotThereIsPlacedElsewhere) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  EXPECT_EQ(emptied().status, NfsStatus::kInval) << "it is not drained";
  layout(mapped, 0, true);
  reaches(8);
  const std::size_t before = on_store1(mapped);
  ASSERT_GT(before, 100u);
  drain(true);
  EXPECT_EQ(emptied().status, NfsStatus::kJukebox) << "nobody has looked yet";
  pass_seconds(10);
  EXPECT_EQ(on_store1(mapped), 0u);
  EXPECT_EQ(emptied().status, NfsStatus::kOk) << emptied().left;
  EXPECT_GT(store1_.copies, 0);
  EXPECT_LE(store1_.copies, 8) << "what lies behind the end is not copied";
  EXPECT_EQ(store1_.copies, store1_.discards) << "it has given back what was copied";
  EXPECT_EQ(process().metric("coordinator_evacuated_stripes_total"),
            static_cast<std::uint64_t>(store1_.copies));
  // What is found counts for the tables that it was found by.
  drain(false);
  EXPECT_EQ(emptied().status, NfsStatus::kInval);
  drain(true);
  EXPECT_EQ(emptied().status, NfsStatus::kJukebox);
  pass_seconds(3);
  EXPECT_EQ(emptied().status, NfsStatus::kOk);
}

TEST_F(EvacuationTest, ANewPieceHasNothingThere) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  drain(true);
  EXPECT_FALSE(layout(mapped, 0, false).settled) << "a write would need its place";
  EXPECT_TRUE(layout(mapped, 0, true).settled);
  EXPECT_EQ(on_store1(mapped), 0u);
  pass_seconds(3);
  EXPECT_EQ(emptied().status, NfsStatus::kOk);
}

// Two copies need two nodes: there is nowhere to go.
TEST_F(EvacuationTest, WhatCannotGoStaysAndIsNotSaidToBeGone) {
  const routing::FileHandle mirrored = handle(SLICE_HANDLE_MIRRORED);
  EXPECT_TRUE(layout(mirrored, 0, false).settled);
  EXPECT_TRUE(layout(mirrored, 0, true).piece.sites.empty()) << "the hash says where it is";
  reaches(8);
  drain(true);
  EXPECT_FALSE(layout(mirrored, 0, false).settled);
  EXPECT_TRUE(layout(mirrored, 0, true).settled) << "it is written where it was";
  pass_seconds(10);
  EXPECT_EQ(on_store1(mirrored), wire::kStripesOfPiece);
  EXPECT_EQ(emptied().status, NfsStatus::kJukebox);
  EXPECT_NE(emptied().left.find("2 copies"), std::string::npos) << emptied().left;
}

// Three storage nodes, of which the first is lost, and so can be asked nothing.
class LossTest : public EvacuationTest {
 protected:
  LossTest() : EvacuationTest(with_store3()), store3_(loop_) {
    serve("store3", store3_);
    nodes_ = {"store1", "store2", "store3"};
    keep_sessions();
  }
  static EnsembleConfig with_store3() {
    EnsembleConfig config = service::testing::sample_config();
    service::testing::add_server(config, "store3", ServerRole::kStorage);
    return config;
  }
  void lose() {
    silence("store1");
    nodes_ = {"store2", "store3"};
    change_tables([&](wire::Tables& tables) {
      tables.servers[index("store1")].drained = true;
      tables.servers[index("store1")].lost = Verifier{9};
    });
  }
  void reaches_everywhere(std::uint64_t stripes) {
    reaches(stripes);
    store3_.end = stripes * kUnit;
    store3_.has = {FileId{77}};
  }
  testing::FakeObjects store3_;
};

TEST_F(LossTest, WhatHasACopyElsewhereGetsAnother) {
  const routing::FileHandle mirrored = handle(SLICE_HANDLE_MIRRORED);
  layout(mirrored, 0, true);
  reaches_everywhere(8);
  ASSERT_GT(on_store1(mirrored), 0u);
  lose();
  EXPECT_EQ(emptied().status, NfsStatus::kJukebox);
  pass_seconds(15);
  EXPECT_EQ(on_store1(mirrored), 0u);
  EXPECT_EQ(emptied().status, NfsStatus::kOk) << emptied().left;
  EXPECT_EQ(store1_.copies + store1_.discards, 0) << "it is asked nothing";
  EXPECT_GT(store2_.copies + store3_.copies, 0);
}

TEST_F(LossTest, WhatHasNoOtherCopyIsSaidToBeLeft) {
  const routing::FileHandle mapped = handle(SLICE_HANDLE_BLOCK_MAPPED);
  layout(mapped, 0, true);
  reaches_everywhere(8);
  lose();
  pass_seconds(15);
  EXPECT_EQ(emptied().status, NfsStatus::kJukebox);
  EXPECT_NE(emptied().left.find("has no whole copy left"), std::string::npos) << emptied().left;
}

TEST_F(EvacuationTest, NothingIsSaidToBeEmptyWhileAServerIsSilent) {
  drain(true);
  silence("store2");
  pass_seconds(10);
  EXPECT_EQ(emptied().status, NfsStatus::kJukebox);
  EXPECT_NE(emptied().left.find("store2"), std::string::npos) << emptied().left;
  serve("store2", store2_);
  pass_seconds(20);
  EXPECT_EQ(emptied().status, NfsStatus::kOk);
}

}  // namespace
}  // namespace slice::coordinator
