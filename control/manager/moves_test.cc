// Moves of sites as slice-managerd carries them out, with servers that answer as a test wants.
#include "control/manager/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/manager/file_store.h"
#include "control/manager/manager.h"
#include "service/internal_call.h"
#include "service/internal_program.h"
#include "service/testing/service_fixture.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::MovePhase;
using wire::MovesProcedure;

// A storage server's moves program, as old or as new owner.
class FakeServer : public service::InternalProgram {
 public:
  FakeServer() : InternalProgram(wire::kMovesProgram) {
    on<wire::MoveSitesArgs>(MovesProcedure::kMove, [this](const wire::MoveSitesArgs& args) {
      told.push_back(args);
      return answer;
    });
    on<wire::AbortMoveArgs>(MovesProcedure::kAbort, [this](const auto&) {
      ++aborts;
      return wire::AbortMoveResult{abort_phase, 9};
    });
    on<wire::PrepareSitesArgs>(MovesProcedure::kPrepare, [this](const wire::PrepareSitesArgs& args) {
      prepared.push_back(args.move);
      return prepare_answer;
    });
    on<wire::OfferSitesArgs>(MovesProcedure::kOffer, [this](const wire::OfferSitesArgs& args) {
      offered = args;
      return wire::MovesResult{};
    });
    on<wire::TakeSitesArgs>(MovesProcedure::kTake, [this](const wire::TakeSitesArgs& args) {
      taken.push_back(args.move);
      return take_answer;
    });
    on<wire::WithdrawSitesArgs>(MovesProcedure::kWithdraw, [this](const wire::WithdrawSitesArgs& args) {
      withdrawn = args.attempt;
      return withdraw_answer;
    });
  }
  std::vector<wire::MoveSitesArgs> told;
  wire::MoveSitesResult answer{.phase = MovePhase::kCopying, .copied_bytes = 1 << 20};
  MovePhase abort_phase = MovePhase::kAborted;
  unsigned aborts = 0;
  std::vector<wire::SiteMove> prepared, taken;
  wire::OfferSitesArgs offered;
  wire::MovesResult prepare_answer, take_answer;
  std::uint64_t withdrawn = 0;
  wire::MovesResult withdraw_answer;
};

class MovesTest : public service::testing::ServiceFixture {
 protected:
  MovesTest() : ServiceFixture("manager1", with_store3()) {
    ManagerState state{
        .drawn = {}, .volume = config_.volume, .tables = routing::RoutingTables::initial(config_)};
    state.tables.generation = Generation{1};
    // Three have all, the fourth came later.
    for (std::uint32_t site = 0; site < state.tables.sites[2].size(); ++site)
      state.tables.sites[2][site] = index(site % 2 == 0 ? "store1" : "store2");
    EXPECT_TRUE(run(save_state(store_, state)));
    restart();
    serve("store1", store1);
    serve("store2", store2);
    serve("store3", store3);
  }
  ~MovesTest() override { stop(); }
  static EnsembleConfig with_store3() {
    EnsembleConfig config = service::testing::sample_config();
    service::testing::add_server(config, "store3", ServerRole::kStorage);
    return config;
  }
  void stop() {
    if (manager_ == nullptr) return;
    manager_->stop();
    silence("manager1");
    retired_.push_back(std::move(manager_));
    loop_.advance(20s);
  }
  void restart() {
    stop();
    manager_ = std::make_unique<Manager>(context_, store_);
    EXPECT_TRUE(run(manager_->start()));
    serve("manager1", *manager_);
    for (const char* name : {"store1", "store2", "store3"}) beat(name);
  }
  void beat(const std::string& name) {
    wire::HeartbeatArgs args;
    args.server = index(name);
    args.state = "serving";
    (void)ask<wire::HeartbeatResult>(wire::ManagerProcedure::kHeartbeat, args);
  }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }
  template <class R, class Args>
  R ask(wire::ManagerProcedure procedure, const Args& args) {
    auto result = run(
        service::internal_call<R>(network_, endpoint("manager1"), wire::kManagerProgram, procedure, args));
    EXPECT_TRUE(result);
    return result.value_or(R{});
  }
  wire::StartMovesResult begin(const std::string& to, std::vector<std::uint32_t> sites,
                               wire::Role site_class = wire::Role::kStorage) {
    return ask<wire::StartMovesResult>(wire::ManagerProcedure::kMoveSites,
                                       wire::StartMovesArgs{site_class, index(to), std::move(sites)});
  }
  wire::MovesListResult list() {
    return ask<wire::MovesListResult>(wire::ManagerProcedure::kMoves, service::NoArguments{});
  }
  wire::ChangeMovesResult change(std::uint32_t fields, wire::MoveSettings settings, wire::MoveId abort = {}) {
    return ask<wire::ChangeMovesResult>(wire::ManagerProcedure::kChangeMoves,
                                        wire::ChangeMovesArgs{fields, settings, abort});
  }
  void lose(const std::string& name) {
    loop_.advance(Manager::kPatience + 1s);
    for (const char* other : {"store1", "store2", "store3"}) {
      if (name != other) beat(other);
    }
    auto lost = ask<wire::ChangeServerResult>(
        wire::ManagerProcedure::kChangeServer,
        wire::ChangeServerArgs{.change = wire::ServerChange::kLose, .entry = {.endpoint = {}, .name = name}});
    EXPECT_EQ(lost.refused, "");
  }
  const wire::Tables& tables() const { return manager_->durable_state().tables; }

  FakeServer store1, store2, store3;
  FileStore store_{disk_};
  std::unique_ptr<Manager> manager_;
  std::vector<std::unique_ptr<Manager>> retired_;
};

TEST_F(MovesTest, AMoveIsCarriedOutAndItsTablesArePublishedOnce) {
  auto begun = begin("store3", {0, 2, 3});
  ASSERT_EQ(begun.moves.size(), 2u) << "one from each old owner";
  loop_.advance(1s);
  ASSERT_FALSE(store1.told.empty() || store2.told.empty());
  EXPECT_THAT(store1.told.back().move.sites, ElementsAre(0, 2));
  EXPECT_THAT(store2.told.back().move.sites, ElementsAre(3));
  EXPECT_EQ(store1.told.back().bytes_per_second, wire::kDefaultMoveRate / 2) << "they share the limit";
  EXPECT_EQ(list().moves.at(0).last.copied_bytes, 1u << 20);
  EXPECT_EQ(tables().generation, Generation{1});
  const std::vector<std::uint32_t> layouts = tables().sites[2];
  store1.answer.phase = MovePhase::kGiven;
  loop_.advance(2s);
  EXPECT_EQ(tables().generation, Generation{2});
  EXPECT_EQ(tables().sites[2][0], index("store3"));
  EXPECT_EQ(tables().sites[2][3], index("store2"));
  EXPECT_EQ(tables().layout_sites, layouts) << "files with a layout stay";
  EXPECT_EQ(list().moves.size(), 2u) << "what was there is freed yet";
  store1.answer.phase = store2.answer.phase = MovePhase::kDone;
  loop_.advance(1s);
  EXPECT_TRUE(manager_->durable_state().moves.empty());
  EXPECT_EQ(tables().sites[2][3], index("store3"));
  for (const wire::MoveState& each : list().moves) EXPECT_NE(each.ended_ns, 0u);
}

TEST_F(MovesTest, AManagerThatStartsAgainGoesOn) {
  ASSERT_EQ(begin("store3", {0}).moves.size(), 1u);
  EXPECT_TRUE(change(wire::ChangeMovesArgs::kRate, {.bytes_per_second = 1234}).refused.empty());
  restart();
  store1.told.clear();
  loop_.advance(1s);
  ASSERT_FALSE(store1.told.empty());
  EXPECT_EQ(store1.told.back().bytes_per_second, 1234u);
  store1.answer.phase = MovePhase::kGiven;
  loop_.advance(1s);
  EXPECT_EQ(tables().sites[2][0], index("store3"));
}

TEST_F(MovesTest, AMoveEndsWhenItsTablesAreDurable) {
  ASSERT_EQ(begin("store3", {0}).moves.size(), 1u);
  disk_.set_fault([](const auto&) -> std::optional<Error> { return Error{Errc::kIo, "bad disk"}; });
  store1.answer.phase = MovePhase::kDone;
  loop_.advance(2s);
  EXPECT_EQ(list().moves.at(0).ended_ns, 0u);
  disk_.set_fault(nullptr);
  loop_.advance(2s);
  EXPECT_NE(list().moves.at(0).ended_ns, 0u);
  EXPECT_EQ(tables().sites[2][0], index("store3"));
}

TEST_F(MovesTest, WhatIsPausedIsToldSo) {
  ASSERT_EQ(begin("store3", {0}).moves.size(), 1u);
  EXPECT_TRUE(change(wire::ChangeMovesArgs::kPaused, {.paused = true}).settings.paused);
  loop_.advance(1s);
  EXPECT_TRUE(store1.told.back().paused);
  EXPECT_TRUE(list().settings.paused);
  EXPECT_EQ(list().settings.bytes_per_second, wire::kDefaultMoveRate) << "which was not named";
}

TEST_F(MovesTest, AMoveIsGivenUpAtBothServers) {
  const wire::MoveId id = begin("store3", {0}).moves.at(0);
  loop_.advance(1s);
  store3.withdraw_answer.status = nfs3::Status::kJukebox;
  EXPECT_TRUE(change(wire::ChangeMovesArgs::kAbort, {}, id).refused.empty());
  loop_.advance(1s);
  EXPECT_GT(store1.aborts, 0u);
  EXPECT_EQ(store3.withdrawn, 9u) << "the last attempt that the old owner has made";
  EXPECT_EQ(list().moves.at(0).ended_ns, 0u) << "the new owner has not given back everything";
  store3.withdraw_answer.status = nfs3::Status::kOk;
  loop_.advance(1s);
  EXPECT_EQ(list().moves.at(0).last.phase, MovePhase::kAborted);
  EXPECT_EQ(tables().generation, Generation{1});
  EXPECT_THAT(change(wire::ChangeMovesArgs::kAbort, {}, id).refused, HasSubstr("no move"));
}

TEST_F(MovesTest, WhatIsGivenAwayIsNotGivenUp) {
  const wire::MoveId id = begin("store3", {0}).moves.at(0);
  store1.abort_phase = MovePhase::kGiven;
  EXPECT_TRUE(change(wire::ChangeMovesArgs::kAbort, {}, id).refused.empty()) << "nobody has told it yet";
  store1.answer.phase = MovePhase::kGiven;
  loop_.advance(2s);
  EXPECT_EQ(tables().sites[2][0], index("store3"));
  EXPECT_EQ(store3.withdrawn, 0u);
  EXPECT_THAT(change(wire::ChangeMovesArgs::kAbort, {}, id).refused, HasSubstr("too late"));
}

TEST_F(MovesTest, SitesOfALostServerAreGivenToAnotherWithoutIt) {
  silence("store1");
  lose("store1");
  const wire::MoveId id = begin("store3", {0, 2}).moves.at(0);
  store3.prepare_answer.status = nfs3::Status::kJukebox;
  loop_.advance(1s);
  EXPECT_EQ(tables().sites[2][0], index("store1"));
  store3.prepare_answer.status = nfs3::Status::kOk;
  store3.take_answer.status = nfs3::Status::kIo;
  loop_.advance(1s);
  EXPECT_EQ(tables().sites[2][0], index("store1")) << "it has not recorded that they are its own";
  EXPECT_EQ(store3.offered.move, id);
  EXPECT_TRUE(store3.offered.final);
  EXPECT_EQ(store3.offered.verifier, tables().servers[index("store1")].lost);
  // The manager dies before it has published; the sites are there then.
  restart();
  store3.prepare_answer.status = nfs3::Status::kInval;
  store3.take_answer.status = nfs3::Status::kOk;
  loop_.advance(3s);
  EXPECT_EQ(tables().sites[2][0], index("store3"));
  EXPECT_EQ(tables().sites[2][2], index("store3"));
  EXPECT_TRUE(manager_->durable_state().moves.empty());
  EXPECT_EQ(list().moves.size(), 1u);
}

TEST_F(MovesTest, MovesEndWhenOneOfTheServersIsLost) {
  const wire::MoveId from = begin("store3", {0}).moves.at(0);
  const wire::MoveId to = begin("store1", {1}).moves.at(0);
  loop_.advance(1s);
  silence("store1");
  lose("store1");
  loop_.advance(2s);
  EXPECT_TRUE(manager_->durable_state().moves.empty());
  for (const wire::MoveState& each : list().moves) {
    EXPECT_EQ(each.last.phase, MovePhase::kAborted) << each.move.id.value;
    EXPECT_TRUE(each.move.id == from || each.move.id == to);
  }
  EXPECT_GT(store3.withdrawn, 0u) << "what has come is given back";
  EXPECT_EQ(store2.aborts, 1u);
  EXPECT_EQ(tables().sites[2][1], index("store2"));
}

// Then they went the same way as it.
TEST_F(MovesTest, WhatWasGivenToAServerThatIsLostIsItsOwn) {
  begin("store1", {1});
  store2.abort_phase = MovePhase::kGiven;
  silence("store1");
  lose("store1");
  store2.answer.phase = MovePhase::kGiven;
  loop_.advance(2s);
  EXPECT_EQ(tables().sites[2][1], index("store1"));
  EXPECT_TRUE(manager_->durable_state().moves.empty()) << "nobody tells a lost server that they are its own";
}

TEST_F(MovesTest, AnOldOwnerThatHasNotTheSitesEndsTheMove) {
  ASSERT_EQ(begin("store3", {0}).moves.size(), 1u);
  store1.answer = {.phase = MovePhase::kAborted, .trouble = "not mine"};
  loop_.advance(2s);
  EXPECT_EQ(list().moves.at(0).last.phase, MovePhase::kAborted);
  EXPECT_TRUE(manager_->durable_state().moves.empty());
}

TEST_F(MovesTest, OneMoveOfAnOldOwnerCopiesAtATime) {
  std::vector<std::uint32_t> many;
  for (std::uint32_t site = 0; site < 200; site += 2) many.push_back(site);
  ASSERT_EQ(begin("store3", many).moves.size(), 2u);
  loop_.advance(1s);
  for (const wire::MoveSitesArgs& each : store1.told)
    EXPECT_EQ(each.move.sites.size(), wire::kMaxSitesOfMove);
  store1.answer.phase = MovePhase::kGiven;
  loop_.advance(1s);
  EXPECT_EQ(list().moves.size(), 2u) << "the first frees what it had";
  EXPECT_TRUE(std::any_of(store1.told.begin(), store1.told.end(), [&](const wire::MoveSitesArgs& each) {
    return each.move.sites.size() == many.size() - wire::kMaxSitesOfMove;
  }));
}

TEST_F(MovesTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(begin("dir1", {0}).refused, HasSubstr("no storage server"));
  EXPECT_THAT(begin("store3", {1024}).refused, HasSubstr("there is no storage site 1024"));
  EXPECT_FALSE(begin("store3", {1024}).later) << "there will be none";
  EXPECT_TRUE(begin("store1", {0, 2}).moves.empty()) << "they are there";
  ASSERT_EQ(begin("store3", {0}).moves.size(), 1u);
  EXPECT_THAT(begin("store2", {0, 4}).refused, HasSubstr("on its way"));
  EXPECT_TRUE(begin("store2", {0, 4}).later);
  EXPECT_EQ(list().moves.size(), 1u) << "nothing of it was begun";
  loop_.advance(6s);
  EXPECT_THAT(begin("store2", {4}).refused, HasSubstr("not alive"));
  EXPECT_TRUE(begin("store2", {4}).later);
}

TEST_F(MovesTest, ADrainedServerIsToldOfUntilItIsUsedAgain) {
  auto drained = [&](wire::ServerChange how) {
    auto changed =
        ask<wire::ChangeServerResult>(wire::ManagerProcedure::kChangeServer,
                                      wire::ChangeServerArgs{how, {.endpoint = {}, .name = "store2"}});
    EXPECT_TRUE(changed.refused.empty());
    EXPECT_EQ(changed.entry.server, index("store2"));
    restart();
    return manager_->members().members.at(index("store2")).entry.drained;
  };
  EXPECT_TRUE(drained(wire::ServerChange::kDrain));
  EXPECT_FALSE(drained(wire::ServerChange::kUse));
  EXPECT_EQ(tables().generation, Generation{3}) << "all know of it";
}

TEST_F(MovesTest, WhoIsPartOfAMoveIsNotRemoved) {
  auto remove = [&] {
    return ask<wire::ChangeServerResult>(
        wire::ManagerProcedure::kChangeServer,
        wire::ChangeServerArgs{wire::ServerChange::kRemove, {.endpoint = {}, .name = "store3"}});
  };
  ASSERT_EQ(begin("store3", {0}).moves.size(), 1u);
  EXPECT_THAT(remove().refused, HasSubstr("is part of a move that goes on"));
}

}  // namespace
}  // namespace slice::manager
