#include "coordinator/ops/move.h"

#include "coordinator/testing/coordinator_fixture.h"
#include "wire/layout.h"
#include "wire/listed_site.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using namespace std::chrono_literals;

// Two storage nodes, which keep sessions and answer everything.
class MoveTest : public testing::CoordinatorFixture {
 protected:
  MoveTest() { loop_.advance(Sessions::kLife); }
  static constexpr std::uint64_t kStripe = 300;  // in the second piece

  routing::FileHandle mapped() const {
    routing::FileHandle handle = file();
    handle.flags = SLICE_HANDLE_BLOCK_MAPPED;
    return handle;
  }

  void keep_sessions() {
    for (const char* name : {"store1", "store2"}) {
      ask<wire::SessionResult>(wire::CoordinatorProcedure::kSession,
                               wire::SessionArgs{index(name), session_, 1 << 30});
    }
  }
  wire::LayoutResult layout(std::uint64_t stripe, bool place) {
    routing::HandleBytes bytes = handles_.mint(mapped());
    return ask<wire::LayoutResult>(wire::CoordinatorProcedure::kLayout,
                                   wire::LayoutArgs{bytes, stripe, place});
  }
  std::uint32_t owner(std::uint64_t stripe) {
    return routing::copies_of_stripe(*context_.tables.get(), layout(stripe, false).layout, mapped(), stripe)
        .all.front();
  }
  // To another server.
  NfsStatus move(std::uint64_t stripe) {
    layout(stripe, true);
    const std::uint32_t other = index("store1") + index("store2") - owner(stripe);
    routing::HandleBytes bytes = handles_.mint(mapped());
    return ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kMove,
                                        wire::MoveArgs{bytes, stripe, wire::listed_site({other})})
        .status;
  }
  testing::FakeObjects& node(std::uint32_t server) { return server == index("store1") ? store1_ : store2_; }

  std::uint64_t session_ = 0, next_stripe_ = 0;
};

TEST_F(MoveTest, APieceGetsItsPlaceAtTheFirstWriteAndKeepsIt) {
  EXPECT_TRUE(layout(kStripe, false).layout.piece.sites.empty());
  wire::LayoutResult placed = layout(kStripe, true);
  ASSERT_EQ(placed.status, NfsStatus::kOk);
  EXPECT_EQ(placed.layout.piece.number, 1u);
  EXPECT_EQ(placed.layout.piece.sites.size(), wire::kStripesOfPiece);
  EXPECT_TRUE(layout(3, false).layout.piece.sites.empty()) << "the other piece has none";
  kill();
  boot();
  EXPECT_EQ(layout(kStripe, true).layout.piece, placed.layout.piece);
}

TEST_F(MoveTest, AMovedStripeIsCopiedAndGivenBackAndStaysThere) {
  keep_sessions();
  layout(kStripe, true);
  std::uint32_t from = owner(kStripe), to = index("store1") + index("store2") - from;
  ASSERT_EQ(move(kStripe), NfsStatus::kOk);
  EXPECT_EQ(owner(kStripe), to);
  EXPECT_EQ(node(from).copies, 1) << "its orderer copies it";
  EXPECT_EQ(node(to).discards, 1) << "before it came: what was there of old";
  loop_.advance(1s);
  EXPECT_EQ(node(from).discards, 1) << "afterwards: what it has left";
  kill();
  boot();
  EXPECT_EQ(owner(kStripe), to);
}

TEST_F(MoveTest, ACopyThatFailsLeavesItWhereItWas) {
  keep_sessions();
  layout(kStripe, true);
  std::uint32_t from = owner(kStripe), to = index("store1") + index("store2") - from;
  node(from).copy_status = NfsStatus::kIo;
  EXPECT_EQ(move(kStripe), NfsStatus::kJukebox);
  EXPECT_EQ(owner(kStripe), from);
  EXPECT_FALSE(layout(kStripe, false).layout.moving) << "nobody writes it there any more";
  loop_.advance(1s);
  EXPECT_EQ(node(to).discards, 2) << "before, and what was copied";
  EXPECT_EQ(node(from).discards, 0);
  node(from).copy_status = NfsStatus::kOk;
  keep_sessions();
  EXPECT_EQ(move(kStripe), NfsStatus::kOk);
}

TEST_F(MoveTest, AServerThatIsAwayIsNowhereToMoveTo) {
  layout(kStripe, true);
  loop_.advance(Sessions::kLife);
  EXPECT_EQ(move(kStripe), NfsStatus::kJukebox) << "it has no session";
  keep_sessions();
  node(index("store1") + index("store2") - owner(kStripe)).status = NfsStatus::kJukebox;
  EXPECT_EQ(move(kStripe), NfsStatus::kJukebox) << "it does not give back what it may have of old";
  EXPECT_EQ(process().metric("coordinator_stripes_moved_total"), 0u);
}

TEST_F(MoveTest, OnlyStripesOfFilesWithALayoutCanBeMoved) {
  auto refused = [&](const routing::FileHandle& handle, std::uint64_t stripe, std::uint32_t site) {
    routing::HandleBytes bytes = handles_.mint(handle);
    return ask<wire::CoordinatorResult>(wire::CoordinatorProcedure::kMove,
                                        wire::MoveArgs{bytes, stripe, site})
        .status;
  };
  EXPECT_EQ(refused(file(), 1, 0), NfsStatus::kInval);
  EXPECT_EQ(refused(mapped(), ~0ull, 0), NfsStatus::kInval);
  EXPECT_EQ(refused(mapped(), 1, 1 << 20), NfsStatus::kInval);
}

// Wherever the coordinator dies, afterwards the stripe is at one place, the other one has given it back, and
// nothing is owed.
TEST_F(MoveTest, DeathAtEveryPointOfAMove) {
  for (const char* point : {"map.placed", "move.begun", "move.durable", "move.joining", "move.copied",
                            "move.switched", "move.placed", "move.moved", "move.given-back"}) {
    std::uint64_t stripe = ++next_stripe_ * wire::kStripesOfPiece;
    keep_sessions();
    int kills = kills_;
    kill_at(point);
    routing::HandleBytes bytes = handles_.mint(mapped());
    auto call = [&](wire::CoordinatorProcedure procedure, auto args) {
      run(service::internal_call<wire::CoordinatorResult>(network_, endpoint("coord1"),
                                                          wire::kCoordinatorProgram, procedure, args, 5s));
    };
    for (std::uint32_t site : {0u, 1u})
      call(wire::CoordinatorProcedure::kMove, wire::MoveArgs{bytes, stripe, site});
    loop_.advance(1s);
    ASSERT_EQ(kills_, kills + 1) << point;
    store1_.discarded.clear();
    store2_.discarded.clear();
    boot();
    loop_.advance(Sessions::kLife);
    keep_sessions();
    loop_.advance(5s);
    EXPECT_EQ(process().role.detail(), "0 open intentions") << point;
    EXPECT_FALSE(layout(stripe, false).layout.moving) << point;
    std::uint32_t owns = owner(stripe);
    EXPECT_FALSE(node(owns).discarded.contains(stripe)) << point;
    keep_sessions();
    EXPECT_EQ(move(stripe), NfsStatus::kOk) << point;
    EXPECT_NE(owner(stripe), owns) << point;
  }
}

TEST_F(MoveTest, ARemovedFileLeavesNoMap) {
  const std::size_t others = medium_.size();  // records that are no pieces
  layout(kStripe, true);
  layout(3, true);
  EXPECT_EQ(medium_.size(), others + 2u);
  auto removed = run(remove_call(mapped()));
  ASSERT_TRUE(removed);
  loop_.advance(1s);
  EXPECT_EQ(medium_.size(), others);
  EXPECT_EQ(layout(kStripe, true).status, NfsStatus::kStale) << "a late write";
  EXPECT_EQ(medium_.size(), others);
}

TEST_F(MoveTest, AMapThatCannotBeReadIsAnErrorAndNoOtherPlace) {
  layout(kStripe, true);
  kill();
  std::string key(16, '\0');
  store_be(reinterpret_cast<std::uint8_t*>(key.data()), std::uint64_t{77});
  key[15] = 1;
  medium_.corrupt(key);
  boot();
  EXPECT_EQ(layout(kStripe, false).status, NfsStatus::kIo);
  EXPECT_EQ(layout(kStripe, true).status, NfsStatus::kIo);
  EXPECT_EQ(layout(3, true).status, NfsStatus::kOk);
}

TEST(PieceRecordTest, DecodesOnlyWhatItEncodes) {
  wire::MapPiece piece{.number = 4, .sites = {}};
  for (std::uint32_t i = 0; i < wire::kStripesOfPiece; ++i)
    piece.sites.push_back(i % 2 == 0 ? i : wire::listed_site({i, i + 1}));
  std::string record = encode_piece_record(piece);
  EXPECT_EQ(decode_piece_record(record).value(), piece.sites);
  for (std::size_t size = 0; size < record.size(); ++size) {
    EXPECT_FALSE(decode_piece_record(std::string_view(record).substr(0, size)));
  }
  EXPECT_FALSE(decode_piece_record(record + "x"));
  record[0] = 3;
  EXPECT_FALSE(decode_piece_record(record));
  record[0] = 2;
  record[4] = record[3] = record[2] = record[1] = '\xff';
  EXPECT_FALSE(decode_piece_record(record)) << "a site that there cannot be";
}

// As they were written before servers could be listed.
TEST(PieceRecordTest, OlderRecordsAreRead) {
  std::string record(1 + 2 * wire::kStripesOfPiece, '\0');
  record[0] = 1;
  record[1 + 2 * 7] = 3;
  record[2 + 2 * 7] = 9;
  std::vector<std::uint32_t> sites(wire::kStripesOfPiece);
  sites[7] = 3 * 256 + 9;
  EXPECT_EQ(decode_piece_record(record).value(), sites);
  EXPECT_FALSE(decode_piece_record(record + "x"));
}

}  // namespace
}  // namespace slice::coordinator
