#include "coordinator/ops/truncate.h"

#include "coordinator/testing/coordinator_fixture.h"

namespace slice::coordinator {

using NfsStatus = nfs3::Status;

namespace {

using namespace std::chrono_literals;

class TruncateTest : public testing::CoordinatorFixture {
 protected:
  std::size_t cut_count(Epoch epoch) {
    std::size_t n = 0;
    for (auto* each : participants()) {
      auto found = each->truncated.find(FileId{77});
      if (found != each->truncated.end() && found->second.second == epoch) ++n;
    }
    return n;
  }
};

TEST_F(TruncateTest, CutsEveryPartAfterTheIntentionIsDurable) {
  disk_.set_delay(5ms, 5ms);
  std::uint64_t syncs = disk_.syncs();
  for (auto* each : participants()) {
    each->delay = 10ms;
    each->before = [this, syncs] { EXPECT_GT(disk_.syncs(), syncs) << "a part ran before its intention"; };
  }
  auto result = run(truncate_call(file(), 1000, Epoch{3}));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, NfsStatus::kOk);
  for (auto* each : participants()) {
    EXPECT_EQ(each->truncated[FileId{77}], (std::pair<std::uint64_t, Epoch>{1000, Epoch{3}}));
    EXPECT_EQ(each->truncates, 1);
  }
  EXPECT_EQ(process().metric("coordinator_log_records_total"), 1u);
  EXPECT_EQ(disk_.syncs() - syncs, 1u);
  EXPECT_EQ(network_.delivered(), 4u);  // the call itself and one for each part
}

// The tables here do not show yet that the file's small-file site has moved.
TEST_F(TruncateTest, TheSmallFileServerThatHasTheSiteByNowCutsItsPart) {
  testing::FakeObjects owner(loop_);
  small_.also = {add_server("small2", wire::Role::kSmallFile, owner)};
  ASSERT_EQ(run(truncate_call(file(), 1000, Epoch{3}))->status, NfsStatus::kOk);
  EXPECT_EQ(owner.truncated[FileId{77}], (std::pair<std::uint64_t, Epoch>{1000, Epoch{3}}));
  // Stripes of block-mapped files stay where they are; below the threshold they are as others.
  routing::FileHandle mapped = file();
  mapped.flags |= SLICE_HANDLE_BLOCK_MAPPED;
  ASSERT_EQ(run(truncate_call(mapped, 900, Epoch{4}))->status, NfsStatus::kOk);
  EXPECT_EQ(owner.truncated[FileId{77}], (std::pair<std::uint64_t, Epoch>{900, Epoch{4}}));
  // One names the other: neither has done anything.
  owner.also = {config_.find("small1")->index};
  std::optional<NfsStatus> done;
  start(truncate_call(file(), 5, Epoch{5}, 10min), [&](auto result) { done = result->status; });
  loop_.advance(1min);
  EXPECT_FALSE(done.has_value());
  owner.also.clear();
  ASSERT_TRUE(loop_.run_until([&] { return done.has_value(); }, 10s));
  silence("small2");
}

TEST_F(TruncateTest, APartThatFailsOrIsAwayIsTriedUntilItIsDone) {
  silence("store2");
  store1_.status = NfsStatus::kIo;
  std::optional<NfsStatus> done;
  start(truncate_call(file(), 5, Epoch{1}, 10min), [&](auto result) { done = result->status; });
  loop_.advance(1min);
  EXPECT_FALSE(done.has_value());
  EXPECT_EQ(small_.truncates, 1);
  store1_.status = NfsStatus::kOk;
  loop_.advance(5s);
  EXPECT_FALSE(done.has_value());
  serve("store2", store2_);
  ASSERT_TRUE(loop_.run_until([&] { return done.has_value(); }, 10s));
  EXPECT_EQ(*done, NfsStatus::kOk);
  EXPECT_EQ(cut_count(Epoch{1}), 3u);
  EXPECT_EQ(small_.truncates, 1);
}

TEST_F(TruncateTest, TheSameAskedAgainWaitsForTheFirst) {
  for (auto* each : participants()) each->delay = 2s;
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    start(truncate_call(file(), 5, Epoch{1}, 1min),
          [&](auto result) { done += result->status == NfsStatus::kOk; });
    loop_.advance(500ms);
  }
  EXPECT_EQ(done, 0);
  loop_.advance(2s);
  EXPECT_EQ(done, 3);
  EXPECT_EQ(store1_.truncates, 1);
}

TEST_F(TruncateTest, AFullLogDiskIsAnsweredAndNothingIsCut) {
  disk_.set_capacity(0);
  auto result = run(truncate_call(file(), 1000, Epoch{3}));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, NfsStatus::kNoSpc);
  EXPECT_EQ(cut_count(Epoch{3}), 0u);
  disk_.set_capacity(1 << 30);
  EXPECT_EQ(run(truncate_call(file(), 1000, Epoch{3}))->status, NfsStatus::kOk);
  EXPECT_EQ(process().role.state(), "serving");
}

TEST_F(TruncateTest, AFailedLogDiskRefusesAndSaysSo) {
  disk_.set_fault([](const storage::MemoryDisk::Access& access) -> std::optional<Error> {
    if (access.operation == storage::MemoryDisk::Operation::kSync) return Error{Errc::kIo, "injected"};
    return std::nullopt;
  });
  EXPECT_EQ(run(truncate_call(file(), 1000, Epoch{3}))->status, NfsStatus::kIo);
  EXPECT_EQ(cut_count(Epoch{3}), 0u);
  EXPECT_EQ(process().role.state(), "failed: intention log");
}

TEST_F(TruncateTest, HandlesAndCallersAreChecked) {
  routing::FileHandle directory = file();
  directory.type = nfs3::FileType::kDirectory;
  EXPECT_EQ(run(truncate_call(directory, 1, Epoch{1}))->status, NfsStatus::kInval);
  rpc::XdrWriter arguments;
  auto bytes = handles_.mint(file());
  encode(arguments, wire::CoordinatorTruncateArgs{bytes, 1, Epoch{1}});
  rpc::InProcessNetwork outsider(loop_, std::nullopt, {0x0a4d0102, 9});
  outsider.attach(endpoint("coord1"), &process().dispatcher);
  auto refused = run(outsider.call({.to = endpoint("coord1"),
                                    .program = wire::kCoordinatorProgram,
                                    .version = 1,
                                    .procedure = 1,
                                    .arguments = arguments.take()}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
}

// Killed after every durable step, with everything unsynced lost. With a durable intention recovery cuts
// every part by itself; without one no part was cut. The directory server, asking again, finds all cut in any
// case.
TEST_F(TruncateTest, ACrashAtAnyPointLeavesAllOrNothing) {
  struct Point {
    const char* name;
    int n;
    bool owed;
  };
  std::uint32_t epoch = 0;
  for (Point point : {Point{"truncate.begun", 1, false},
                      {"truncate.durable", 1, true},
                      {"truncate.part", 1, true},
                      {"truncate.part", 2, true},
                      {"truncate.part", 3, true},
                      {"truncate.parts", 1, true},
                      {"intentions.cleared", 1, true}}) {
    SCOPED_TRACE(fmt::format("{} {}", point.name, point.n));
    Epoch now{++epoch};
    kill_at(point.name, point.n);
    int before = kills_;
    bool answered = false;
    start(truncate_call(file(), 1000, now), [&](auto result) { answered = result.has_value(); });
    loop_.advance(4s);
    ASSERT_EQ(kills_, before + 1);
    EXPECT_EQ(answered, std::string_view(point.name) == "intentions.cleared");
    if (!point.owed) {
      EXPECT_EQ(cut_count(now), 0u);
    }
    loop_.advance(2s);  // the caller has given up
    boot();
    loop_.advance(1s);
    EXPECT_EQ(cut_count(now), point.owed ? 3u : 0u);
    EXPECT_EQ(run(truncate_call(file(), 1000, now))->status, NfsStatus::kOk);
    EXPECT_EQ(cut_count(now), 3u);
    loop_.advance(3s);
    EXPECT_EQ(process().metric("coordinator_open_intentions"), 0u);
  }
}

TEST_F(TruncateTest, RecoveryWaitsForAParticipantWhileOthersAreServed) {
  silence("store1");
  start(truncate_call(file(), 9, Epoch{4}), [](auto) {});
  loop_.advance(1s);
  kill();
  loop_.advance(10s);
  boot();
  EXPECT_EQ(process().metric("coordinator_open_intentions"), 1u);
  authority_.add(FileId{5});
  EXPECT_EQ(commit_now(file(5)).status, NfsStatus::kOk);
  serve("store1", store1_);
  loop_.advance(10s);
  EXPECT_EQ(cut_count(Epoch{4}), 3u);
  EXPECT_EQ(process().metric("coordinator_open_intentions"), 0u);
}

}  // namespace
}  // namespace slice::coordinator
