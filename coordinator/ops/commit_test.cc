#include "coordinator/ops/commit.h"

#include "coordinator/testing/coordinator_fixture.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using namespace std::chrono_literals;

class CommitTest : public testing::CoordinatorFixture {};

TEST_F(CommitTest, AFileOfOneServerCostsNoLogWriteAndNoExtraRoundTrip) {
  the_file().striped = false;
  small_.end = 5000;
  small_.mtime = {10, 20};
  ASSERT_EQ(commit_now(file()).status, NfsStatus::kOk);
  std::uint64_t delivered = network_.delivered(), syncs = disk_.syncs();
  authority_.fetches = authority_.merges = small_.commits = 0;

  loop_.advance(3s);  // nothing cached any more
  ASSERT_EQ(commit_now(file()).status, NfsStatus::kOk);
  EXPECT_EQ(small_.commits, 1);
  EXPECT_EQ(authority_.fetches, 1u);
  EXPECT_EQ(authority_.merges, 1u);
  EXPECT_EQ(network_.delivered() - delivered, 3u);
  EXPECT_EQ(store1_.commits + store2_.commits, 0);
  EXPECT_EQ(disk_.syncs(), syncs);
  EXPECT_EQ(process().metric("coordinator_log_records_total"), 0u);
  EXPECT_EQ(process().metric("coordinator_commits_single_total"), 2u);
}

TEST_F(CommitTest, AStripedFileTakesOneRoundOfPartsAndOneLogRecord) {
  store1_.end = 300000;
  store2_.end = 200000;
  small_.end = 65536;
  store2_.mtime = {50, 5};
  store1_.epoch = store2_.epoch = small_.epoch = Epoch{2};
  for (auto* each : participants()) each->delay = 10ms;
  MonoTime start = loop_.now();
  auto done = commit_now(file());
  ASSERT_EQ(done.status, NfsStatus::kOk);
  EXPECT_EQ(done.ok.verifier, Verifier{1});
  EXPECT_FALSE(done.ok.wcc.before.has_value());
  EXPECT_FALSE(done.ok.wcc.after.has_value());
  EXPECT_EQ(loop_.now() - start, 10ms) << "the parts did not run beside one another";
  for (auto* each : participants()) EXPECT_EQ(each->commits, 1);
  EXPECT_EQ(authority_.fetches, 1u);
  EXPECT_EQ(authority_.merges, 1u);
  EXPECT_EQ(network_.delivered(), 5u);
  EXPECT_EQ(the_file().attributes.size, 300000u);
  EXPECT_EQ(the_file().attributes.mtime, (nfs3::Time{50, 5}));
  EXPECT_EQ(authority_.last_merge.epoch, Epoch{2});
  EXPECT_EQ(process().metric("coordinator_log_records_total"), 1u);
}

// A node without sites of such files cannot hold any of it.
TEST_F(CommitTest, OnlyServersThatMayHoldSomethingOfTheFileAreAsked) {
  wire::Tables tables = tables_.get()->wire();
  wire::keep_layout_sites(tables);
  for (std::uint32_t& owner : tables.sites[2]) owner = config_.find("store1")->index;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  ASSERT_EQ(commit_now(file()).status, NfsStatus::kOk);
  EXPECT_EQ(store1_.commits, 1);
  EXPECT_EQ(small_.commits, 1);
  EXPECT_EQ(store2_.commits, 0) << "it has sites for files with a layout alone";
}

// Its bytes begin behind what a small-file server may have (docs/raw-volumes.md).
TEST_F(CommitTest, ForAnOpenerOnlyStorageNodesAreAsked) {
  ASSERT_EQ(commit_now(routing::opened_at(file(), Epoch{2})).status, NfsStatus::kOk);
  EXPECT_EQ(store1_.commits, 1);
  EXPECT_EQ(store2_.commits, 1);
  EXPECT_EQ(small_.commits, 0);
}

// Its tables said so when the COMMIT began; by now all that it had is elsewhere.
TEST_F(CommitTest, AServerThatIsRemovedMeanwhileIsNotWaitedFor) {
  store1_.end = 100000;
  silence("store2");
  std::optional<Committed> done;
  commit(file(), [&](Committed each) { done = each; });
  loop_.advance(10s);
  ASSERT_FALSE(done);
  wire::Tables tables = tables_.get()->wire();
  const std::uint32_t gone = config_.find("store2")->index;
  for (std::uint32_t& owner : tables.sites[2]) owner = config_.find("store1")->index;
  tables.servers[gone] = {.server = gone, .role = wire::Role::kRemoved, .endpoint = {}, .name = "store2"};
  ++tables.generation.value;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  const int before = store1_.commits;
  loop_.advance(10s);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, NfsStatus::kOk);
  EXPECT_GT(store1_.commits, before) << "who has its sites now is asked in its place";
  EXPECT_EQ(the_file().attributes.size, 100000u);
}

// What it had acknowledged, and nobody has, is to be written again.
TEST_F(CommitTest, ALostServerIsNotWaitedForAndItsWritesAreDoneAgain) {
  store1_.end = 100000;
  silence("store2");
  std::optional<Committed> done;
  commit(file(), [&](Committed each) { done = each; });
  loop_.advance(10s);
  ASSERT_FALSE(done);
  wire::Tables tables = tables_.get()->wire();
  tables.servers[config_.find("store2")->index].lost = Verifier{33};
  ++tables.generation.value;
  tables_.set(routing::RoutingTables::make(config_, tables).value());
  loop_.advance(10s);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, NfsStatus::kOk);
  EXPECT_EQ(done->ok.verifier, Verifier{33}) << "it gave smaller ones";
  EXPECT_EQ(the_file().attributes.size, 100000u);
}

TEST_F(CommitTest, TheAnswerDoesNotWaitForTheLog) {
  store1_.end = 1;
  disk_.set_delay(1s, 1s);
  MonoTime start = loop_.now();
  ASSERT_EQ(commit_now(file()).status, NfsStatus::kOk);
  EXPECT_LT(loop_.now() - start, 1s);
}

TEST_F(CommitTest, AFullLogDiskHarmsNoCommit) {
  store1_.end = 1;
  disk_.set_capacity(0);
  EXPECT_EQ(commit_now(file()).status, NfsStatus::kOk);
}

TEST_F(CommitTest, LaggardsLearnTheLargestVerifierBeforeTheAnswer) {
  store1_.verifier = Verifier{9};
  store2_.verifier = Verifier{4};
  small_.verifier = Verifier{7};
  auto done = commit_now(file());
  ASSERT_EQ(done.status, NfsStatus::kOk);
  EXPECT_EQ(done.ok.verifier, Verifier{9});
  for (auto* each : participants()) EXPECT_EQ(each->verifier, Verifier{9});
  EXPECT_EQ(store1_.commits, 1);
  EXPECT_EQ(store2_.commits, 2);
  EXPECT_EQ(small_.commits, 2);
  // From then on the ensemble is steady: the same verifier, no extra calls.
  done = commit_now(file());
  EXPECT_EQ(done.ok.verifier, Verifier{9});
  EXPECT_EQ(store2_.commits, 3);
  EXPECT_EQ(process().metric("coordinator_verifier_laggards_total"), 2u);
}

TEST_F(CommitTest, AVerifierThatAHeartbeatBroughtIsPassedOn) {
  process().verifier.see(Verifier{12});
  auto done = commit_now(file());
  EXPECT_EQ(done.ok.verifier, Verifier{12});
  for (auto* each : participants()) {
    EXPECT_EQ(each->verifier, Verifier{12});
    EXPECT_EQ(each->commits, 1);
  }
}

TEST_F(CommitTest, AParticipantThatIsAwayIsWaitedFor) {
  silence("store1");
  std::optional<Committed> done;
  commit(file(), [&](Committed c) { done = c; });
  loop_.advance(2min);
  EXPECT_FALSE(done.has_value());
  EXPECT_EQ(store2_.commits, 1);
  serve("store1", store1_);
  ASSERT_TRUE(loop_.run_until([&] { return done.has_value(); }, 10s));
  EXPECT_EQ(done->status, NfsStatus::kOk);
  EXPECT_EQ(store1_.commits, 1);
  EXPECT_EQ(store2_.commits, 1);
  EXPECT_GT(process().metric("coordinator_participant_retries_total"), 5u);
}

TEST_F(CommitTest, JukeboxOfAParticipantIsWaitedForAndItsErrorsAreAnswered) {
  store1_.status = NfsStatus::kJukebox;
  std::optional<Committed> done;
  commit(file(), [&](Committed c) { done = c; });
  loop_.advance(3s);
  EXPECT_FALSE(done.has_value());
  store1_.status = NfsStatus::kIo;
  ASSERT_TRUE(loop_.run_until([&] { return done.has_value(); }, 10s));
  EXPECT_EQ(done->status, NfsStatus::kIo);
  EXPECT_EQ(authority_.merges, 0u);
}

TEST_F(CommitTest, AParticipantWithoutTheObjectHoldsNothingBack) {
  store1_.status = NfsStatus::kNoEnt;
  store2_.end = 10;
  EXPECT_EQ(commit_now(file()).status, NfsStatus::kOk);
  EXPECT_EQ(the_file().attributes.size, 10u);
}

TEST_F(CommitTest, OnlyTheNewestEpochSaysSomethingOfTheSize) {
  store1_.end = 1 << 30;
  store1_.epoch = Epoch{1};
  store2_.end = 100;
  store2_.epoch = Epoch{2};
  EXPECT_EQ(commit_now(file()).status, NfsStatus::kOk);
  EXPECT_EQ(the_file().attributes.size, 100u);
  EXPECT_EQ(authority_.last_merge.epoch, Epoch{2});
}

TEST_F(CommitTest, TheSizeIsDurableAtTheAuthorityBeforeTheAnswer) {
  store1_.end = 4096;
  authority_.merge_delay = 3s;
  MonoTime start = loop_.now();
  ASSERT_EQ(commit_now(file()).status, NfsStatus::kOk);
  EXPECT_GE(loop_.now() - start, 3s);
  EXPECT_EQ(the_file().attributes.size, 4096u);
}

TEST_F(CommitTest, AnAuthorityThatGoesAwayBeforeTheReportIsWaitedFor) {
  store1_.end = 4096;
  store1_.before = [this] { silence("dir1"); };
  std::optional<Committed> done;
  commit(file(), [&](Committed c) { done = c; });
  loop_.advance(1min);
  EXPECT_FALSE(done.has_value());
  serve("dir1", authority_);
  ASSERT_TRUE(loop_.run_until([&] { return done.has_value(); }, 20s));
  EXPECT_EQ(done->status, NfsStatus::kOk);
  EXPECT_EQ(the_file().attributes.size, 4096u);
}

TEST_F(CommitTest, AnAuthorityThatIsAwayMakesTheClientTryAgain) {
  silence("dir1");
  EXPECT_EQ(commit_now(file()).status, NfsStatus::kJukebox);
}

TEST_F(CommitTest, CommitsOfOneFileShareRounds) {
  for (auto* each : participants()) each->delay = 100ms;
  int done = 0;
  auto count = [&](Committed c) { done += c.status == NfsStatus::kOk ? 1 : 0; };
  commit(file(), count);
  loop_.advance(50ms);
  for (int i = 0; i < 20; ++i) commit(file(), count);  // must see writes that the running round missed
  loop_.advance(1s);
  EXPECT_EQ(done, 21);
  EXPECT_EQ(store1_.commits, 2);
  EXPECT_EQ(store1_.most_under_way, 1u);
}

TEST_F(CommitTest, WhoMayNotWriteMayNotCommit) {
  EXPECT_EQ(commit_now(file(), 1001).status, NfsStatus::kAcces);
  EXPECT_EQ(commit_now(file(), 0).status, NfsStatus::kOk);
  EXPECT_EQ(commit_now(file(), 1000, 0x0b000001).status, NfsStatus::kAcces);  // no export fits this address
  EXPECT_EQ(store1_.commits, 1);
}

TEST_F(CommitTest, HandlesAreChecked) {
  routing::FileHandle directory = file();
  directory.type = nfs3::FileType::kDirectory;
  EXPECT_EQ(commit_now(directory).status, NfsStatus::kIsDir);
  routing::HandleCodec forger(VolumeId{1}, {9, 9, 9});
  rpc::XdrWriter arguments;
  auto forged = forger.mint(file());
  nfs3::encode_arguments(arguments, nfs3::CommitArgs{.file = forged});
  rpc::Request request{.to = endpoint("coord1"),
                       .program = nfs3::kProgram,
                       .version = 3,
                       .procedure = 21,
                       .arguments = arguments.take()};
  auto reply = run(network_.call(std::move(request)));
  ASSERT_TRUE(reply);
  EXPECT_EQ(load_be<std::uint32_t>(reply->results().data()), 10001u);
  EXPECT_EQ(commit_now(file(99)).status, NfsStatus::kStale);
}

TEST_F(CommitTest, OtherProceduresAreMisdirected) {
  silence("small1");  // so that there is nobody to relay it to
  rpc::XdrWriter arguments;
  auto handle = handles_.mint(file());
  nfs3::encode_arguments(arguments, nfs3::ReadArgs{.file = handle, .offset = 0, .count = 10});
  rpc::Request request{.to = endpoint("coord1"),
                       .program = nfs3::kProgram,
                       .version = 3,
                       .procedure = 6,
                       .arguments = arguments.take(),
                       .timeout = 20s};
  auto reply = run(network_.call(std::move(request)));
  ASSERT_TRUE(reply);
  EXPECT_EQ(load_be<std::uint32_t>(reply->results().data()), 10008u);
  EXPECT_EQ(process().metric("nfs_misdirected_total"), 1u);
}

TEST_F(CommitTest, RoomComesWithTheReplyOnlyWhereAProxyFillsIt) {
  store1_.end = 123456;
  routing::FileHandle patched = file();
  patched.hint.can_patch = true;
  auto done = commit_now(patched);
  ASSERT_EQ(done.status, NfsStatus::kOk);
  ASSERT_TRUE(done.ok.wcc.after.has_value());
  EXPECT_EQ(done.ok.wcc.after->nlink, 0u);
  EXPECT_EQ(done.ok.wcc.after->size, 123456u);
  EXPECT_FALSE(commit_now(file()).ok.wcc.after.has_value());
}

TEST_F(CommitTest, ACrashAtAnyPointLeavesACommitThatRecoveryCompletes) {
  for (const char* point : {"commit.begun", "commit.part", "commit.parts", "commit.reported"}) {
    for (auto* each : participants()) each->commits = 0;
    store1_.end += 1000;
    kill_at(point);
    int before = kills_;
    bool answered = false;
    commit(file(), [&](Committed) { answered = true; });
    loop_.advance(1s);
    EXPECT_FALSE(answered) << point;
    ASSERT_EQ(kills_, before + 1) << point;
    boot();
    // What recovery owes it does by itself; the client asks again in any case.
    ASSERT_EQ(commit_now(file()).status, NfsStatus::kOk) << point;
    loop_.advance(1s);
    EXPECT_EQ(the_file().attributes.size, store1_.end) << point;
    for (auto* each : participants()) EXPECT_GE(each->commits, 1) << point;
    loop_.advance(3s);
    EXPECT_EQ(process().metric("coordinator_open_intentions"), 0u) << point;
  }
}

}  // namespace
}  // namespace slice::coordinator
