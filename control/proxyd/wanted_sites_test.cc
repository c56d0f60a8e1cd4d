#include "control/proxyd/wanted_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/internal_program.h"
#include "service/testing/service_fixture.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Begins each move at once, and ends it when it is told to.
class FakeManager : public service::InternalProgram {
 public:
  FakeManager() : InternalProgram(wire::kManagerProgram) {
    on<service::NoArguments>(wire::ManagerProcedure::kMoves, [this](const auto&) { return list; });
    on<wire::StartMovesArgs>(wire::ManagerProcedure::kMoveSites, [this](const wire::StartMovesArgs& args) {
      asked.push_back(args);
      const bool refuses = std::find(args.sites.begin(), args.sites.end(), bad_site) != args.sites.end();
      if (refuses) return wire::StartMovesResult{.refused = "no", .later = later, .moves = {}};
      wire::MoveState move;
      move.move = {
          .id = wire::MoveId{++last}, .site_class = args.site_class, .to = args.to, .sites = args.sites};
      list.moves.push_back(move);
      return wire::StartMovesResult{.refused = "", .moves = {wire::MoveId{last}}};
    });
  }
  void end(std::size_t which, wire::MovePhase phase) {
    list.moves.at(which).last.phase = phase;
    list.moves.at(which).ended_ns = 1;
  }

  wire::MovesListResult list;
  std::vector<wire::StartMovesArgs> asked;
  std::uint64_t last = 0;
  std::uint32_t bad_site = 9999;
  bool later = false;
};

class WantedSitesTest : public service::testing::ServiceFixture {
 protected:
  WantedSitesTest() : ServiceFixture("proxy1"), slots_(SLICE_CLASSES * SLICE_MAX_SITES), wanted_(context_) {
    serve("manager1", manager_);
    Tables tables;
    tables.wanted = slots_.data();
    tables.config = &bound_;
    bound_.generation = static_cast<std::uint32_t>(tables_.get()->generation().value);
    wanted_.keep(tables);
  }
  std::uint32_t number(const std::string& server) const { return config_.find(server)->index + 1; }
  std::uint32_t& slot(wire::Role site_class, std::uint32_t site) {
    return slots_[slice_site_key(static_cast<std::uint32_t>(site_class), site)].server;
  }
  // A storage site that is store1's.
  std::uint32_t site(std::size_t which = 0) const {
    return wire::sites_of(tables_.get()->wire(), "store1").at(which);
  }
  std::uint32_t& storage(std::uint32_t at) { return slot(wire::Role::kStorage, at); }
  void moved(std::uint32_t at, const std::string& to) {
    wire::Tables tables = tables_.get()->wire();
    ++tables.generation.value;
    tables.sites[2][at] = config_.find(to)->index;
    tables_.set(routing::RoutingTables::make(config_, tables).value());
    bound_.generation = static_cast<std::uint32_t>(tables.generation.value);
  }
  std::uint64_t metric(std::string_view name) { return metrics_.counter(name).value(); }

  FakeManager manager_;
  std::vector<slice_wanted_slot> slots_;
  slice_config bound_{};
  WantedSites wanted_;
};

TEST_F(WantedSitesTest, AnEntryIsAMoveAndClearedWhenTheTablesShowIt) {
  loop_.advance(3s);
  EXPECT_THAT(manager_.asked, IsEmpty());
  storage(site()) = number("store2");
  loop_.advance(1100ms);
  ASSERT_EQ(manager_.asked.size(), 1u);
  EXPECT_EQ(manager_.asked[0].to, config_.find("store2")->index);
  EXPECT_EQ(manager_.asked[0].site_class, wire::Role::kStorage);
  EXPECT_THAT(manager_.asked[0].sites, ElementsAre(site()));
  loop_.advance(5s);
  EXPECT_EQ(manager_.asked.size(), 1u) << "it is under way";
  EXPECT_EQ(storage(site()), number("store2"));
  manager_.end(0, wire::MovePhase::kDone);
  loop_.advance(2s);
  const std::uint32_t at = site();
  EXPECT_EQ(storage(at), number("store2")) << "the tables do not show it yet";
  moved(at, "store2");
  loop_.advance(1100ms);
  EXPECT_EQ(storage(at), 0u);
  EXPECT_EQ(manager_.asked.size(), 1u);
  EXPECT_EQ(metric("proxy_wanted_done_total"), 1u);
  EXPECT_EQ(metric("proxy_wanted_refused_total"), 0u);
}

TEST_F(WantedSitesTest, SitesToOneServerAreAskedForTogether) {
  storage(site(0)) = number("store2");
  storage(site(3)) = number("store2");
  loop_.advance(1100ms);
  ASSERT_EQ(manager_.asked.size(), 1u);
  EXPECT_THAT(manager_.asked[0].sites, ElementsAre(site(0), site(3)));
}

TEST_F(WantedSitesTest, WhatIsSoAlreadyIsClearedUnasked) {
  storage(site()) = number("store1");
  loop_.advance(1100ms);
  EXPECT_EQ(storage(site()), 0u);
  EXPECT_THAT(manager_.asked, IsEmpty());
}

TEST_F(WantedSitesTest, WrongEntriesAreClearedAndCounted) {
  const std::uint32_t sites = config_.site_counts[2];
  storage(sites) = number("store2");                     // no such site
  storage(site(0)) = 500;                                // no such server
  storage(site(1)) = 0xffffffff;                         //
  storage(site(2)) = number("dir1");                     // another role
  slot(wire::Role::kDirectory, 3) = number("manager1");  // without sites
  slots_.back().server = number("proxy1");               // the last slot
  loop_.advance(1100ms);
  EXPECT_EQ(std::count_if(slots_.begin(), slots_.end(), [](const auto& each) { return each.server != 0; }),
            0);
  EXPECT_EQ(metric("proxy_wanted_refused_total"), 6u);
  EXPECT_THAT(manager_.asked, IsEmpty());
}

TEST_F(WantedSitesTest, WhatTheManagerRefusesForGoodIsClearedAndTheRestGoesOn) {
  manager_.bad_site = site(1);
  for (std::size_t which : {0u, 1u, 2u}) storage(site(which)) = number("store2");
  loop_.advance(1100ms);
  EXPECT_EQ(storage(site(1)), 0u);
  EXPECT_EQ(metric("proxy_wanted_refused_total"), 1u);
  EXPECT_EQ(storage(site(0)), number("store2"));
  EXPECT_EQ(storage(site(2)), number("store2"));
  EXPECT_EQ(manager_.list.moves.size(), 2u);
}

TEST_F(WantedSitesTest, WhatTheManagerCannotTakeNowIsAskedForAgain) {
  manager_.bad_site = site();
  manager_.later = true;
  storage(site()) = number("store2");
  loop_.advance(3100ms);
  EXPECT_GE(manager_.asked.size(), 3u);
  silence("manager1");
  loop_.advance(20s);
  EXPECT_EQ(storage(site()), number("store2"));
  serve("manager1", manager_);
  manager_.bad_site = 9999;
  loop_.advance(5s);
  EXPECT_EQ(manager_.list.moves.size(), 1u);
  EXPECT_EQ(metric("proxy_wanted_refused_total"), 0u);
}

// By slicectl, or another proxy that has the same entry.
TEST_F(WantedSitesTest, AMoveThatSomebodyElseBeganIsWaitedFor) {
  wire::MoveState other;
  other.move = {.id = wire::MoveId{70},
                .site_class = wire::Role::kStorage,
                .to = config_.find("store2")->index,
                .sites = {site()}};
  manager_.list.moves.push_back(other);
  storage(site()) = number("store2");
  loop_.advance(3s);
  EXPECT_THAT(manager_.asked, IsEmpty());
  manager_.end(0, wire::MovePhase::kAborted);
  loop_.advance(1100ms);
  EXPECT_EQ(storage(site()), 0u) << "an operator gave it up";
  EXPECT_EQ(metric("proxy_wanted_refused_total"), 1u);
  storage(site()) = number("store2");
  loop_.advance(1100ms);
  EXPECT_EQ(manager_.asked.size(), 1u) << "another wish, after that";
}

TEST_F(WantedSitesTest, AnEntryThatIsChangedMeanwhileIsAnotherWish) {
  storage(site()) = number("store2");
  loop_.advance(1100ms);
  storage(site()) = number("store1");
  loop_.advance(1100ms);
  EXPECT_EQ(storage(site()), number("store1")) << "it is there still, but a move takes it away";
  const std::uint32_t at = site();
  manager_.end(0, wire::MovePhase::kDone);
  moved(at, "store2");
  loop_.advance(1100ms);
  ASSERT_EQ(manager_.asked.size(), 2u);
  EXPECT_EQ(manager_.asked[1].to, config_.find("store1")->index);
  manager_.end(1, wire::MovePhase::kDone);
  moved(at, "store1");
  loop_.advance(1100ms);
  EXPECT_EQ(storage(at), 0u);
}

}  // namespace
}  // namespace slice::proxy
