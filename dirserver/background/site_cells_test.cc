// Directory sites that move between two servers; the manager is the test. Histories are the simulation's to
// judge (tests/sim); here are the rules that it could miss.
#include "dirserver/background/site_cells.h"

#include <gmock/gmock.h>

#include "dirserver/testing/two_servers.h"
#include "service/internal_call.h"
#include "wire/moves.h"

namespace slice::dirserver {
namespace {

using NfsStatus = nfs3::Status;
using testing::Side;

using namespace std::chrono_literals;
using nfs3::Procedure;
using ::testing::HasSubstr;
using wire::DirectoryProcedure;
using wire::MovePhase;
using wire::MovesProcedure;
using wire::PeerStatus;

class SiteCellsTest : public testing::TwoServers {
 protected:
  static constexpr SiteId kSite = kRootSite;

  SiteCellsTest() {
    move = {.id = wire::MoveId{5},
            .site_class = wire::Role::kDirectory,
            .from = from->self.index,
            .to = to->self.index,
            .begun = Generation{1},
            .sites = {kSite.value}};
  }

  // ---- what a client does ----
  NfsStatus make(const Side& at, std::string_view name, std::uint32_t xid = 0) {
    const routing::HandleBytes directory = root();
    auto response =
        run(send(at, Procedure::kCreate,
                 nfs3::CreateArgs{.where = {directory, name}, .mode = nfs3::CreateMode::kGuarded}, xid));
    return status_of(response);
  }
  NfsStatus remove(const Side& at, std::string_view name, std::uint32_t xid = 0) {
    const routing::HandleBytes directory = root();
    return status_of(run(send(at, Procedure::kRemove, nfs3::RemoveArgs{directory, name}, xid)));
  }
  std::optional<FileId> look_up(const Side& at, std::string_view name) {
    const routing::HandleBytes directory = root();
    auto response = run(send(at, Procedure::kLookup, nfs3::LookupArgs{directory, name}));
    NfsStatus status = NfsStatus::kServerFault;
    nfs3::LookupOk ok;
    if (response) {
      rpc::XdrReader in(response->results());
      EXPECT_TRUE(nfs3::decode_result(in, status, ok));
    }
    if (status != NfsStatus::kOk) return std::nullopt;
    return handles_.open(ok.object)->fileid;
  }

  // ---- what the manager does ----
  wire::MoveSitesResult tell(std::uint64_t rate = 0, bool paused = false) {
    return *run(service::internal_call<wire::MoveSitesResult>(network_, from->endpoint(), wire::kMovesProgram,
                                                              MovesProcedure::kMove,
                                                              wire::MoveSitesArgs{move, rate, paused}));
  }
  wire::MoveSitesResult until(MovePhase phase) {
    wire::MoveSitesResult told;
    for (int i = 0; i < 200 && (told = tell()).phase != phase; ++i) loop_.advance(100ms);
    EXPECT_EQ(told.phase, phase) << told.trouble;
    return told;
  }

  // ---- what another directory server does ----
  template <class R, class Args>
  R peer(const Side& at, DirectoryProcedure procedure, const Args& args) {
    auto result =
        run(service::internal_call<R>(network_, at.endpoint(), wire::kDirectoryProgram, procedure, args));
    EXPECT_TRUE(result.has_value());
    return result.value_or(R{});
  }
  static std::size_t keys(const storage::KvStore& store) {
    std::size_t count = 0;
    KeyRange range = range_of(kSite);
    for (auto at = store.iterate(range.begin, range.end); at->valid(); at->next()) ++count;
    return count;
  }
  void put(Side& at, std::string key, std::string value) {
    storage::WriteBatch batch;
    batch.put(std::move(key), std::move(value));
    ASSERT_TRUE(at.store->apply(batch));
  }

  std::unique_ptr<Side>&from = first, &to = second;
  wire::SiteMove move;
};

TEST_F(SiteCellsTest, NamesAndWhatWasAnsweredGoAlong) {
  ASSERT_EQ(make(*from, "a", 7), NfsStatus::kOk);
  ASSERT_EQ(make(*from, "b"), NfsStatus::kOk);
  const auto before = look_up(*from, "a");
  ASSERT_TRUE(before);
  ASSERT_EQ(remove(*from, "c", 8), NfsStatus::kNoEnt);
  until(MovePhase::kDone);
  EXPECT_TRUE(to->ownership.owns_all({kSite.value}));
  EXPECT_EQ(keys(*from->store), 0u) << "the old owner gives it back";
  EXPECT_EQ(look_up(*to, "a"), before);
  EXPECT_EQ(look_up(*from, "b"), look_up(*to, "b")) << "the old owner passes requests on";
  // Late copies of calls that the old owner has answered.
  ASSERT_EQ(make(*to, "c"), NfsStatus::kOk);
  EXPECT_EQ(make(*to, "a", 7), NfsStatus::kOk);
  EXPECT_EQ(remove(*to, "c", 8), NfsStatus::kNoEnt);
  EXPECT_TRUE(look_up(*to, "c")) << "a refused call is not carried out later";
  const auto fresh = look_up(*to, "c");
  ASSERT_TRUE(fresh);
  EXPECT_GT(*fresh, *before) << "fileIDs are not given out twice";
}

TEST_F(SiteCellsTest, WhatChangesMeanwhileGoesAlong) {
  for (int i = 0; i < 50; ++i) ASSERT_EQ(make(*from, "n" + std::to_string(i)), NfsStatus::kOk);
  tell(1000);
  loop_.advance(2s);
  ASSERT_EQ(tell(1000).phase, MovePhase::kCopying);
  ASSERT_EQ(make(*from, "new"), NfsStatus::kOk);
  ASSERT_EQ(remove(*from, "n0"), NfsStatus::kOk);
  until(MovePhase::kDone);
  EXPECT_TRUE(look_up(*to, "new"));
  EXPECT_FALSE(look_up(*to, "n0"));
  EXPECT_TRUE(look_up(*to, "n49"));
}

TEST_F(SiteCellsTest, AMoveThatIsGivenUpLeavesNothing) {
  for (int i = 0; i < 50; ++i) ASSERT_EQ(make(*from, "n" + std::to_string(i)), NfsStatus::kOk);
  tell(1000);
  loop_.advance(2s);
  EXPECT_GT(keys(*to->store), 0u);
  auto aborted = run(service::internal_call<wire::AbortMoveResult>(
      network_, from->endpoint(), wire::kMovesProgram, MovesProcedure::kAbort, wire::AbortMoveArgs{move}));
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->phase, MovePhase::kAborted);
  loop_.advance(2s);
  EXPECT_EQ(keys(*to->store), 0u);
  EXPECT_TRUE(look_up(*from, "n0"));
  EXPECT_EQ(make(*from, "more"), NfsStatus::kOk);
}

TEST_F(SiteCellsTest, OtherTablesComeWhileTheNewOwnerRefuses) {
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(make(*from, "n" + std::to_string(i)), NfsStatus::kOk);
  tell(100000);
  loop_.advance(2s);
  ASSERT_EQ(tell(100000).phase, MovePhase::kCopying);
  from->crash.set([&](std::string_view point) {
    if (point == "site.cells-sending")
      from->tables.set(routing::RoutingTables::make(config_, from->managers).value());
    return false;
  });
  const std::uint64_t later = loop_.wall().ns + std::uint64_t{3600'000'000'000};
  auto withdrawn = run(service::internal_call<wire::MovesResult>(
      network_, to->endpoint(), wire::kMovesProgram, MovesProcedure::kWithdraw,
      wire::WithdrawSitesArgs{move, later}));
  ASSERT_TRUE(withdrawn);
  std::string trouble;
  for (int i = 0; i < 100 && trouble.empty(); ++i) {
    loop_.advance(100ms);
    trouble = tell(100000).trouble;
  }
  EXPECT_THAT(trouble, HasSubstr("dir2 does not take cells: the attempt is over there"));
  until(MovePhase::kDone);
  EXPECT_TRUE(look_up(*to, "n999"));
}

TEST_F(SiteCellsTest, DecisionAndPromiseGoAlongAndAreCarriedOutThere) {
  ASSERT_EQ(make(*from, "a"), NfsStatus::kOk);
  const auto file = look_up(*from, "a");
  ASSERT_TRUE(file);
  auto stored = from->store->get(attribute_key(kSite, *file)).value();
  AttributeCell cell = *decode_attribute_cell(kSite, *stored);
  cell.mode = 0600;
  const TransactionId id{kSite, 9, 1};
  put(*from, prepared_key(kSite, id),
      encode(PreparedRecord{id, false, {kSite, {CellStep{CellStep::How::kChange, cell}}}}));
  put(*from, intention_key(id), encode(IntentionRecord{id, {kSite}}));
  until(MovePhase::kDone);
  const wire::FinishArgs finish{name_of(id), true, kSite};
  EXPECT_EQ(peer<wire::PeerResult>(*from, DirectoryProcedure::kFinish, finish).status,
            PeerStatus::kMisdirected)
      << "what it does not know any more it has not done";
  EXPECT_EQ(peer<wire::OwnerResult>(*from, DirectoryProcedure::kOwner, wire::OwnerArgs{kSite}).server,
            to->self.index);
  loop_.advance(5s);
  stored = to->store->get(attribute_key(kSite, *file)).value();
  EXPECT_EQ(decode_attribute_cell(kSite, *stored)->mode, 0600u);
  EXPECT_FALSE(to->store->get(prepared_key(kSite, id)).value());
  EXPECT_FALSE(to->store->get(intention_key(id)).value());
  EXPECT_EQ(peer<wire::PeerResult>(*to, DirectoryProcedure::kFinish, finish).status, PeerStatus::kOk);
}

TEST_F(SiteCellsTest, WhatCannotBeReadStays) {
  put(*from, duplicate_key(kSite, 77), "no record");
  tell();
  loop_.advance(5s);
  const wire::MoveSitesResult told = tell();
  EXPECT_NE(told.phase, MovePhase::kDone);
  EXPECT_GT(told.tries, 0u);
  EXPECT_FALSE(told.trouble.empty());
  EXPECT_TRUE(from->ownership.owns_all({kSite.value}));
  EXPECT_EQ(make(*from, "a"), NfsStatus::kOk) << "it is served as before";
}

TEST_F(SiteCellsTest, MessagesAreTakenOnceAndInOrder) {
  Metrics metrics;
  Stays stays(loop_);
  storage::MemoryMedium medium;
  storage::MemoryStore store(loop_, medium);
  CellStore cells(store, metrics, 1 << 20, [](SiteId) { return false; }, stays);
  DuplicateCache duplicates(loop_, metrics);
  SiteCells taker(context_, cells, duplicates);
  taker.open(move, 3);
  const std::string key = sequence_key(kSite);
  auto put_value = [&](std::uint64_t attempt, std::uint64_t number, const std::string& to_key,
                       std::uint64_t value) {
    return taker.take({move.id, attempt, number, {{to_key, encode_number(value)}}}).status;
  };
  EXPECT_EQ(put_value(3, 1, key, 10), PeerStatus::kOk);
  EXPECT_EQ(put_value(3, 3, key, 30), PeerStatus::kRefused) << "one is missing";
  EXPECT_EQ(put_value(3, 2, key, 20), PeerStatus::kOk);
  EXPECT_EQ(put_value(3, 1, key, 11), PeerStatus::kOk);
  EXPECT_EQ(store.get(key).value(), encode_number(20)) << "a late copy changes nothing";
  EXPECT_EQ(put_value(2, 3, key, 30), PeerStatus::kRefused) << "of an earlier attempt";
  EXPECT_EQ(put_value(3, 3, sequence_key(SiteId{9}), 1), PeerStatus::kRefused) << "another site's";
  // What could not be gone on with is said for as long as it is there.
  auto put_record = [&](std::uint64_t number, std::optional<std::string> value) {
    return taker.take({move.id, 3, number, {{reclaim_key(kSite, FileId{9}), std::move(value)}}}).status;
  };
  EXPECT_TRUE(run(taker.sync()));
  EXPECT_EQ(put_record(3, "no record"), PeerStatus::kOk);
  EXPECT_EQ(run(taker.sync()).error().code, Errc::kCorrupt);
  EXPECT_EQ(put_record(4, std::nullopt), PeerStatus::kOk);
  EXPECT_TRUE(run(taker.sync()));
  start_void(taker.close(move.id), [] {});
  EXPECT_EQ(put_value(3, 5, key, 30), PeerStatus::kRefused);
}

TEST_F(SiteCellsTest, NothingIsChangedInAFrozenSite) {
  Metrics metrics;
  Stays stays(loop_);
  storage::MemoryMedium medium;
  storage::MemoryStore store(loop_, medium);
  CellStore cells(store, metrics, 1 << 20, [](SiteId) { return true; }, stays);
  stays.begin(kSite);
  const Stay stay = stays.of(kSite);
  auto changes = [&](SiteId site) {
    storage::WriteBatch batch;
    batch.put(sequence_key(site), encode_number(1));
    return cells.apply(batch).has_value();
  };
  EXPECT_TRUE(changes(kSite));
  stays.freeze(kSite);
  EXPECT_FALSE(changes(kSite));
  EXPECT_TRUE(changes(SiteId{2}));
  std::optional<bool> open;
  start(stays.until_open(kSite, stay), [&](bool is) { open = is; });
  loop_.advance(1s);
  EXPECT_FALSE(open);
  stays.thaw(kSite);
  loop_.advance(1ms);
  EXPECT_EQ(open, true);
  stays.freeze(kSite);
  open.reset();
  start(stays.until_open(kSite, stay), [&](bool is) { open = is; });
  stays.end(kSite);
  loop_.advance(1ms);
  EXPECT_EQ(open, false) << "the site went";
  EXPECT_FALSE(changes(kSite));
  EXPECT_FALSE(cells.any_generation({kSite, kRootId, 1})) << "nor read";
  stays.begin(kSite);
  EXPECT_TRUE(changes(kSite));
  EXPECT_NE(stays.of(kSite), stay);
}

}  // namespace
}  // namespace slice::dirserver
