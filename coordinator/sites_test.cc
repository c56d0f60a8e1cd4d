// Sites that move between two coordinators, with fake data servers, a fake directory server, and a manager
// who is the test.
#include "coordinator/sites.h"

#include <gmock/gmock.h>

#include "coordinator/ops/remove.h"
#include "coordinator/testing/coordinator_fixture.h"
#include "service/testing/side.h"
#include "wire/moves.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::CoordinatorProcedure;
using wire::MovePhase;
using wire::MovesProcedure;

EnsembleConfig two_coordinators() {
  EnsembleConfig config = service::testing::sample_config();
  service::testing::add_server(config, "coord2", ServerRole::kCoordinator);
  return config;
}

// The object program of a storage node that also knows which layouts were recalled.
class FakeNode : public testing::FakeObjects {
 public:
  explicit FakeNode(ManualLoop& on) : FakeObjects(on), loop(on) {}
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (call.procedure == static_cast<std::uint32_t>(wire::ObjectProcedure::kRecall)) {
      wire::RecallArgs args;
      if (!decode(call.arguments, args)) co_return rpc::Outcome::kGarbage;
      recalls.push_back(args);
      if (on_recall) on_recall();
      while (recall_waits) co_await loop.sleep(10ms);
    }
    co_return co_await FakeObjects::handle(call, results);
  }
  ManualLoop& loop;
  std::vector<wire::RecallArgs> recalls;
  std::function<void()> on_recall;
  bool recall_waits = false;
};

// One of the two coordinators.
struct Side : service::testing::SideThrough<testing::MortalChannel> {
  using SideThrough::SideThrough;
  std::uint64_t metric(std::string_view name) { return metrics.counter(name).value(); }

  storage::MemoryMedium medium;
  storage::MemoryStore::Options store_options;
  storage::MemoryStore* store = nullptr;
  std::unique_ptr<Coordinator> server;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
};

class SitesTest : public service::testing::ServiceFixture {
 protected:
  SitesTest() : ServiceFixture("manager1", two_coordinators()) {
    serve("dir1", authority);
    serve("small1", small);
    serve("store1", store1);
    serve("store2", store2);
    from = side("coord1");
    to = side("coord2");
    for (std::uint64_t id = 1; here.empty() || there.empty(); ++id) {
      const bool first = tables_.get()->owns(from->self.index, wire::Role::kCoordinator,
                                             tables_.get()->coordinator_site(FileId{id}));
      (first ? here : there) = {FileId{id}};
    }
    for (FileId file : {here[0], there[0]}) {
      authority.add(file);
      authority.file(file).striped = true;
      authority.file(file).attributes.gid = 100;
      authority.file(file).attributes.mode = 0600;
    }
    move = {.id = wire::MoveId{5},
            .from = from->self.index,
            .to = to->self.index,
            .begun = Generation{1},
            .sites = {tables_.get()->coordinator_site(here[0]).value}};
    move.site_class = wire::Role::kCoordinator;
    hold_sessions();
  }
  ~SitesTest() override {
    over = true;
    small.status = store1.status = store2.status = NfsStatus::kOk;
    store1.recall_waits = store2.recall_waits = false;
    loop_.advance(15s);
    for (Side* each : {from.get(), to.get()}) {
      bool ended = false;
      start_void(each->server->stop(), [&ended] { ended = true; });
      loop_.run_until([&ended] { return ended; });
    }
    loop_.advance(20s);
  }

  std::unique_ptr<Side> side(const std::string& name) {
    auto made = std::make_unique<Side>(loop_, config_, handles_, network_, name);
    EXPECT_TRUE(run(made->ownership.grant(made->tables.get()->wire())));
    boot(*made);
    return made;
  }
  void boot(Side& of) {
    of.server = std::make_unique<Coordinator>(of.context, [&of](service::ServiceContext& on) {
      auto made = std::make_unique<storage::MemoryStore>(on.loop, of.medium, of.store_options);
      of.store = made.get();
      return Result<std::unique_ptr<storage::KvStore>>(std::move(made));
    });
    EXPECT_TRUE(run(of.server->start()));
    of.dispatcher = std::make_unique<rpc::Dispatcher>(of.metrics);
    for (auto* program : of.server->programs()) of.dispatcher->add(*program);
    of.network.attach(endpoint(of.self.name), of.dispatcher.get());
  }
  // Stops it, without what it would lose in a crash, and starts it anew.
  void restart(Side& of) {
    bool ended = false;
    start_void(of.server->stop(), [&ended] { ended = true; });
    ASSERT_TRUE(loop_.run_until([&ended] { return ended; }));
    of.network.attach(endpoint(of.self.name), nullptr);
    loop_.advance(10s);
    of.server.reset();
    of.store = nullptr;
    boot(of);
  }

  // ---- files ----
  routing::FileHandle plain(FileId file) const {
    return {.type = nfs3::FileType::kRegular, .fileid = file, .generation = 1, .cell_key = 5};
  }
  routing::FileHandle mirrored(FileId file) const {
    routing::FileHandle handle = plain(file);
    handle.flags = SLICE_HANDLE_MIRRORED;
    return handle;
  }
  routing::FileHandle mapped(FileId file) const {
    routing::FileHandle handle = plain(file);
    handle.flags = SLICE_HANDLE_BLOCK_MAPPED;
    return handle;
  }
  std::uint32_t index(const std::string& name) const { return config_.find(name)->index; }

  // ---- what storage nodes, directory servers and clients do ----
  template <class R, class Args>
  Task<Result<R>> ask(const Side& at, CoordinatorProcedure procedure, Args args) {
    return service::internal_call<R>(network_, endpoint(at.self.name), wire::kCoordinatorProgram, procedure,
                                     args, 30s);
  }
  Task<void> keep_session(std::uint32_t node, std::string coordinator) {
    std::uint64_t number = 0;
    while (!over) {
      auto result = co_await service::internal_call<wire::SessionResult>(
          network_, endpoint(coordinator), wire::kCoordinatorProgram, CoordinatorProcedure::kSession,
          wire::SessionArgs{node, number, 1 << 30});
      if (result && result->status == NfsStatus::kOk) number = result->session;
      co_await loop_.sleep(500ms);
    }
  }
  void hold_sessions() {
    for (const char* node : {"store1", "store2"}) {
      for (const char* coordinator : {"coord1", "coord2"}) spawn(keep_session(index(node), coordinator));
    }
    loop_.advance(100ms);
  }
  wire::LayoutResult layout(const Side& at, routing::FileHandle handle, std::uint64_t stripe = 0,
                            bool place = false) {
    auto bytes = handles_.mint(handle);
    auto result = run(
        ask<wire::LayoutResult>(at, CoordinatorProcedure::kLayout, wire::LayoutArgs{bytes, stripe, place}));
    EXPECT_TRUE(result);
    return result.value_or(wire::LayoutResult{.status = NfsStatus::kServerFault});
  }
  NfsStatus missed(const Side& at, routing::FileHandle handle, const std::string& node,
                   wire::StripeRange which) {
    auto bytes = handles_.mint(handle);
    auto result = run(ask<wire::CoordinatorResult>(at, CoordinatorProcedure::kMissed,
                                                   wire::MissedArgs{bytes, index(node), which}));
    return result ? result->status : NfsStatus::kServerFault;
  }
  Task<Result<wire::CoordinatorResult>> truncate(const Side& at, routing::FileHandle handle,
                                                 std::uint64_t size, Epoch epoch) {
    auto bytes = handles_.mint(handle);
    return ask<wire::CoordinatorResult>(at, CoordinatorProcedure::kTruncate,
                                        wire::CoordinatorTruncateArgs{bytes, size, epoch});
  }
  Task<Result<wire::CoordinatorResult>> remove(const Side& at, routing::FileHandle handle) {
    auto bytes = handles_.mint(handle);
    return ask<wire::CoordinatorResult>(at, CoordinatorProcedure::kRemove,
                                        wire::CoordinatorRemoveArgs{bytes});
  }
  Task<NfsStatus> commit(const Side& at, routing::FileHandle handle) {
    rpc::XdrWriter out;
    auto bytes = handles_.mint(handle);
    nfs3::encode_arguments(out, nfs3::CommitArgs{.file = bytes});
    auto response = co_await network_.call({.to = endpoint(at.self.name),
                                            .program = nfs3::kProgram,
                                            .version = nfs3::kVersion,
                                            .procedure = static_cast<std::uint32_t>(nfs3::Procedure::kCommit),
                                            .arguments = out.take(),
                                            .timeout = 60s});
    if (!response) co_return NfsStatus::kServerFault;
    co_return static_cast<NfsStatus>(load_be<std::uint32_t>(response->results().data()));
  }

  // ---- what the manager does ----
  wire::MoveSitesResult tell() {
    auto answer = run(service::internal_call<wire::MoveSitesResult>(
        network_, endpoint(from->self.name), wire::kMovesProgram, MovesProcedure::kMove,
        wire::MoveSitesArgs{move, rate, paused}));
    EXPECT_TRUE(answer);
    return answer.value_or(wire::MoveSitesResult{});
  }
  bool until(MovePhase phase, Duration patience = 40s) {
    for (const MonoTime end = loop_.now() + patience; loop_.now() < end; loop_.advance(20ms)) {
      told = tell();
      if (told.phase == phase) return true;
    }
    return false;
  }
  // The same site back to where it was.
  void turn_round() {
    std::swap(from, to);
    move.id.value += 1;
    move.begun.value += 1;
    std::swap(move.from, move.to);
  }
  // Pieces of maps that this coordinator has.
  std::size_t pieces(const Side& of) const {
    std::size_t count = 0;
    auto at = of.store->iterate("", std::string(17, '\xff'));
    for (at->seek(""); at->valid(); at->next()) count += at->key().size() == 16 ? 1 : 0;
    return count;
  }

  testing::FakeObjects small{loop_};
  FakeNode store1{loop_}, store2{loop_};
  service::testing::FakeAuthority authority{loop_, handles_};
  std::unique_ptr<Side> from, to;
  std::vector<FileId> here, there;  // of a site of each
  wire::SiteMove move;
  std::uint64_t rate = 0;
  bool paused = false, over = false;
  wire::MoveSitesResult told;
};

TEST_F(SitesTest, AMapGoesWithItsSiteAndIsFreed) {
  auto placed = layout(*from, mapped(here[0]), 5, true);
  ASSERT_EQ(placed.layout.piece.sites.size(), wire::kStripesOfPiece);
  layout(*to, mapped(there[0]), 5, true);
  ASSERT_EQ(pieces(*from), 1u);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(told.tries, 0u);
  EXPECT_GT(told.copied_bytes, 500u);
  EXPECT_EQ(layout(*to, mapped(here[0]), 5).layout.piece, placed.layout.piece);
  EXPECT_EQ(pieces(*to), 2u);
  EXPECT_EQ(pieces(*from), 0u);
  restart(*from);
  EXPECT_EQ(pieces(*from), 0u);
}

TEST_F(SitesTest, WhatIsPlacedWhileMapsAreCopiedGoesAlong) {
  for (std::uint64_t piece = 0; piece < 4; ++piece) layout(*from, mapped(here[0]), piece * 256, true);
  rate = 500;
  ASSERT_TRUE(until(MovePhase::kCopying));
  auto late = layout(*from, mapped(here[0]), 100 * 256, true);
  ASSERT_FALSE(late.layout.piece.sites.empty());
  ASSERT_EQ(tell().phase, MovePhase::kCopying);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(layout(*to, mapped(here[0]), 100 * 256).layout.piece, late.layout.piece);
  EXPECT_EQ(pieces(*to), 5u);
}

// Until a piece is durable its requests go by the old one; what goes along is the new one.
TEST_F(SitesTest, APieceThatIsJustBeingMadeDurableGoesAlong) {
  from->store_options.sync_time = 400ms;
  restart(*from);
  for (std::uint64_t piece = 0; piece < 4; ++piece) layout(*from, mapped(here[0]), piece * 256, true);
  rate = 500;
  ASSERT_TRUE(until(MovePhase::kCopying));
  std::optional<wire::LayoutResult> late;
  auto bytes = handles_.mint(mapped(here[0]));
  start(ask<wire::LayoutResult>(*from, CoordinatorProcedure::kLayout, wire::LayoutArgs{bytes, 9 * 256, true}),
        [&](auto result) { late = *result; });
  loop_.advance(20ms);
  EXPECT_FALSE(late);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  ASSERT_TRUE(late);
  EXPECT_EQ(layout(*to, mapped(here[0]), 9 * 256).layout.piece, late->layout.piece);
}

TEST_F(SitesTest, WhatCopiesMissGoesAlongAndIsKnownAtOnce) {
  store1.status = NfsStatus::kIo;  // so that nothing is made whole meanwhile
  ASSERT_EQ(missed(*from, mirrored(here[0]), "store2", {5, 7}), NfsStatus::kOk);
  ASSERT_TRUE(until(MovePhase::kDone));
  auto there_now = layout(*to, mirrored(here[0]));
  ASSERT_EQ(there_now.layout.missing.size(), 1u);
  EXPECT_EQ(there_now.layout.missing[0].server, index("store2"));
  EXPECT_THAT(there_now.layout.missing[0].stripes, ElementsAre(wire::StripeRange{5, 7}));
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 0u);
  EXPECT_EQ(from->metric("coordinator_copies_missing_something"), 0u);
  restart(*from);
  restart(*to);
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 0u) << "a replay brings nothing back";
  EXPECT_EQ(layout(*to, mirrored(here[0])).layout.missing.size(), 1u);
  // The new owner makes it whole.
  store1.status = NfsStatus::kOk;
  loop_.advance(5s);
  EXPECT_THAT(layout(*to, mirrored(here[0])).layout.missing, IsEmpty());
}

TEST_F(SitesTest, WhatACopyMissesWhileIntentionsAreCopiedGoesAlong) {
  store1.copy_status = NfsStatus::kIo;
  ASSERT_EQ(missed(*from, mirrored(here[0]), "store2", {5, 7}), NfsStatus::kOk);
  rate = 1;
  ASSERT_TRUE(until(MovePhase::kCopying));
  ASSERT_EQ(missed(*from, mirrored(here[0]), "store2", {9, 10}), NfsStatus::kOk);
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  auto now = layout(*to, mirrored(here[0])).layout.missing;
  ASSERT_EQ(now.size(), 1u);
  EXPECT_THAT(now[0].stripes, ElementsAre(wire::StripeRange{5, 7}, wire::StripeRange{9, 10}));
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 1u) << "one record, not one of each time";
}

// Whoever acted by a layout of the old owner would not hear of what the new one changes.
TEST_F(SitesTest, AllLayoutsOfTheSiteAreRecalledBeforeItIsGivenAway) {
  auto before = layout(*from, mirrored(here[0]));
  bool given_before = false;
  store1.on_recall = [&] { given_before = given_before || !from->ownership.owns_all(move.sites); };
  ASSERT_TRUE(until(MovePhase::kDone));
  for (const FakeNode* node : {&store1, &store2}) {
    ASSERT_EQ(node->recalls.size(), 2u) << "before the switch as well";
    EXPECT_THAT(node->recalls[1].sites, ElementsAre(move.sites[0]));
    EXPECT_EQ(node->recalls[1].coordinator, from->self.index);
    EXPECT_GT(node->recalls[1].version, before.layout.version);
  }
  EXPECT_FALSE(given_before);
  auto after = layout(*to, mirrored(here[0]));
  EXPECT_GT(after.layout.changed, store1.recalls[1].version) << "versions go on growing";
  EXPECT_GT(after.layout.others_order_since, store1.recalls[1].version);
}

TEST_F(SitesTest, ARecallIsWaitedForAndNoLayoutIsGivenMeanwhile) {
  layout(*from, mirrored(here[0]));
  store1.on_recall = [&] { store1.recall_waits = store1.recalls.size() == 2; };  // at the switch
  tell();
  ASSERT_TRUE(loop_.run_until([&] { return store1.recalls.size() == 2; }, 10s));
  EXPECT_TRUE(from->ownership.owns_all(move.sites));
  auto refused = layout(*from, mirrored(here[0]));
  EXPECT_EQ(refused.status, NfsStatus::kJukebox)
      << "at once: a write may wait for it, and the recall for that";
  EXPECT_EQ(refused.owner, from->self.index);
  store1.recall_waits = false;
  ASSERT_TRUE(until(MovePhase::kDone));
}

// A node that does not answer is out when its session is; and that is before requests are held.
TEST_F(SitesTest, ANodeThatIsAwayHoldsNoRequestUp) {
  store1.recall_waits = true;
  const MonoTime began = loop_.now();
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_LT(loop_.now() - began, 6s);
  EXPECT_LT(told.pause_us, 100'000u);
}

TEST_F(SitesTest, VersionsGoOnGrowingAlsoAfterAStart) {
  auto before = layout(*from, mirrored(here[0]));
  for (int i = 0; i < 3; ++i) missed(*from, mirrored(here[0]), "store2", {5, 6});
  ASSERT_TRUE(until(MovePhase::kDone));
  const std::uint64_t first = layout(*to, mirrored(here[0])).layout.changed;
  EXPECT_GT(first, before.layout.version);
  std::string record = to->store->get("version").value().value_or("");
  ASSERT_EQ(record.size(), 8u);
  // As if the old owner's clock had been a year ahead.
  const std::uint64_t ahead = first + 31'536'000'000'000'000ull;
  store_be(reinterpret_cast<std::uint8_t*>(record.data()), ahead);
  storage::WriteBatch batch;
  batch.put("version", record);
  auto position = to->store->apply(batch);
  ASSERT_TRUE(position);
  ASSERT_TRUE(run(to->store->durable(*position)));
  restart(*to);
  EXPECT_GT(layout(*to, mirrored(here[0])).layout.changed, ahead);
}

TEST_F(SitesTest, WhoAsksTheOldOwnerIsServedByTheNewOne) {
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(run(commit(*from, plain(here[0]))), NfsStatus::kOk);
  EXPECT_EQ(run(truncate(*from, plain(here[0]), 100, Epoch{4}))->status, NfsStatus::kOk);
  EXPECT_EQ(missed(*from, mirrored(here[0]), "store2", {5, 6}), NfsStatus::kOk);
  EXPECT_EQ(run(remove(*from, plain(here[0])))->status, NfsStatus::kOk);
  EXPECT_GE(from->metric("coordinator_relayed_total"), 3u);
  EXPECT_EQ(from->metric("coordinator_log_records_total"), 0u) << "it never acts for them";
  EXPECT_GE(to->metric("coordinator_log_records_total"), 3u);
  auto refused = layout(*from, mirrored(here[0]));
  EXPECT_EQ(refused.status, NfsStatus::kJukebox);
  EXPECT_EQ(refused.owner, to->self.index) << "the node is to ask it, by a session with it";
  auto bytes = handles_.mint(mapped(here[0]));
  EXPECT_EQ(run(ask<wire::MapResult>(*from, CoordinatorProcedure::kMap, wire::MapArgs{bytes, 0}))->status,
            NfsStatus::kOk);
}

TEST_F(SitesTest, WhoseTablesAreWrongAreNotSentInCircles) {
  // Each takes the other for the owner.
  wire::Tables other = to->managers;
  other.sites[static_cast<std::size_t>(wire::Role::kCoordinator)].assign(
      other.sites[static_cast<std::size_t>(wire::Role::kCoordinator)].size(), from->self.index);
  ASSERT_TRUE(until(MovePhase::kDone));
  to->tables.set(routing::RoutingTables::make(config_, other).value());
  auto result = run(truncate(*from, plain(here[0]), 100, Epoch{4}));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, NfsStatus::kJukebox);
}

// Participants that are away hold up no switch: what waits for them begins anew at the new owner.
TEST_F(SitesTest, AnOperationThatWaitsForAParticipantGoesOnAtTheNewOwner) {
  silence("small1");
  std::optional<NfsStatus> committed, truncated;
  start(commit(*from, plain(here[0])), [&](NfsStatus status) { committed = status; });
  start(truncate(*from, plain(here[0]), 100, Epoch{4}),
        [&](auto result) { truncated = result ? result->status : NfsStatus::kServerFault; });
  loop_.advance(2s);
  EXPECT_FALSE(committed || truncated);
  const MonoTime began = loop_.now();
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(told.tries, 0u);
  EXPECT_LT(loop_.now() - began, 1s) << "no call's end is waited for";
  EXPECT_FALSE(committed || truncated);
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 0u);
  EXPECT_GE(to->metric("coordinator_open_intentions"), 1u);
  serve("small1", small);
  ASSERT_TRUE(loop_.run_until([&] { return committed && truncated; }, 20s));
  EXPECT_EQ(committed, NfsStatus::kOk);
  EXPECT_EQ(truncated, NfsStatus::kOk);
  EXPECT_EQ(small.truncated[here[0]].second, Epoch{4});
  loop_.advance(3s);
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 0u);
}

// And those of other sites are not touched.
TEST_F(SitesTest, AnOperationOfAnotherSiteWaitsOn) {
  FileId other{1000};
  while (!from->tables.get()->owns(from->self.index, wire::Role::kCoordinator,
                                   tables_.get()->coordinator_site(other)) ||
         tables_.get()->coordinator_site(other).value == move.sites[0]) {
    ++other.value;
  }
  silence("store1");
  std::optional<NfsStatus> truncated;
  start(truncate(*from, plain(other), 100, Epoch{4}), [&](auto result) { truncated = result->status; });
  loop_.advance(1s);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 1u);
  serve("store1", store1);
  ASSERT_TRUE(loop_.run_until([&] { return truncated.has_value(); }, 20s));
  EXPECT_EQ(truncated, NfsStatus::kOk);
}

TEST_F(SitesTest, ARemovalThatIsOwedIsDoneByTheNewOwner) {
  silence("store1");
  ASSERT_EQ(run(remove(*from, plain(here[0])))->status, NfsStatus::kOk);
  loop_.advance(1s);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 0u);
  restart(*from);
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 0u);
  serve("store1", store1);
  loop_.advance(10s);
  EXPECT_TRUE(store1.removed.contains(here[0]));
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 0u);
}

// More than are removed at once: some wait.
TEST_F(SitesTest, RemovalsThatWaitAreLeftToTheNewOwner) {
  silence("store1");
  std::size_t count = 0;
  for (FileId file = here[0]; count < RemoveOperation::kAtOnce + 10; ++file.value) {
    if (tables_.get()->coordinator_site(file).value != move.sites[0]) continue;
    ASSERT_EQ(run(remove(*from, plain(file)))->status, NfsStatus::kOk);
    ++count;
  }
  ASSERT_EQ(from->metric("coordinator_removes_owed"), count);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(from->metric("coordinator_removes_owed"), 0u);
  EXPECT_EQ(to->metric("coordinator_removes_owed"), count);
  serve("store1", store1);
  loop_.advance(20s);
  EXPECT_EQ(store1.removed.size(), count);
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 0u);
}

TEST_F(SitesTest, WhatEndsWhileIntentionsAreCopiedIsNotDoneAgain) {
  silence("store1");
  ASSERT_EQ(run(remove(*from, plain(here[0])))->status, NfsStatus::kOk);
  rate = 1;
  ASSERT_TRUE(until(MovePhase::kCopying));
  ASSERT_EQ(to->metric("coordinator_open_intentions"), 1u);
  serve("store1", store1);
  ASSERT_TRUE(loop_.run_until([&] { return store1.removed.contains(here[0]); }, 20s));
  loop_.advance(1s);
  const int removes = store1.removes;
  rate = 0;
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 0u);
  loop_.advance(3s);
  EXPECT_EQ(store1.removes, removes);
}

// What came to nothing: everything is as before, and goes on.
TEST_F(SitesTest, AMoveThatIsGivenUpLeavesEverythingWhereItWas) {
  silence("store1");
  layout(*from, mapped(here[0]), 5, true);
  ASSERT_EQ(run(remove(*from, plain(FileId{here[0].value})))->status, NfsStatus::kOk);
  rate = 1;
  ASSERT_TRUE(until(MovePhase::kCopying));
  auto aborted = run(
      service::internal_call<wire::AbortMoveResult>(network_, endpoint(from->self.name), wire::kMovesProgram,
                                                    MovesProcedure::kAbort, wire::AbortMoveArgs{move}, 20s));
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->phase, MovePhase::kAborted);
  loop_.advance(2s);
  EXPECT_EQ(pieces(*to), 0u);
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 0u) << "what had come there is given back";
  serve("store1", store1);
  loop_.advance(10s);
  EXPECT_EQ(from->metric("coordinator_open_intentions"), 0u);
  EXPECT_TRUE(store1.removed.contains(here[0]));
}

// The new owner does not record the offer: what was left off goes on at the old one.
TEST_F(SitesTest, WhatWasLeftOffGoesOnWhereTheSwitchComesToNothing) {
  silence("store1");
  std::optional<NfsStatus> truncated;
  start(truncate(*from, plain(here[0]), 100, Epoch{4}), [&](auto result) { truncated = result->status; });
  ASSERT_EQ(run(remove(*from, plain(here[0])))->status, NfsStatus::kOk);
  loop_.advance(1s);
  to->disk.set_fault([](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.path.find("ownership") != std::string::npos) return Error{Errc::kIo, "injected"};
    return std::nullopt;
  });
  EXPECT_FALSE(until(MovePhase::kDone, 5s));
  EXPECT_TRUE(from->ownership.owns_all(move.sites));
  EXPECT_GE(told.tries, 1u);
  serve("store1", store1);
  ASSERT_TRUE(loop_.run_until([&] { return truncated && store1.removed.contains(here[0]); }, 20s));
  EXPECT_EQ(truncated, NfsStatus::kOk);
  to->disk.set_fault(nullptr);
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(to->metric("coordinator_open_intentions"), 0u);
}

TEST_F(SitesTest, AMessageThatComesAgainOrLateChangesNothing) {
  layout(*from, mapped(here[0]), 5, true);
  auto send = [&](std::uint64_t attempt, std::uint64_t number, std::uint64_t piece) {
    wire::ReceiveArgs args{.move = move.id.value, .attempt = attempt, .number = number};
    args.pieces.push_back({here[0], {piece, std::vector<std::uint32_t>(wire::kStripesOfPiece, 3)}});
    return run(ask<wire::CoordinatorResult>(*to, CoordinatorProcedure::kReceive, args))->status;
  };
  EXPECT_EQ(send(7, 1, 40), NfsStatus::kStale) << "nothing was prepared";
  auto prepare = [&](std::uint64_t attempt) {
    for (int i = 0; i < 3; ++i) {
      (void)run(service::internal_call<wire::MovesResult>(network_, endpoint(to->self.name),
                                                          wire::kMovesProgram, MovesProcedure::kPrepare,
                                                          wire::PrepareSitesArgs{move, attempt}));
      loop_.advance(100ms);
    }
  };
  prepare(7);
  EXPECT_EQ(send(7, 1, 40), NfsStatus::kOk);
  EXPECT_EQ(send(7, 2, 41), NfsStatus::kOk);
  EXPECT_EQ(send(7, 1, 50), NfsStatus::kOk) << "it comes again";
  EXPECT_EQ(pieces(*to), 2u);
  EXPECT_EQ(send(7, 9, 51), NfsStatus::kStale) << "one in between was lost";
  prepare(8);
  EXPECT_EQ(pieces(*to), 0u) << "another attempt begins with nothing";
  EXPECT_EQ(send(7, 3, 52), NfsStatus::kStale);
  EXPECT_EQ(pieces(*to), 0u);
  wire::ReceiveArgs foreign{.move = move.id.value, .attempt = 8, .number = 1};
  foreign.pieces.push_back({there[0], {1, std::vector<std::uint32_t>(wire::kStripesOfPiece, 3)}});
  EXPECT_EQ(run(ask<wire::CoordinatorResult>(*to, CoordinatorProcedure::kReceive, foreign))->status,
            NfsStatus::kInval)
      << "of another site";
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(pieces(*to), 1u);
}

TEST_F(SitesTest, ASiteComesBackWithWhatItGotElsewhere) {
  auto placed = layout(*from, mapped(here[0]), 5, true);
  auto first = layout(*from, mirrored(here[0]));
  ASSERT_TRUE(until(MovePhase::kDone));
  auto more = layout(*to, mapped(here[0]), 300, true);
  turn_round();
  ASSERT_TRUE(until(MovePhase::kDone));
  EXPECT_EQ(layout(*to, mapped(here[0]), 5).layout.piece, placed.layout.piece);
  EXPECT_EQ(layout(*to, mapped(here[0]), 300).layout.piece, more.layout.piece);
  EXPECT_EQ(pieces(*from), 0u);
  auto back = layout(*to, mirrored(here[0]));
  EXPECT_GT(back.layout.changed, more.layout.version);
  EXPECT_GT(back.layout.others_order_since, first.layout.version)
      << "a write from before may have been done meanwhile by another";
}

}  // namespace
}  // namespace slice::coordinator
